//! Several processes on one data folder.

use super::*;
use clawhost_core::{LeaseMode, LeaseSubject};

fn begun(bench: &Bench, arguments: &[&str]) -> std::process::Child {
    bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The result of a process without timing.
fn result(child: std::process::Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    without_timing(serde_json::from_slice(&output.stdout).unwrap()).0
}

#[test]
fn processes_share_a_data_folder() {
    let Some(bench) = Bench::new("processes_share_a_data_folder") else { return };
    let (guess, math) = (bench.guest("env_guess"), bench.guest("env_math"));
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let play =
        |plugin: &str, seed: &str| begun(&bench, &["run", plugin, "--episodes", "300", "--seed", seed, "--json"]);
    let learn = |playbook: &str| {
        let words = ["learn", &shop, "--reward", &state, "--layer", "harness", "--reflector", &rules, "--json", "-q"];
        let few = ["--iterations", "2", "--test-pairs", "4", "--playbook", playbook];
        begun(&bench, &[&words[..], &few].concat())
    };
    // All of them create the new folder at the same time.
    let playing = [play(&guess, "1"), play(&math, "2"), play(&guess, "1")];
    let learning = [learn("one"), learn("other")];
    let [one, _, twin] = playing.map(result);
    assert_eq!(one, twin, "equal seeds give equal runs beside other processes");
    let [first, second] = learning.map(result);
    assert_eq!(first["learn"], second["learn"], "the two playbooks do not affect each other");
    let listed = bench.json(&["runs", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 5, "{listed}");
    assert_eq!(
        bench.count("SELECT count(*) FROM episodes WHERE run IN (SELECT number FROM runs WHERE kind = 'play')"),
        900
    );
}

#[test]
fn leased_resources_are_refused() {
    let Some(bench) = Bench::new("what_another_process_holds") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let learn = ["learn", &shop, "--reward", &state, "--layer", "harness", "--reflector", &rules, "--test-pairs", "0"];
    let learn = [&learn[..], &["--iterations", "1", "-q"]].concat();
    let held = bench.hold(LeaseSubject::Playbook("env-shop".into()), LeaseMode::Exclusive);
    let busy = "playbook env-shop is being learned by another process; wait for it";
    bench.refused(&learn, &[busy, "another --playbook"]);
    bench.out(&[&learn[..], &["--playbook", "mine"]].concat());
    let file = bench.data.path().join("taken.md");
    std::fs::write(&file, "---\nname: hand\ndescription: Always.\n---\nbe kind\n").unwrap();
    let import = ["playbook", "import", "env-shop", file.to_str().unwrap()];
    bench.refused(&import, &[busy]);
    drop(held);
    bench.out(&import);

    let held = bench.hold(LeaseSubject::Folder, LeaseMode::Exclusive);
    bench.refused(&learn, &["another process removes records from it; wait for it"]);
    bench.json(&["episodes", "list"]);
    drop(held);
    let held = bench.hold(LeaseSubject::Folder, LeaseMode::Shared);
    bench.refused(&["data", "prune", "--older-than", "0"], &["another process ", "wait for it"]);
    bench.json(&["data", "prune", "--older-than", "0", "--dry-run"]);
    bench.json(&["data"]);
    drop(held);
    bench.json(&["data", "prune", "--older-than", "0"]);
}
