//! `clawhost runs`: runs by name, tag, state, kind and time; details of one; alternatives to the id.

use super::*;

impl Bench {
    /// Ids of the runs in a list.
    fn listed_runs(&self, filters: &[&str]) -> Vec<String> {
        let rows = self.json(&[&["runs", "list"], filters].concat());
        rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn runs_are_listed_by_tag_environment_state_kind_and_age_together() {
    let Some(bench) = Bench::new("runs_are_listed_by_tag") else { return };
    let (guess, math, exact) = (bench.guest("env_guess"), bench.guest("env_math"), bench.guest("reward_exact"));
    let first = bench.play(&[&guess, "--episodes", "2", "--name", "first", "--tag", "baseline", "--tag", "n=2"]);
    let second = bench.play(&[&math, "--reward", &exact, "--episodes", "2", "--tag", "baseline"]);
    assert_eq!(bench.run(&["run", &guess, "--max-tokens-total", "100"]).status.code(), Some(6));
    let stopped = bench.newest_run();
    let check = |filters: &[&str], expect: &[&String]| {
        assert_eq!(bench.listed_runs(filters).iter().collect::<Vec<_>>(), expect, "{filters:?}");
    };
    check(&[], &[&stopped, &second, &first]);
    check(&["--tag", "baseline"], &[&second, &first]);
    check(&["--tag", "baseline", "--tag", "n=2"], &[&first]);
    check(&["--tag", "other"], &[]);
    check(&["--environment", "env-guess"], &[&stopped, &first]);
    let digest = bench.json(&["inspect", &math])["plugin"]["digest"].as_str().unwrap().to_owned();
    check(&["--environment", &digest], &[&second]);
    check(&["--environment", &digest.trim_start_matches("sha256:")[..8]], &[&second]);
    check(&["--environment", "nowhere"], &[]);
    check(&["--state", "stopped"], &[&stopped]);
    check(&["--state", "finished", "--environment", "env-guess"], &[&first]);
    check(&["--state", "finished", "--state", "stopped", "--limit", "2"], &[&stopped, &second]);
    check(&["--kind", "learn"], &[]);
    check(&["--kind", "run", "--kind", "learn", "--limit", "1"], &[&stopped]);
    check(&["--newer-than", "1h"], &[&stopped, &second, &first]);
    check(&["--older-than", "1"], &[]);
    check(&["--older-than", "0s", "--tag", "n=2"], &[&first]);
    let text = bench.out(&["runs", "list"]);
    for part in ["first", "baseline, n=2", "env-guess", "stopped", "finished", "play"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    bench.refused(&["runs", "list", "--tag", "a b"], &["letters, digits"]);
    bench.refused(&["runs", "list", "--newer-than", "soon"], &["expected days"]);
}

#[test]
fn names_and_prefixes_of_ids_are_accepted_as_ids() {
    let Some(bench) = Bench::new("a_name_or_the_beginning_of_an_id") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let play = ["run", &math, "--reward", &exact, "--episodes", "2"];
    let run = bench.play(&[&play[1..], &["--name", "first"]].concat());
    let beginning = &run[..run.len() - 2];
    let id = bench.json(&["episodes", "list"])[0]["id"].as_str().unwrap().to_owned();
    for named in [run.as_str(), "first", beginning] {
        for words in [
            &["runs", "show", named][..],
            &["episodes", "list", "--run", named],
            &["episodes", "export", "--run", named],
            &["episodes", "show", &format!("{named}/{id}")],
            &["feedback", &format!("{named}/{id}"), "--score", "1"],
            &["replay", "--run", named],
            &["replay", &format!("{named}/{id}")],
            &["score", "--reward", &exact, "--run", named],
            &["runs", "tag", named, "seen"],
            &["data", "prune", "--run", named, "--dry-run"],
            &["runs", "rm", named, "--dry-run"],
        ] {
            bench.out(words);
        }
    }
    let other = bench.play(&[&math, "--episodes", "2", "--seed", "4"]);
    let common: String = run.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    assert!(common.len() > "run-20".len(), "{run} {other}");
    bench.refused(&["runs", "show", &common], &["is the beginning of several runs: ", &run, &other]);
    bench.refused(&["runs", "show", "run-"], &["no run `run-` here"]);
    bench.refused(&["runs", "show", "firs"], &["no run `firs` here"]);

    // A name belongs to one run, and can be given to another one when it is free.
    let named = [&play[..], &["--seed", "9", "--name", "first"]].concat();
    bench.refused(&named, &[&format!("{run} is called `first` already"), "--name", "clawhost runs rename"]);
    assert_eq!(bench.runs(), 2, "nothing was begun");
    bench.refused(&["runs", "rename", &other, "first"], &["is called `first` already"]);
    assert!(bench.out(&["runs", "rename", "first", "second"]).contains("name        second"));
    assert_eq!(bench.json(&["runs", "rename", &other, "first"])["name"], "first");
    assert_eq!(bench.json(&["runs", "show", "first"])["run"]["id"], other.as_str());
    assert_eq!(bench.json(&["runs", "rename", &other, "--clear"])["name"], Value::Null);
    bench.refused(&["runs", "show", "first"], &["no run `first` here"]);
    for bad in ["run-mine", "a/b", "-x", ""] {
        bench.refused(&["run", &math, &format!("--name={bad}")], &["--name"]);
    }
    let tagged = bench.json(&["runs", "tag", "second", "a", "b", "--remove", "seen"]);
    assert_eq!(tagged["tags"], serde_json::json!(["a", "b"]));
}

#[test]
fn labels_change_neither_results_nor_identity_of_a_run() {
    let Some(bench) = Bench::new("what_a_run_is_called_changes") else { return };
    let guess = bench.guest("env_guess");
    let run = ["run", &guess, "--episodes", "12"];
    let plain = bench.outside_timing(&run);
    let named = bench.outside_timing(&[&run[..], &["--name", "a", "--tag", "t"]].concat());
    assert_eq!(named, plain);
    // With another name the same run is resumed, and keeps its labels.
    let interrupted = [&run[..], &["--seed", "5", "--max-tokens-total", "500"]].concat();
    assert_eq!(bench.run(&[&interrupted[..], &["--name", "b", "--tag", "t"]].concat()).status.code(), Some(6));
    let stopped = bench.newest_run();
    let resumed = bench.json(&[&run[..], &["--seed", "5", "--name", "c", "--resume=b"]].concat());
    assert_eq!(resumed["timing"]["run"], stopped.as_str());
    let shown = bench.json(&["runs", "show"]);
    assert_eq!((&shown["run"]["name"], &shown["run"]["tags"]), (&"b".into(), &serde_json::json!(["t"])));
    bench.refused(&[&run[..], &["--seed", "6", "--resume=nowhere"]].concat(), &["no run `nowhere` here"]);
}

#[test]
fn a_run_is_shown_in_full_with_the_command_that_resumes_it() {
    let Some(bench) = Bench::new("a_run_is_shown_in_full") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let summary = bench.json(&["run", &math, "--reward", &exact, "--episodes", "30", "--seed", "3"]);
    let shown = bench.json(&["runs", "show"])["run"].clone();
    assert_eq!((&shown["reward"]["mean"], &shown["episodes"]["episodes"]), (&summary["reward_mean"], &30.into()));
    let interval = &summary["reward_interval"];
    assert_eq!(shown["reward"]["interval"], serde_json::json!([interval["low"], interval["high"]]));
    assert!(shown["held"]["bytes"].as_u64().unwrap() > 1000, "{shown}");
    assert_eq!(bench.json(&["runs", "show"])["resume"], Value::Null, "it has finished");
    let text = bench.out(&["runs", "show"]);
    for part in
        ["env-math 0.1.0", "seed 3", "policy      follower", "reward-exact", "30 of 30: 30 terminated", "95 % interval"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A person's verdict changes the mean, whose interval is then unknown.
    let id = summary["episodes"][0]["id"].as_str().unwrap();
    bench.out(&["feedback", id, "--score", "-1"]);
    let shown = bench.json(&["runs", "show"])["run"]["reward"].clone();
    assert!(shown["mean"] != summary["reward_mean"] && shown["interval"].is_null(), "{shown}");

    let guess = format!("{}?size=50", bench.guest("env_guess"));
    let begun = ["run", &guess, "--max-tokens-total", "500", "--episodes", "14", "--group", "2", "--seed", "8"];
    assert_eq!(bench.run(&begun).status.code(), Some(6));
    let command = bench.json(&["runs", "show"])["resume"].as_str().unwrap().to_owned();
    assert!(bench.out(&["runs", "show"]).contains(&command) && !command.contains("--max-turns"), "{command}");
    let text = bench.out(&["runs", "show"]);
    assert!(text.contains("could not be completed") && text.contains("--failure` lists them"), "{text}");
    // Unchanged, it would stop again at once: the budget is part of it, and is spent.
    let pasted = Command::new("sh").args(["-c", &command]).env_clear().env("CLAWHOST_HOME", bench.data.path()).output();
    assert_eq!(pasted.unwrap().status.code(), Some(6), "{command}");
    assert_eq!(bench.runs(), 2, "it is the same run");
}

#[test]
fn a_learning_run_is_shown_with_its_phases() {
    let Some(bench) = Bench::new("a_learning_run_is_shown") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let learn = ["learn", &shop, "--reward", &state, "--layer", "harness", "--reflector", &rules, "-q"];
    let more = ["--iterations", "2", "--test-pairs", "4", "--name", "lessons", "--tag", "harness"];
    let learned = bench.json(&[&learn[..], &more].concat());
    let run = learned["timing"]["run"].as_str().unwrap();
    assert_eq!(bench.listed_runs(&["--kind", "learn", "--tag", "harness"]), [run]);
    let shown = bench.json(&["runs", "show", "lessons"])["run"].clone();
    let phases = shown["phases"].as_array().unwrap();
    assert!(phases.len() >= 3 && phases.iter().all(|phase| phase["state"] == "finished"), "{shown}");
    let episodes: u64 = phases.iter().map(|phase| phase["episodes"].as_u64().unwrap()).sum();
    assert_eq!(shown["episodes"]["episodes"], episodes);
    assert_eq!(shown["lift"]["mean"], learned["learn"]["evaluation"]["lift"]["mean"]);
    // An episode of a learning run belongs to one of its phases, and is found by its run.
    let one = bench.json(&["episodes", "list", "--run", phases[0]["id"].as_str().unwrap(), "--limit", "1"]);
    bench.out(&["episodes", "show", &format!("lessons/{}", one[0]["id"].as_str().unwrap())]);
    // The source run is stored by its id, however it was named.
    bench.play(&[&shop, "--reward", &state, "--episodes", "8", "--group", "4", "--name", "played"]);
    let from = ["--from", "played", "--iterations", "1", "--test-pairs", "0"];
    let learned = bench.json(&[&learn[..], &from].concat());
    assert_eq!(learned["config"]["work"]["from"], bench.listed_runs(&["--kind", "run"])[0].as_str());
}

#[test]
fn removing_runs_equals_pruning_them() {
    let Some(bench) = Bench::new("runs_are_removed") else { return };
    let guess = bench.guest("env_guess");
    bench.play(&[&guess, "--episodes", "2", "--name", "a"]);
    bench.play(&[&guess, "--episodes", "3", "--name", "b", "--seed", "2"]);
    bench.play(&[&guess, "--episodes", "4", "--name", "c", "--seed", "3"]);
    bench.refused(&["runs", "rm"], &["RUN"]);
    bench.refused(&["runs", "rm", "a", "nowhere"], &["no run `nowhere` here"]);
    let rehearsed = bench.json(&["runs", "rm", "a", "b", "--dry-run"])["prune"].clone();
    assert_eq!(rehearsed, bench.json(&["data", "prune", "--run", "a", "--run", "b", "--dry-run"])["prune"]);
    assert_eq!((&rehearsed["removed"]["runs"], &rehearsed["removed"]["episodes"]), (&2.into(), &5.into()));
    assert_eq!(bench.runs(), 3, "a rehearsal removes nothing");
    let text = bench.out(&["runs", "rm", "a"]);
    assert!(text.contains("in all      1 run, 2 episodes, 0 plugins, 0 files"), "{text}");
    assert!(bench.out(&["runs", "rm", "b"]).contains("in all      1 run, 3 episodes, 0 plugins, 0 files"));
    assert_eq!(bench.runs(), 1);
    bench.refused(&["runs", "show", "a"], &["no run `a` here"]);
    bench.play(&[&guess, "--episodes", "2", "--name", "a"]);
}
