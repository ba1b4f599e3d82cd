//! A learning run whose process dies repeatedly.

use super::*;
use crate::database::check;
use clawhost_core::{EpisodeFilter, EpisodeReader as _};
use clawhost_store::Reader;
use std::path::{Path, PathBuf};

/// Interruptions of runs with long iterations.
const FEW: u64 = 4;

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Digests of all versions of a playbook, newest first.
fn versions(bench: &Bench) -> Vec<Value> {
    let log = bench.json(&["playbook", "log", "env-shop"]);
    log.as_array().unwrap().iter().map(|version| version["digest"].clone()).collect()
}

fn runs(bench: &Bench) -> usize {
    bench.json(&["runs", "list"]).as_array().unwrap().len()
}

#[test]
fn a_harness_run_that_dies_after_any_commit_gives_the_same_result_when_resumed() {
    let Some(whole) = Bench::new("a_harness_that_dies") else { return };
    let (shop, reward, reflector) =
        (whole.guest("env_shop"), whole.guest("reward_state"), whole.guest("reflector_rules"));
    let words = ["learn", &shop, "--reward", &reward, "--layer", "harness", "--reflector", &reflector, "--seed", "4"];
    let few = ["--iterations", "8", "--gate-every", "4", "--gate-pairs", "32", "--test-pairs", "20", "-q"];
    let crashing = Crashing::new(whole, owned(&[&words[..], &few].concat()));
    let (expected, episodes) = (versions(&crashing.whole), check(&crashing.whole, 1));
    crashing.survives(kills(), |bench, end| {
        let recorded = check(bench, 1);
        if end.is_some() {
            assert_eq!(recorded, episodes, "nothing was played twice");
            assert_eq!(versions(bench), expected, "versions are neither lost nor written twice");
            assert_eq!(runs(bench), 1, "the run was resumed, not begun again");
        }
    });
}

/// Episodes of the candidates of an evolution, without those of the gate afterwards.
fn evaluations(bench: &Bench) -> u64 {
    let reader = Reader::open(bench.data.path()).unwrap();
    let rows = reader.episodes(&EpisodeFilter::default()).unwrap();
    let tried = |run: &str| {
        run.rsplit_once(".evolve-").is_some_and(|(_, phase)| phase.starts_with(|first: char| first.is_ascii_digit()))
    };
    rows.iter().filter(|row| tried(&row.run.to_string())).count() as u64
}

#[test]
fn an_evolution_that_dies_after_any_commit_stays_within_its_budget_when_resumed() {
    const BUDGET: u64 = 300;
    let Some(whole) = Bench::new("an_evolution_that_dies") else { return };
    let (shop, reward) = (format!("{}?house=7", whole.guest("env_shop")), whole.guest("reward_state"));
    let rules = format!("{}?write=section", whole.guest("reflector_rules"));
    let budget = BUDGET.to_string();
    let words = ["learn", &shop, "--reward", &reward, "--layer", "harness", "--evolve", &budget, "--seed", "1"];
    let few = ["--evolve-reflector", &rules, "--iterations", "1", "--episodes", "4", "--gate-pairs", "64"];
    let crashing = Crashing::new(whole, owned(&[&words[..], &few, &["--test-pairs", "4", "-q"]].concat()));
    let expected = crashing.expected["learn"]["evolution"]["evaluations"].as_u64().unwrap();
    assert_eq!(evaluations(&crashing.whole), expected);
    crashing.survives(FEW.min(kills()), |bench, end| {
        check(bench, 1);
        assert!(evaluations(bench) <= BUDGET, "the budget is never exceeded");
        if end.is_some() {
            assert_eq!(evaluations(bench), expected, "nothing was played twice");
        }
    });
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_weights_run_that_dies_after_any_commit_gives_the_same_result_when_resumed() {
    let Some(whole) = Bench::new("weights_that_die") else { return };
    let models = tempfile::tempdir().unwrap();
    let model = models.path().join("tiny").display().to_string();
    whole.out(&["model", "init", &model, "--alphabet", "0123456789+=<>?#", "--context", "64", "--seed", "3"]);
    let plugin = format!("{}?size=10&guesses=4&talk=terse", whole.guest("env_guess"));
    let words = ["learn", &plugin, "--layer", "weights", "--model", &model, "--seed", "7"];
    let few = ["--iterations", "4", "--episodes", "32", "--max-tokens", "3", "--test-pairs", "20", "-q"];
    let looks = ["--evaluate-every", "2", "--evaluate-episodes", "20", "--epochs", "2", "--minibatches", "2"];
    let shown = ["--demonstrations", "demonstrate=clumsy", "--demonstrations-steps", "20"];
    let crashing = Crashing::new(whole, owned(&[&words[..], &few, &looks, &shown].concat()));
    crashing.survives(FEW.min(kills()), |bench, end| {
        check(bench, 1);
        let Some((_, timing)) = end else { return };
        assert_eq!(runs(bench), 1, "the run was resumed, not begun again");
        if let Some(out) = timing["out"].as_str().map(PathBuf::from) {
            let metrics = lines(&out.join("metrics.jsonl"));
            let iterations: Vec<_> = metrics.iter().map(|line| line["iteration"].as_u64().unwrap()).collect();
            assert_eq!(iterations, [1, 2, 3, 4], "each is written once");
            assert_eq!(lines(&out.join("completions.jsonl")).len(), 16, "four of each iteration");
        }
    });
}
