//! The program end to end: real components, a real database, a real endpoint on loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/bench.rs"]
mod bench;
#[path = "../common/client.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod client;
#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/gate.rs"]
mod gate;
#[path = "../common/guests.rs"]
mod guests;
#[path = "../common/serving.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod serving;
#[path = "../common/stub.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod stub;

mod answer_shapes;
mod both_layers;
mod budget;
mod captured;
mod cave;
mod clean;
mod collect;
mod compare;
mod compile;
mod crash;
mod data_folder;
mod demo;
mod devices;
mod doctor;
mod endpoint;
mod evolve;
mod failures;
mod feedback;
mod forget;
mod full_disk;
mod gallery;
mod help;
mod hidden_rules;
mod hostile_models;
mod hub_models;
mod judged_turns;
mod kept_weights;
mod learn;
mod live;
mod live_adapters;
mod live_scoring;
mod live_taught;
mod live_tinker;
mod live_trials;
mod live_weights;
mod local_weights;
mod memory;
mod mixtures;
mod models;
mod operate;
mod playbooks;
mod policies;
mod promote;
mod records;
mod refusals;
mod reload;
mod replay;
mod resume;
mod reward_comparison;
mod route_plugins;
mod routed;
mod routed_weights;
mod router;
mod run_files;
mod runs;
mod serve;
mod served_candidates;
mod shared;
mod shop;
mod sweep;
mod tasks;
mod teachers;
mod terminal;
mod tokens;
mod tries;
mod tuning;
mod watching;
mod weights;
mod weights_told;
mod which_runs;
mod worlds;

