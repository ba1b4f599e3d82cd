//! `--resume`: only the intended run is resumed, differences are listed, and without an interrupted run a new one
//! begins.

use super::*;
use clawhost_core::{Lease, LeaseMode, LeaseSubject, Leases as _, RunId};
use clawhost_store::FileLeases;

/// The message when a new run begins.
const NOTHING: &str = "nothing like it was interrupted, so a new run begins";

impl Bench {
    /// Holds a lease, as another process would.
    pub(crate) fn hold(&self, subject: LeaseSubject, mode: LeaseMode) -> Box<dyn Lease> {
        FileLeases::new(self.data.path()).acquire(&subject, mode).unwrap().expect("the lease is free")
    }

    pub(crate) fn newest_run(&self) -> String {
        self.json(&["runs", "list"])[0]["id"].as_str().unwrap().to_owned()
    }

    /// Runs a command that succeeds; returns the result without timing, the run, and the messages.
    fn played(&self, arguments: &[&str]) -> (Value, String, String) {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        let (document, timing) = without_timing(serde_json::from_slice(&output.stdout).unwrap());
        (document, timing["run"].as_str().unwrap().to_owned(), stderr(&output))
    }
}

#[test]
fn without_an_interrupted_run_a_new_run_begins_with_a_message() {
    let Some(bench) = Bench::new("where_nothing_was_interrupted") else { return };
    let guess = bench.guest("env_guess");
    let run = ["run", &guess, "--episodes", "4"];
    let (first, one, said) = bench.played(&[&run[..], &["--resume"]].concat());
    assert!(said.contains(NOTHING), "{said}");
    // A complete run is not played again unless that is asked for.
    bench.refused(&[&run[..], &["--resume"]].concat(), &["nothing to resume", &one, "is complete"]);
    let (again, other, said) = bench.played(&run);
    assert!(!said.contains(NOTHING) && other != one && again == first, "resuming was not requested: {said}");
    // Interrupted runs of other environments or verbs are not similar.
    let math = bench.guest("env_math");
    assert_eq!(bench.run(&["run", &math, "--max-tokens-total", "100"]).status.code(), Some(6));
    let (_, _, said) = bench.played(&[&run[..], &["--seed", "3", "--resume"]].concat());
    assert!(said.contains(NOTHING), "{said}");
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    assert_eq!(bench.run(&["run", &shop, "--max-tokens-total", "100"]).status.code(), Some(6));
    let learn = ["learn", &shop, "--reward", &state, "--layer", "harness", "--reflector", &rules, "--iterations", "1"];
    let (_, _, said) = bench.played(&[&learn[..], &["--test-pairs", "0", "--resume"]].concat());
    assert!(said.contains(NOTHING), "{said}");
}

#[test]
fn an_interrupted_run_that_differs_is_refused_with_the_differences() {
    let Some(bench) = Bench::new("an_interrupted_run_that_differs") else { return };
    let guess = bench.guest("env_guess");
    assert_eq!(bench.run(&["run", &guess, "--max-tokens-total", "500"]).status.code(), Some(6));
    let newest = bench.newest_run();
    let begin = format!("no run of this configuration was interrupted here. {newest} was, but ");
    let way_out = "use the command and the files with which it began, or begin a new run without --resume";
    let differs = |more: &[&str], what: &str| {
        for resume in ["--resume".to_owned(), format!("--resume={newest}")] {
            bench.refused(&[&["run", &guess, &resume], more].concat(), &[&begin, what, way_out]);
        }
    };
    differs(&["--seed", "9"], "--seed was 0 and is 9");
    differs(&["--episodes", "5", "--group", "5"], "--episodes was 20 and is 5, --group was 1 and is 5");
    differs(&["--max-turns", "3", "--temperature", "0.5"], "--max-turns was 64 and is 3");
    differs(&["--reward", &bench.guest("reward_format")], "was none and is reward-format");
    differs(&["--system-prompt", "Be brief."], "--system-prompt was none and is Be brief.");
    let another = format!("{guess}?size=50");
    bench.refused(&["run", &another, "--resume"], &[&begin, "size", way_out]);
    assert_eq!(bench.runs(), 1, "no run was begun");
    // Options that change no result may differ.
    let more = ["--concurrency", "2", "--failure-budget", "0.5", "--price", "1,2", "--resume"];
    let (resumed, run, _) = bench.played(&[&["run", &guess], &more[..]].concat());
    assert_eq!((run.as_str(), &resumed["stopped"]), (newest.as_str(), &Value::Null));
}

#[test]
fn a_run_by_name_must_exist_and_be_interrupted_and_idle() {
    let Some(bench) = Bench::new("a_run_by_name_must_be_there") else { return };
    let guess = bench.guest("env_guess");
    bench.refused(&["run", &guess, "--resume=run-1"], &["no run `run-1` here", "runs list"]);
    assert_eq!(bench.run(&["run", &guess, "--max-tokens-total", "500"]).status.code(), Some(6));
    let newest = bench.newest_run();
    let named = format!("--resume={newest}");
    // Only one process plays it.
    let lease = bench.hold(LeaseSubject::Run(RunId(newest.clone())), LeaseMode::Exclusive);
    for words in [&["run", &guess, "--resume"][..], &["run", &guess, &named], &["run", &guess, "--seed", "9", &named]] {
        bench.refused(words, &[&newest, "is being played by another process; wait for it"]);
    }
    bench.refused(&["score", "--reward", &bench.guest("reward_format")], &["is being played by another process"]);
    assert_eq!(bench.runs(), 1, "no run was begun");
    // It was not interrupted, so a new run may begin.
    let (_, _, said) = bench.played(&["run", &guess, "--seed", "9", "--resume"]);
    assert!(said.contains(NOTHING), "{said}");
    drop(lease);
    let (resumed, run, _) = bench.played(&["run", &guess, &named]);
    assert_eq!((run.as_str(), &resumed["stopped"]), (newest.as_str(), &Value::Null));
    let over = format!("{newest} cannot be resumed: it has finished; begin a new run without --resume");
    bench.refused(&["run", &guess, &named], &[&over]);
}
