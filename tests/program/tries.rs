//! pass@k, mean@k and best of k: of runs with groups, and of evaluations with several tries.

use super::*;
use std::collections::BTreeMap;

/// Episodes as they were exported.
fn exported(bench: &Bench) -> Vec<Value> {
    bench.out(&["episodes", "export"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks the measures of one number of tries against means over groups of (task, rewards) of the largest size.
fn check(measure: &Value, groups: &[Vec<f64>], largest: fn(&[f64]) -> f64) {
    let mean = |value: &dyn Fn(&[f64]) -> f64| groups.iter().map(|one| value(one)).sum::<f64>() / groups.len() as f64;
    let near = |name: &str, expect: f64| {
        let got = measure[name]["mean"].as_f64().unwrap();
        assert!((got - expect).abs() < 1e-9, "{name}: {measure} instead of {expect}");
    };
    assert_eq!(measure["groups"], groups.len());
    near("mean", mean(&|rewards| rewards.iter().sum::<f64>() / rewards.len() as f64));
    near("best", mean(&|rewards| largest(rewards)));
    near("pass", mean(&|rewards| if largest(rewards) >= 1.0 { 1.0 } else { 0.0 }));
}

fn largest(rewards: &[f64]) -> f64 {
    rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn a_run_with_groups_reports_what_several_tries_give() {
    let Some(bench) = Bench::new("a_run_with_groups_reports") else { return };
    let (guess, signal) = (bench.guest("env_guess"), bench.guest("reward_signal"));
    let (guess, reward) = (format!("{guess}?size=8&guesses=2"), format!("{signal}?name=distance&equals=0&absent=0"));
    let run = ["run", &guess, "--reward", &reward, "--policy", "random", "--episodes", "160", "--seed", "2"];
    let document = bench.json(&[&run[..], &["--group", "4"]].concat());
    let mut groups: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for episode in exported(&bench) {
        let group = episode["group"].as_u64().unwrap();
        groups.entry(group).or_default().extend(episode["reward"].as_f64());
    }
    let groups: Vec<Vec<f64>> = groups.into_values().collect();
    let tries = document["tries"].as_array().unwrap();
    assert_eq!(tries.iter().map(|measure| &measure["k"]).collect::<Vec<_>>(), [1, 2, 4]);
    check(&tries[2], &groups, largest);
    assert_eq!(tries[0]["mean"]["mean"], document["reward_mean"]);
    let pass = |at: usize| tries[at]["pass"]["mean"].as_f64().unwrap();
    assert!(pass(0) < pass(1) && pass(1) < pass(2), "{tries:?}");
    let interval = &tries[2]["pass"]["interval"];
    assert!(interval["low"].as_f64().unwrap() < pass(2) && pass(2) < interval["high"].as_f64().unwrap());
    let text = bench.out(&[&run[..], &["--group", "4"]].concat());
    assert!(text.contains("pass@k (one has the best possible reward)") && text.contains("k 4    pass "), "{text}");
    assert!(text.contains("(40 groups)"), "{text}");

    let alone = bench.json(&run);
    assert_eq!(alone["tries"], serde_json::json!([]), "one try is no estimate of several");
    assert!(!bench.out(&run).contains("pass@k"));
}

#[test]
fn an_evaluation_plays_several_tries_of_each_side() {
    let Some(bench) = Bench::new("an_evaluation_plays_several_tries") else { return };
    let shop = format!("{}?house=502", bench.guest("env_shop"));
    let (reward, reflector) = (bench.guest("reward_state"), format!("{}?mode=rules", bench.guest("reflector_rules")));
    let learn = ["learn", &shop, "--reward", &reward, "--reflector", &reflector, "--layer", "harness", "-q"];
    bench.json(&[&learn[..], &["--budget", "100", "--seed", "502", "--test-pairs", "0", "--playbook", "a"]].concat());
    let (guess, signal) = (bench.guest("env_guess"), bench.guest("reward_signal"));
    let (guess, distance) = (format!("{guess}?size=8&guesses=2"), format!("{signal}?name=distance&equals=0&absent=0"));
    let numbers = ["--playbook", "a", "--pairs", "20", "--seed", "5"];
    let evaluate = [&["eval", &shop, "--reward", &reward], &numbers[..]].concat();
    let once = bench.json(&evaluate);
    assert_eq!(once["evaluation"].get("tries"), None);
    // Its lessons are shown in the shop; in the other environment none applies.
    let digest = |episode: &Value| episode["policy"]["playbook"]["digest"].as_str().unwrap().to_owned();
    let is_shown = |episode: &&Value| !episode["policy"]["playbook"]["text"].as_str().unwrap().is_empty();
    let learned = digest(exported(&bench).iter().find(is_shown).unwrap());

    let random =
        [&["eval", &guess, "--reward", &distance, "--policy", "random", "--tries", "3"], &numbers[..]].concat();
    let document = bench.json(&random);
    let evaluation = &document["evaluation"];
    bench.is_compared_as_reported(evaluation);
    assert_eq!((&evaluation["pairs"], &document["config"]["play"]["group"]), (&60.into(), &6.into()));

    // Both sides of a try have one seed, each try another one, and each side every try.
    let mut groups: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for episode in exported(&bench) {
        groups.entry(episode["group"].as_u64().unwrap()).or_default().push(episode);
    }
    let mut sides: [Vec<Vec<f64>>; 2] = Default::default();
    for mut episodes in groups.into_values() {
        episodes.sort_by_key(|episode| episode["index"].as_u64());
        let seed = |at: usize| episodes[at]["policy"]["seed"].as_u64().unwrap();
        assert_eq!((seed(0), seed(2), seed(4)), (seed(1), seed(3), seed(5)));
        assert!(seed(0) != seed(2) && seed(2) != seed(4) && seed(0) != seed(4));
        let is_after = |episode: &&Value| digest(episode) == learned;
        let (after, before): (Vec<&Value>, Vec<&Value>) = episodes.iter().partition(is_after);
        assert_eq!((before.len(), after.len()), (3, 3));
        for (side, episodes) in sides.iter_mut().zip([before, after]) {
            side.push(episodes.into_iter().map(|episode| episode["reward"].as_f64().unwrap()).collect());
        }
    }
    for (side, name) in sides.iter().zip(["before", "after"]) {
        let measures = evaluation["tries"][name].as_array().unwrap();
        assert_eq!(measures.iter().map(|measure| &measure["k"]).collect::<Vec<_>>(), [1, 2, 3]);
        check(&measures[2], side, largest);
        let (all, mean) = (measures[0]["mean"]["mean"].as_f64().unwrap(), evaluation[name]["mean"].as_f64().unwrap());
        assert!((all - mean).abs() < 1e-12 && 0.0 < mean && mean < 1.0, "{evaluation}");
    }

    // A policy that draws nothing gains nothing by trying again.
    let follower = [&evaluate[..], &["--tries", "2"]].concat();
    let again = bench.json(&follower);
    let after = again["evaluation"]["tries"]["after"].as_array().unwrap();
    assert_eq!(after[0]["pass"]["mean"], after[1]["pass"]["mean"]);
    for (name, part) in [("before", "high"), ("after", "mean"), ("lift", "low"), ("lift", "high")] {
        let of = |document: &Value| document["evaluation"][name][part].as_f64().unwrap();
        assert!((of(&again) - of(&once)).abs() < 1e-9, "{name} {part}: {again}");
    }
    let text = bench.out(&follower);
    assert!(text.matches("pass@k (one has").count() == 2 && text.contains("k 2    pass "), "{text}");
    bench.refused(&[&evaluate[..], &["--tries", "0"]].concat(), &["--tries", "from 1 to 512"]);
}
