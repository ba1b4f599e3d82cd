//! A local model that learns as one of the models of a router, and lessons with a budget before the other layers.

use super::*;
use std::collections::BTreeMap;

/// The router's file: a local model that learns, and another policy.
const ROUTER: &str = "incumbent = \"small\"\n[models.small]\nmodel = \"local:../tiny\"\nprice = 1\n\
    [models.other]\nmodel = \"random\"\nprice = 2\n";

fn prepare(bench: &Bench) {
    let folder = bench.data.path().join("tiny").display().to_string();
    let small = ["--width", "16", "--layers", "1", "--heads", "2", "--context", "512", "--seed", "3"];
    bench.out(&[&["model", "init", &folder, "--system"], &small[..]].concat());
    bench.route("two", ROUTER);
}

/// A data folder with a tiny model and the router `two`, and a run in which it learns.
struct Routed {
    bench: Bench,
    words: Vec<String>,
}

impl Routed {
    fn new(test: &str) -> Option<Self> {
        let bench = Bench::new(test)?;
        prepare(&bench);
        let plugin = format!("{}?size=10&guesses=2&talk=terse", bench.guest("env_guess"));
        let reward = format!("{}?name=distance&equals=0&absent=0", bench.guest("reward_signal"));
        let words = ["learn", &plugin, "--policy", "router:two", "--reward", &reward, "--seed", "7", "-q"];
        let few = ["--episodes", "16", "--group", "8", "--test-pairs", "8", "--max-tokens", "2"];
        let words = words.iter().chain(&few).map(|word| (*word).to_owned()).collect();
        Some(Self { bench, words })
    }

    /// An equal data folder.
    fn elsewhere(&self) -> Bench {
        let bench = self.bench.fresh();
        prepare(&bench);
        bench
    }

    fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.words.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }
}

/// The layers that learned in an iteration, by their metrics, and its number of episodes.
fn iterations(learn: &Value) -> Vec<(Vec<&str>, u64)> {
    let learned = |report: &Value| {
        let metrics: Vec<String> = report["metrics"].as_object().unwrap().keys().cloned().collect();
        let of = |layer: &&str| metrics.iter().any(|name| name.starts_with(&format!("{layer}.")));
        let layers = ["harness", "weights", "router"].into_iter().filter(of).collect();
        (layers, report["episodes"].as_u64().unwrap())
    };
    learn["iterations"].as_array().unwrap().iter().map(learned).collect()
}

/// A training episode: its group, the model of the router that answered first, and its reward.
type Trained = (u64, String, f64);

/// The training episodes of an iteration.
fn trained(bench: &Bench, run: &str, iteration: u64) -> Vec<Trained> {
    phase(bench, run, &format!("i{iteration:05}-train"))
}

/// The episodes of a phase.
fn phase(bench: &Bench, run: &str, name: &str) -> Vec<Trained> {
    let shown = bench.json(&["runs", "show", run])["run"].clone();
    let phases: Vec<&str> =
        shown["phases"].as_array().unwrap().iter().filter_map(|phase| phase["id"].as_str()).collect();
    let phase = phases.iter().find(|id| id.ends_with(name)).unwrap();
    let listed = bench.json(&["episodes", "list", "--run", phase, "--limit", "100"]);
    let read = |row: &Value| {
        let episode = bench.json(&["episodes", "show", row["id"].as_str().unwrap()]);
        let by = episode["turns"][0]["answered_by"]["model"].as_str().unwrap_or("the policy");
        (episode["group"].as_u64().unwrap(), by.to_owned(), episode["reward"].as_f64().unwrap())
    };
    listed.as_array().unwrap().iter().map(read).collect()
}

/// How often each model answered first.
fn answered(episodes: &[Trained]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for (_, model, _) in episodes {
        *counts.entry(model.as_str()).or_default() += 1;
    }
    counts
}

/// The share of right episodes of a model, as a mean over groups.
fn passed(episodes: &[Trained], model: &str) -> f64 {
    let mut groups: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (group, _, reward) in episodes.iter().filter(|(_, by, _)| by == model) {
        groups.entry(*group).or_default().push(*reward);
    }
    groups.values().map(|rewards| rewards.iter().sum::<f64>() / rewards.len() as f64).sum::<f64>() / groups.len() as f64
}

#[test]
fn a_local_model_learns_alone_in_its_turns_and_is_a_model_of_the_router_in_the_others() {
    let Some(routed) = Routed::new("a_local_model_learns_behind_a_router") else { return };
    let bench = &routed.bench;
    let layers = ["--layer", "weights", "--layer", "router", "--schedule", "turns", "--iterations", "5"];
    let command = routed.words(&[&layers[..], &["--evaluate-every", "4", "--evaluate-episodes", "8"]].concat());
    let document = bench.json(&command);
    let run = document["timing"]["run"].as_str().unwrap();
    let learn = &document["learn"];
    let turns = [("weights", 4), ("router", 1)];
    let expect: Vec<_> =
        turns.iter().flat_map(|(layer, times)| std::iter::repeat_n((vec![*layer], 16), *times)).collect();
    assert_eq!(iterations(learn), expect, "{learn}");
    assert_ne!(document["weights"]["before"], document["weights"]["after"], "the weights changed");
    let first = trained(bench, run, 1);
    assert_eq!(answered(&first), BTreeMap::from([("the policy", 16)]), "no other model is paid while weights learn");
    let last = trained(bench, run, 5);
    let last = answered(&last);
    assert!(last.keys().all(|name| ["small", "other"].contains(name)), "{last:?}");
    assert!(last["small"] >= 8, "the incumbent answers most requests: {last:?}");
    // Each layer alone, and both together, on the same tasks.
    assert_eq!(learn["evaluation"]["arms"].as_array().unwrap().len(), 3, "{learn}");
    let text = routed.elsewhere().out(&command);
    let place = text.lines().find_map(|line| line.strip_prefix("to serve ")).unwrap_or_default();
    assert!(place.contains("models.small.model = \"local:") && place.contains("best"), "{text}");
}

