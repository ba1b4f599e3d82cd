//! Every kind of change is found, although the manifest was written anew around it, with correct digests.

use super::forging::{Opened, episode, is_test};
use super::*;
use clawhost_bundle::EntryName;
use serde_json::json;

/// A bundle that everything is tried on.
struct Forge {
    bench: Bench,
    file: PathBuf,
}

impl Forge {
    /// The bundle after a change must be found out, with a difference that has these words.
    fn check(&self, what: &str, says: &str, change: impl FnOnce(&mut Opened)) {
        let mut opened = Opened::read(&self.file);
        change(&mut opened);
        let forged = self.bench.data.path().join("forged");
        opened.write(&forged);
        self.found(&forged, what, says);
    }

    fn found(&self, forged: &std::path::Path, what: &str, says: &str) {
        let (exit, report) = self.bench.verified(forged, &[]);
        assert_eq!((exit, report["proof"].as_str()), (CHANGED, Some("changed")), "{what}: {report}");
        let words = |one: &Value| format!("{}: {}", one["record"].as_str().unwrap(), one["what"].as_str().unwrap());
        let differences: Vec<String> = report["differences"].as_array().unwrap().iter().map(words).collect();
        assert!(differences.iter().any(|one| one.contains(says)), "{what}: {differences:#?}");
        assert!(report["conclusion"].as_str().unwrap().starts_with("The bundle was changed"), "{what}");
    }
}

/// The position of the first test episode with this reward.
fn test_episode(lines: &mut [Value], reward: f64) -> usize {
    lines.iter_mut().position(|line| is_test(line) && episode(line)["reward"].as_f64() == Some(reward)).unwrap()
}

/// The report of the first session of the gate.
fn gate(learned: &mut Value) -> &mut Value {
    let iterations = learned["iterations"].as_array_mut().unwrap();
    let gates = iterations.iter_mut().map(|one| &mut one["layers"][0]["details"]["harness"]["gate"]);
    gates.into_iter().find(|gate| !gate.is_null()).unwrap()
}

