//! Weights of a served local model that learn from its sessions, while it answers.

use super::*;
use crate::client::{chat, request, send, user};
use crate::serving::Served;
use clawhost_model::TinyModel;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a test asks for what is not told by an event.
const TRIES: usize = 3_000;

/// The answers of a process or a page, asked for again and again.
pub(crate) fn tries<T>(mut ask: impl FnMut() -> T) -> impl Iterator<Item = T> {
    (0..TRIES).map(move |_| ask())
}

/// A folder with a small model, and the configuration of a gateway that trains it. A thumb counts if it comes within five seconds of the beginning
/// of its session: one was too few on a busy machine.
fn configured(bench: &Bench, rank: u32, weights: &str) -> String {
    let path = bench.data.path().join("tiny");
    let small = TinyModel { width: 16, layers: 1, heads: 2, seed: 5, ..TinyModel::default() };
    small.make().unwrap().write(&path).unwrap();
    let text = format!(
        "[gateway]\nmode = \"rl\"\n[weights]\nmodel = \"m\"\nfrom = [\"all\"]\nbatch = 4\ndeadline_seconds = 5\nadapter_rank = {rank}\nrate = 0.001\n{weights}"
    );
    std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    format!("m=local:{}", path.display())
}

/// A session of one question with a thumb. Returns the version that answered.
pub(crate) fn session(served: &Served, name: &str, thumb: &str, headers: &[(&str, &str)]) -> String {
    let headers = [&[("x-clawhost-session", name)], headers].concat();
    let mut body = chat(&[user("1+1=")]);
    (body["model"], body["max_tokens"]) = ("m".into(), 4.into());
    let answer = send(&served.address, "/v1/chat/completions", &headers, body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    let feedback = json!({"session": name, "thumb": thumb}).to_string();
    let given = request("POST", &served.address, "/v1/feedback", &[], feedback.as_bytes()).answer();
    assert_eq!(given.status, 200, "{given:?}");
    let ended = request("POST", &served.address, &format!("/s/{name}/end"), &[], b"{}").answer();
    assert_eq!(ended.status, 200, "{ended:?}");
    answer.header("x-clawhost-model").split_once(' ').unwrap().1.to_owned()
}

pub(crate) fn sessions(served: &Served, first: &str, headers: &[(&str, &str)]) {
    for number in 0..4 {
        let thumb = if number % 2 == 0 { "up" } else { "down" };
        session(served, &format!("{first}-{number}"), thumb, headers);
    }
}

/// The version that the list of models names.
pub(crate) fn listed(served: &Served) -> String {
    let answer = request("GET", &served.address, "/v1/models", &[], b"").answer().json();
    answer["data"][0]["version"].as_str().unwrap().to_owned()
}

/// The version of the model when it is another one than before.
pub(crate) fn next(bench: &Bench, served: &Served, before: &str) -> String {
    let mut versions = served.changes(bench, || listed(served));
    versions.find(|version| version != before).unwrap_or_else(|| panic!("still {before}"))
}

/// One step by hand, when the sessions may be taken.
fn step(bench: &Bench, upstream: &str) -> Value {
    let mut steps = tries(|| bench.json(&["train-step", "--upstream", upstream]));
    steps.find(|step| !step["train_step"].is_null()).expect("sessions wait")
}

/// What was learned.
fn learned(bench: &Bench) -> Value {
    let file = bench.data.path().join("live-weights/m/learned.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn sessions_with_thumbs_become_new_weights_and_no_request_waits_for_them() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = configured(&bench, 0, "");
    let configured = std::fs::read(bench.data.path().join("tiny/model.safetensors")).unwrap();
    let served = Served::start(&bench, &[&upstream]);
    let stops = Arc::new(AtomicBool::new(false));
    let busy = {
        let (address, stops) = (served.address.clone(), stops.clone());
        std::thread::spawn(move || {
            let mut asked = 0;
            while !stops.load(Ordering::Relaxed) {
                let mut body = chat(&[user(&format!("2+{asked}="))]);
                (body["model"], body["max_tokens"]) = ("m".into(), 2.into());
                let answer = send(&address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer();
                assert_eq!(answer.status, 200, "{answer:?}");
                asked += 1;
            }
            asked
        })
    };
    let first = listed(&served);
    // What its client keeps out of learning teaches nothing.
    sessions(&served, "kept-out", &[("x-no-train", "1")]);
    sessions(&served, "one", &[]);
    let second = next(&bench, &served, &first);
    assert_eq!(session(&served, "two-x", "up", &[]), second);
    sessions(&served, "two", &[]);
    let third = next(&bench, &served, &second);
    stops.store(true, Ordering::Relaxed);
    assert!(busy.join().unwrap() > 0);
    let output = served.terminate();
    assert!(!stderr(&output).contains("do not learn"), "{}", stderr(&output));

    let file = learned(&bench);
    let versions = file["versions"].as_array().unwrap();
    let numbers: Vec<_> = versions.iter().map(|version| version["number"].as_u64().unwrap()).collect();
    assert_eq!((numbers, &file["serves"]), (vec![0, 1, 2], &json!(2)), "{file}");
    assert!(third.starts_with(versions[2]["digest"].as_str().unwrap()), "{third} {file}");
    let mut taught = Vec::new();
    for step in 1..=2 {
        let file = bench.data.path().join(format!("live-weights/m/steps/{step}.json"));
        let step: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        taught.extend(step["taught"].as_object().unwrap().keys().cloned());
    }
    let all: std::collections::BTreeSet<&String> = taught.iter().collect();
    assert_eq!((taught.len(), all.len()), (8, 8), "each session counts once: {taught:?}");
    let unchanged = std::fs::read(bench.data.path().join("tiny/model.safetensors")).unwrap();
    assert!(unchanged == configured, "the folder of the model is never changed");

    // The newest weights serve after a restart, and one step by hand takes what waits.
    let served = Served::start(&bench, &[&upstream]);
    assert_eq!(listed(&served), third);
    session(&served, "three-0", "up", &[]);
    served.terminate();
    let step = step(&bench, &upstream);
    assert_eq!((&step["train_step"]["version"], &step["train_step"]["sessions"]), (&json!(3), &json!(2)), "{step}");
    let none = bench.out(&["train-step", "--upstream", &upstream]);
    assert!(none.contains("fewer than two sessions with feedback wait"), "{none}");
}

#[test]
fn an_adapter_goes_on_from_its_last_version_and_the_weights_below_it_stay() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = configured(&bench, 2, "");
    let served = Served::start(&bench, &[&upstream]);
    let first = listed(&served);
    sessions(&served, "one", &[]);
    let second = next(&bench, &served, &first);
    sessions(&served, "two", &[]);
    next(&bench, &served, &second);
    served.terminate();
    let weights = |version: u64, file: &str| {
        let folder = bench.data.path().join(format!("live-weights/m/versions/{version}/tiny"));
        std::fs::read(folder.join(file)).unwrap()
    };
    assert!(weights(1, "model.safetensors") == weights(2, "model.safetensors"));
    assert!(weights(1, "adapter/adapter_model.safetensors") != weights(2, "adapter/adapter_model.safetensors"));
}

#[test]
fn weights_that_cannot_learn_are_refused_before_the_gateway_starts() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = configured(&bench, 0, "");
    bench.refused(
        &["serve", "--listen", "127.0.0.1:0", "--upstream", "other=openai:m@http://127.0.0.1:9/v1"],
        &["weights.model: there is no model `m` whose weights can learn", "m=local:FOLDER"],
    );
    // Weights that were learned from another model are not mixed with this one.
    bench.json(&["train-step", "--upstream", &upstream]);
    let other = bench.data.path().join("other");
    TinyModel { width: 16, layers: 1, heads: 2, seed: 6, ..TinyModel::default() }
        .make()
        .unwrap()
        .write(&other)
        .unwrap();
    bench.refused(
        &["serve", "--listen", "127.0.0.1:0", "--upstream", &format!("m=local:{}", other.display())],
        &["its weights were learned from", "name another alias, or move the folder away"],
    );
}

#[test]
fn a_step_that_diverges_leaves_the_weights_and_is_not_taken_again() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = configured(&bench, 0, "signal = \"binary\"\nepochs = 32\n");
    let file = bench.data.path().join("gateway.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("rate = 0.001", "rate = 1");
    std::fs::write(&file, text).unwrap();
    let served = Served::start(&bench, &[&upstream]);
    let before = listed(&served);
    sessions(&served, "one", &[]);
    let file = served
        .changes(&bench, || learned(&bench))
        .find(|file| file["versions"].as_array().unwrap().len() == 2)
        .expect("a step");
    assert_eq!((&file["serves"], &file["versions"][1]["is_kept"]), (&json!(0), &json!(false)), "{file}");
    assert!(file["versions"][1]["note"].as_str().unwrap().contains("use a smaller rate"), "{file}");
    assert_eq!(listed(&served), before);
    served.terminate();
    assert!(bench.out(&["train-step", "--upstream", &upstream]).contains("fewer than two"));
}