#[test]
fn where_the_router_learns_too_weights_learn_from_episodes_that_came_to_their_model() {
    let Some(routed) = Routed::new("weights_learn_beside_a_router") else { return };
    let bench = &routed.bench;
    let layers = ["--layer", "weights", "--layer", "router", "--schedule", "joint", "--iterations", "4"];
    let shown =
        ["--demonstrations", "demonstrate=clumsy", "--demonstrations-steps", "20", "--demonstrations-until", "1"];
    let command = routed.words(&[&layers[..], &["--evaluate-every", "0"], &shown].concat());
    let (document, timing) = without_timing(bench.json(&command));
    let run = timing["run"].as_str().unwrap();
    let warm = &document["learn"]["warm_start"]["looks"];
    assert_eq!(warm[0][0], 10, "demonstrations teach the model that the router may choose: {warm}");
    for name in ["warm-00010", "warm-00020"] {
        let looked = phase(bench, run, name);
        let looked: Vec<&str> = answered(&looked).into_keys().collect();
        assert_eq!(looked, ["the policy"], "a look at the model that learns");
    }
    let mut others = 0;
    for iteration in 1..=4 {
        let episodes = trained(bench, run, iteration);
        others += answered(&episodes).get("other").copied().unwrap_or(0);
        let metrics = &document["learn"]["iterations"][iteration as usize - 1]["metrics"];
        let right = metrics["train.pass@1"].as_f64().unwrap();
        assert!((right - passed(&episodes, "small")).abs() < 1e-9, "{right}: {episodes:?}");
    }
    assert!(others > 0, "the router sent none to the other model");
    let (again, _) = without_timing(routed.elsewhere().json(&command));
    assert_eq!(again, document, "equal runs give equal reports");
}

#[test]
fn lessons_are_learned_with_a_budget_before_the_other_layers_take_their_turns() {
    let Some(routed) = Routed::new("lessons_with_a_budget_come_first") else { return };
    let bench = &routed.bench;
    let reflector = bench.guest("odd_reflector");
    let layers = ["--layer", "harness", "--layer", "weights", "--layer", "router", "--schedule", "turns"];
    let others = ["--reflector", &reflector, "--budget", "64", "--iterations", "5", "--evaluate-every", "0"];
    let command = routed.words(&[&layers[..], &others[..]].concat());
    let plan = bench.json(&[&command[..], &["--dry-run"]].concat());
    // Of 64 episodes, two for each of 16 pairs.
    assert_eq!(
        (&plan["at_most"]["training_episodes"], &plan["at_most"]["gate_episodes"]),
        (&112.into(), &32.into()),
        "{plan}"
    );
    let text = bench.out(&[&command[..], &["--dry-run"]].concat());
    for part in [
        "7 iterations of layers in turns: 112 episodes",
        "harness: 2 iterations of 16 episodes in groups of 1",
        "weights: 4 iterations of 16 episodes in groups of 8",
        "router: 1 iteration of 16 episodes in groups of 8",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (document, timing) = without_timing(bench.json(&command));
    let turns = [("harness", 2), ("weights", 4), ("router", 1)];
    let expect: Vec<_> =
        turns.iter().flat_map(|(layer, times)| std::iter::repeat_n((vec![*layer], 16), *times)).collect();
    assert_eq!(iterations(&document["learn"]), expect, "{document}");
    assert_eq!(document["learn"]["evaluation"]["arms"].as_array().unwrap().len(), 7, "every set of layers");
    assert_eq!(document["config"]["work"]["iterations"], 5, "{document}");
    // Interrupted in a turn of lessons, and in one of the others.
    let tokens = budget::tokens(&timing);
    for share in [12, 3] {
        let other = routed.elsewhere();
        let limit = (tokens / share).to_string();
        let stopped = other.run(&[&command[..], &["--max-tokens-total", &limit]].concat());
        assert_eq!(stopped.status.code(), Some(6), "{}", stderr(&stopped));
        let resumed = other.outside_timing(&[&command[..], &["--resume"]].concat());
        assert_eq!(resumed["learn"], document["learn"], "stopped after a share of {share}");
        assert_eq!(resumed["weights"]["after"], document["weights"]["after"]);
    }
}

#[test]
fn a_router_without_exactly_one_local_model_is_refused() {
    let Some(routed) = Routed::new("a_router_without_one_local_model") else { return };
    let bench = &routed.bench;
    let command = routed.words(&["--layer", "weights", "--iterations", "1"]);
    let check = |models: &str, says: &str| {
        bench.route("two", models);
        bench.refused(&command, &["two.toml: weights learn in its only local model, and it has ", says]);
    };
    check("[models.a]\nmodel = \"follower\"\nprice = 1\n", "it has none");
    let local = |name: &str| format!("[models.{name}]\nmodel = \"local:../tiny\"\nprice = 1\n");
    check(&[local("a"), local("b")].concat(), "it has a, b");
}