#[test]
fn whatever_is_changed_by_hand_is_found_and_named() {
    let Some(bench) = Bench::new("whatever_is_changed_by_hand_is_found") else { return };
    bench.learned();
    let file = bench.proved("proof", &[]);
    let forge = Forge { bench, file };
    let (runs, learning) = (EntryName::Runs, EntryName::Learning);

    forge.check("a reward", "reward-state: verdict", |bundle| {
        bundle.lines(|lines| {
            let place = test_episode(lines, 0.0);
            let episode = episode(&mut lines[place]);
            episode["reward"] = json!(1.0);
            episode["verdicts"][0]["verdict"]["scored"]["value"] = json!(1.0);
        });
    });
    forge.check("a reward without its verdict", "reward", |bundle| {
        bundle.lines(|lines| {
            let place = test_episode(lines, 0.0);
            episode(&mut lines[place])["reward"] = json!(1.0);
        });
    });
    forge.check("a number of the report", "summary.evaluation.lift.mean", |bundle| {
        bundle.document(runs, |claim| claim["run"]["summary"]["evaluation"]["lift"]["mean"] = json!(0.99));
    });
    forge.check("the end of an interval", "summary.evaluation.lift.low", |bundle| {
        bundle.document(runs, |claim| claim["run"]["summary"]["evaluation"]["lift"]["low"] = json!(0.98));
    });
    forge.check("the outcome", "summary.outcome", |bundle| {
        bundle.document(runs, |claim| claim["run"]["summary"]["outcome"] = json!("worse"));
    });
    forge.check("the range of rewards", "summary.reward_range", |bundle| {
        bundle.document(runs, |claim| {
            let phases = claim["phases"].as_array_mut().unwrap();
            phases.last_mut().unwrap()["summary"]["reward_range"] = json!([-9.0, 9.0]);
        });
    });
    forge.check("the reward of an iteration", "iterations[0].reward", |bundle| {
        bundle.document(learning, |learned| learned["iterations"][0]["reward"] = json!(0.875));
    });
    forge.check("a decision of the gate", "gate.decision", |bundle| {
        bundle.document(learning, |learned| gate(learned)["decision"] = json!("futile"));
    });
    forge.check("the evidence of the gate", "gate.evidence.wins", |bundle| {
        bundle.document(learning, |learned| gate(learned)["evidence"]["wins"] = json!(16));
    });
    forge.check("a lesson of the playbook", "the playbook after learning that it was shown", |bundle| {
        bundle.document(learning, |learned| {
            let entries = learned["playbooks"]["after"]["entries"].as_array_mut().unwrap();
            entries.pop().unwrap();
        });
    });
    forge.check(
        "what a prompt says beside the same digest",
        "the playbook after learning that it was shown",
        |bundle| {
            bundle.lines(|lines| {
                let is_guided = |line: &mut Value| episode(line)["policy"]["playbook"]["text"].is_string();
                let place = lines.iter_mut().position(|line| is_test(line) && is_guided(line)).unwrap();
                let policy = &mut episode(&mut lines[place])["policy"];
                let more = format!("{} Be kind.", policy["playbook"]["text"].as_str().unwrap());
                let prompt = policy["system_prompt"].as_str().unwrap().to_owned() + " Be kind.";
                (policy["playbook"]["text"], policy["system_prompt"]) = (json!(more), json!(prompt));
            });
        },
    );
    forge.check("an answer of the policy", "turn 0: action", |bundle| {
        bundle.lines(|lines| {
            let place = test_episode(lines, 1.0);
            episode(&mut lines[place])["turns"][0]["action"]["parts"] = json!([{ "text": "I know it." }]);
        });
    });
    forge.check("the seed of the environment", "seed", |bundle| {
        bundle.lines(|lines| {
            let place = test_episode(lines, 1.0);
            episode(&mut lines[place])["seed"] = json!(1);
        });
    });
    forge.check("a task that no environment publishes", "its task", |bundle| {
        bundle.lines(|lines| {
            let place = test_episode(lines, 0.0);
            episode(&mut lines[place])["task"]["id"] = json!("an-easy-one");
        });
    });
    forge.check("an episode removed", "the number of its episodes", |bundle| {
        bundle.lines(|lines| {
            let place = test_episode(lines, 0.0);
            lines.remove(place);
        });
    });
    forge.check("an episode added", "the order of its episodes", |bundle| {
        bundle.lines(|lines| {
            let place = test_episode(lines, 1.0);
            lines.insert(place, lines[place].clone());
        });
    });
    forge.check("an episode of another run", "its run", |bundle| {
        bundle.lines(|lines| {
            let mut other = lines[0].clone();
            episode(&mut other)["run"] = json!("run-other");
            lines.push(other);
        });
    });
    forge.check("two episodes exchanged", "the order of its episodes", |bundle| {
        bundle.lines(|lines| {
            let (one, other) = (test_episode(lines, 0.0), test_episode(lines, 1.0));
            lines.swap(one, other);
        });
    });
    forge.check("two episodes exchanged in place", "id", |bundle| {
        bundle.lines(|lines| {
            let (one, other) = (test_episode(lines, 0.0), test_episode(lines, 1.0));
            lines.swap(one, other);
            // Each has the index of its new place.
            let [first, second] = [one, other].map(|place| episode(&mut lines[place])["index"].clone());
            (episode(&mut lines[one])["index"], episode(&mut lines[other])["index"]) = (second, first);
        });
    });
    forge.check("the list of runs", "its list of runs", |bundle| {
        bundle.manifest.runs.pop();
    });
    forge.check("a number of episodes, so that a sample misses some", "the number of episodes of", |bundle| {
        bundle.manifest.runs.last_mut().unwrap().episodes -= 2;
    });
    forge.check("a component under the digest of another", "its digest", |bundle| {
        let name = bundle.component();
        bundle.entries.get_mut(&name).unwrap().push(0);
    });
}

#[test]
fn a_changed_byte_of_a_component_names_its_entry() {
    let Some(bench) = Bench::new("a_changed_byte_of_a_component") else { return };
    bench.json(&["run", &bench.guest("env_guess"), "--episodes", "2", "-q"]);
    let file = bench.proved("proof", &[]);
    let mut bytes = std::fs::read(&file).unwrap();
    // The first entry behind the manifest and the rows is the only component, and the largest part of the file.
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let forge = Forge { file: file.clone(), bench };
    forge.found(&file, "a byte", "plugins/");
    let text = forge.bench.run(&["verify", &file.display().to_string(), "-q"]);
    assert_eq!(text.status.code(), Some(CHANGED));
    assert!(stdout(&text).contains("changed"), "{}", stdout(&text));
}