pub(crate) use bench::{Bench, contents, stderr, stdout, without_timing};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[test]
fn equal_seeds_give_equal_runs_outside_timing() {
    let Some(bench) = Bench::new("equal_seeds_give_equal_runs") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let play = |seed: &str, concurrency: &str| {
        let arguments =
            ["run", &math, "--reward", &exact, "--episodes", "200", "--seed", seed, "--concurrency", concurrency];
        let (summary, timing) = without_timing(bench.json(&arguments));
        assert!(timing["run"].as_str().unwrap().starts_with("run-"));
        assert!(timing["steps_per_second"].as_f64().unwrap() > 0.0);
        summary
    };
    let one = play("7", "16");
    assert_eq!(one, play("7", "1"), "whatever the concurrency");
    assert_ne!(one["episodes"], play("8", "16")["episodes"]);
    assert_eq!(one["episodes"].as_array().unwrap().len(), 200);
    assert!(one["state_id"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(one["endings"]["terminated"], 200);
    let config = &one["config"];
    assert_eq!((&config["work"]["verb"], &config["play"]["seed"]), (&"play".into(), &7.into()), "{config}");
    assert!(!config.to_string().contains(".wasm"), "no path of this machine: {config}");
    let (mean, low, high) = (&one["reward_mean"], &one["reward_interval"]["low"], &one["reward_interval"]["high"]);
    let (mean, low, high) = (mean.as_f64().unwrap(), low.as_f64().unwrap(), high.as_f64().unwrap());
    // The follower solves explicit calculations, about half of the problems, and no others.
    assert!(low < mean && mean < high && (0.25..0.6).contains(&mean), "{low} {mean} {high}");
}

#[test]
fn the_follower_solves_explicit_calculations_and_no_word_problems() {
    let Some(bench) = Bench::new("the_follower_solves_what_it_is_told") else { return };
    let exact = bench.guest("reward_exact");
    for (kind, mean) in [("arithmetic", 1.0), ("words", 0.0)] {
        let math = format!("{}?kind={kind}", bench.guest("env_math"));
        let summary = bench.json(&["run", &math, "--reward", &exact, "--episodes", "50"]);
        assert_eq!(summary["reward_mean"], mean, "{kind}");
    }
}

#[test]
fn played_episodes_are_listed_shown_and_exported() {
    let Some(bench) = Bench::new("what_was_played_can_be_listed") else { return };
    let summary = bench.json(&["run", &bench.guest("env_guess"), "--episodes", "5", "--group", "2", "--seed", "3"]);
    assert_eq!(summary["reward_mean"], Value::Null, "without scores there is no mean");
    let list = bench.json(&["episodes", "list"]);
    let ids: Vec<_> = summary["episodes"].as_array().unwrap().iter().map(|episode| episode["id"].clone()).collect();
    assert_eq!(list.as_array().unwrap().iter().map(|row| row["id"].clone()).collect::<Vec<_>>(), ids);

    let id = ids[2].as_str().unwrap();
    let shown = stdout(&bench.run(&["episodes", "show", id]));
    assert!(
        shown.contains("I picked a number.") && shown.contains("turn 1") && shown.contains("Correct: it was"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "no colours where there is no terminal");
    let episode = bench.json(&["episodes", "show", id]);
    assert_eq!(episode["id"], id);
    assert_eq!(episode["format"], 2);

    let file = bench.data.path().join("out.jsonl");
    assert!(bench.run(&["episodes", "export", "--output", &file.display().to_string()]).status.success());
    let text = std::fs::read_to_string(&file).unwrap();
    let exported: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exported.len(), 5);
    assert_eq!(exported[2], episode);
    let runs = bench.json(&["runs", "list"]);
    assert_eq!(runs[0]["id"], summary["timing"]["run"]);
    assert!(stdout(&bench.run(&["runs", "list"])).contains("env-guess"));
}

#[test]
fn a_reader_that_closes_early_causes_no_error() {
    let Some(bench) = Bench::new("a_reader_that_leaves_early") else { return };
    bench.json(&["run", &bench.guest("env_guess"), "--episodes", "200"]);
    for arguments in [&["episodes", "export"][..], &["episodes", "list", "--limit", "1000"]] {
        let mut child = bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn inspect_shows_the_permissions_and_writes_nothing() {
    let Some(bench) = Bench::empty("inspect_shows_the_permissions") else { return };
    let seen = bench.json(&["inspect", &bench.guest("odd_services")]);
    assert_eq!(seen["plugin"]["world"], "environment");
    assert_eq!(seen["plugin"]["interface"], "clawhost:environment/environment@0.1.0");
    let grants: Vec<_> = seen["plugin"]["permissions"].as_array().unwrap().iter().map(|p| p["grant"].clone()).collect();
    assert!(grants.contains(&Value::from("kv")) && grants.contains(&Value::from("llm:ALIAS=SPEC")));
    assert_eq!(seen["limits"]["memory_bytes"], 64 << 20);
    let text = stdout(&bench.run(&["inspect", &bench.guest("reward_exact")]));
    let reads = "reads       reference-value, reference-field answer";
    for part in ["reward-exact 0.1.0", "sha256:", "range       0 to 1", reads, "option      tolerance=0", "imports"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(seen["plugin"].get("gives").is_none(), "it declares nothing: {seen}");
    for (guest, gives) in [("env_shop", &["reviews", "demonstrations"][..]), ("env_guess", &["demonstrations"])] {
        assert_eq!(bench.json(&["inspect", &bench.guest(guest)])["plugin"]["gives"], serde_json::json!(gives));
    }
    assert_eq!(std::fs::read_dir(bench.data.path()).unwrap().count(), 0);
}

#[test]
fn grants_are_required_listed_and_used() {
    let Some(bench) = Bench::new("grants_are_needed") else { return };
    let services = bench.guest("odd_services");
    let run = ["run", services.as_str(), "--episodes", "1", "--max-turns", "1"];
    let without = bench.run(&run);
    assert!(stderr(&without).contains("odd-services asks for kv, which is not granted"), "{}", stderr(&without));
    assert!(stderr(&without).contains("asks for models, and none is granted"), "{}", stderr(&without));
    let with = bench.run(&[&run[..], &["--grant", "kv", "--grant", "llm:judge=follower"]].concat());
    assert!(with.status.success() && !stderr(&with).contains("not granted"), "{}", stderr(&with));
    let id = bench.json(&["episodes", "list"])[0]["id"].as_str().unwrap().to_owned();
    let episode = bench.json(&["episodes", "show", &id]);
    let said = episode["closing"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(said.contains("Ok(\"4\")"), "the follower judged: {said}");
    assert_eq!(episode["journal"][0]["import"], "llm");
}

#[test]
fn failures_stop_the_run_and_are_never_zero() {
    let Some(bench) = Bench::new("failures_stop_the_run") else { return };
    let run =
        ["run", &bench.guest("odd_failing"), "--reward", &bench.guest("odd_reader"), "--episodes", "100", "--json"];
    let output = bench.run(&run);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["stopped"]["failure_budget"]["failed"].as_u64().unwrap() > 10);
    for episode in summary["episodes"].as_array().unwrap() {
        assert_eq!(episode["reward"].is_null(), episode["ending"] != "terminated", "{episode}");
    }
    assert_ne!(summary["reward_mean"], 0.0);
    let text = bench.run(&run[..run.len() - 1]);
    assert!(stdout(&text).contains("unlucky") && stdout(&text).contains("--failure-budget"), "{}", stdout(&text));

    let refused = bench.run(&["run", &bench.guest("env_math"), "--reward", &bench.guest("hostile_nan"), "--json"]);
    assert_eq!(refused.status.code(), Some(4));
    let summary: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((&summary["reward_mean"], &summary["scored"]), (&Value::Null, &Value::from(0)));
    assert!(stderr(&refused).contains("hostile-nan") && stderr(&refused).contains("NaN"), "{}", stderr(&refused));
}

#[cfg(unix)]
#[test]
fn ctrl_c_completes_the_writes() {
    let Some(bench) = Bench::new("ctrl_c_completes_the_writes") else { return };
    let gate = std::sync::Arc::new(gate::Gate::new(20));
    let held = gate.clone();
    let stub = stub::Stub::start(move |number, _| {
        held.pass(number);
        stub::chat("50")
    });
    let policy = format!("openai:stub@{}", stub.base_url());
    let child = bench
        .command(&["run", &bench.guest("env_guess"), "--policy", &policy, "--episodes", "100000", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    gate.reached();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    gate.open();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["stopped"], "cancelled");
    let run = summary["timing"]["run"].as_str().unwrap();
    let listed = bench.json(&["episodes", "list", "--run", run, "--limit", "1000000"]);
    assert_eq!(listed.as_array().unwrap().len(), summary["episodes"].as_array().unwrap().len());
    assert!(bench.json(&["runs", "list"])[0]["summary"].is_object(), "the run was finished");
}
