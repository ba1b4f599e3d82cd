//! Weights of a served local model that change while the gateway runs.

use super::*;
use crate::client::{chat, request, send, user};
use crate::serving::Served;
use clawhost_model::TinyModel;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Replacements of the weights.
const SWAPS: usize = 100;
/// Clients that ask without a pause.
const CLIENTS: usize = 3;
/// Requests until a gateway that looks at the folder each second must have seen new weights: more than a minute of them.
const LOOKS: u32 = 100_000;

/// Answered requests by the version that answered.
type Answered = BTreeMap<String, usize>;

/// A served folder of a small model, and the files of two different weights for it.
struct Folder {
    path: PathBuf,
    weights: [Vec<u8>; 2],
}

impl Folder {
    /// A folder that has the first weights.
    fn new(bench: &Bench) -> Self {
        let path = bench.data.path().join("tiny");
        let weights = [1, 0].map(|seed| {
            let small = TinyModel { width: 16, layers: 1, heads: 2, seed, ..TinyModel::default() };
            small.make().unwrap().write(&path).unwrap();
            std::fs::read(path.join("model.safetensors")).unwrap()
        });
        let [second, first] = weights;
        Self { path, weights: [first, second] }
    }

    fn spec(&self) -> String {
        format!("local:{}", self.path.display())
    }

    /// Renames a file of weights into place.
    fn publish(&self, bytes: &[u8]) {
        let new = self.path.join("model.safetensors.new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, self.path.join("model.safetensors")).unwrap();
    }
}

/// Asks a model. Returns the version that answered, from the header.
fn ask(address: &str, alias: &str, text: &str, streams: bool) -> String {
    let mut body = chat(&[user(text)]);
    (body["model"], body["max_tokens"], body["stream"]) = (alias.into(), 2.into(), streams.into());
    let answer = send(address, "/v1/chat/completions", &[], body.to_string().as_bytes()).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!streams || answer.body.contains("[DONE]"), "{answer:?}");
    let (name, version) = answer.header("x-clawhost-model").split_once(' ').expect("a version");
    assert_eq!(name, "tiny");
    version.to_owned()
}

/// The versions that the list of models names, by alias.
fn listed(served: &Served) -> BTreeMap<String, String> {
    let answer = request("GET", &served.address, "/v1/models", &[], b"").answer().json();
    let text = |model: &Value, key: &str| model[key].as_str().unwrap().to_owned();
    let models = answer["data"].as_array().unwrap().iter();
    models.map(|model| (text(model, "id"), text(model, "version"))).collect()
}

/// Sends one request after another until the test ends it.
fn client(number: usize, address: String, stops: Arc<AtomicBool>) -> std::thread::JoinHandle<Answered> {
    std::thread::spawn(move || {
        let mut answered = Answered::new();
        let mut asked = 0;
        while !stops.load(Ordering::Relaxed) {
            let version = ask(&address, "m", &format!("{number}+{asked}="), asked % 2 == 1);
            *answered.entry(version).or_default() += 1;
            asked += 1;
        }
        answered
    })
}

#[test]
fn a_hundred_published_weights_refuse_no_request_and_lose_no_record() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let folder = Folder::new(&bench);
    let served = Served::start(&bench, &[&format!("m={}", folder.spec())]);
    let stops = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS).map(|number| client(number, served.address.clone(), stops.clone())).collect();
    let mut answered = Answered::new();
    let mut versions = Vec::new();
    for swap in 0..=SWAPS {
        if swap > 0 {
            folder.publish(&folder.weights[swap % 2]);
            bench.json(&["reload"]);
        }
        let version = ask(&served.address, "m", &format!("9{CLIENTS}+{swap}="), false);
        assert_eq!(listed(&served)["m"], version);
        *answered.entry(version.clone()).or_default() += 1;
        versions.push(version);
    }
    stops.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap().into_iter().for_each(|(version, count)| *answered.entry(version).or_default() += count);
    }
    assert_ne!(versions[0], versions[1]);
    let expect: Vec<_> = (0..=SWAPS).map(|swap| versions[swap % 2].clone()).collect();
    assert_eq!(versions, expect, "the published weights answer when `reload` has ended");

    let output = served.terminate();
    let all: usize = answered.values().sum();
    assert!(stderr(&output).contains(&format!("recorded {all} exchanges, missed 0")), "{}", stderr(&output));
    bench.out(&["episodes", "close"]);
    let file = bench.data.path().join("out.jsonl").display().to_string();
    bench.out(&["episodes", "export", "--all", "--output", &file]);
    let mut recorded = Answered::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let episode: Value = serde_json::from_str(line).unwrap();
        assert_eq!(episode["turns"].as_array().map(Vec::len), Some(1), "{episode}");
        let version = episode["turns"][0]["answered_by"]["version"].as_str().unwrap().to_owned();
        *recorded.entry(version).or_default() += 1;
    }
    assert_eq!(recorded, answered, "an episode for each answer, with the weights that answered");
}

#[test]
fn weights_that_cannot_be_used_leave_the_former_ones_and_are_named_until_others_are_published() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let folder = Folder::new(&bench);
    let configure = |more: &str| {
        let text = format!("{more}[models.configured]\nmodel = '{}'\n", folder.spec());
        std::fs::write(bench.data.path().join("gateway.toml"), text).unwrap();
    };
    configure("");
    let served = Served::start(&bench, &[&format!("requested={}", folder.spec())]);
    let former = ask(&served.address, "requested", "1", false);
    let both = |version: &str| ["configured", "requested"].map(|alias| (alias.to_owned(), version.to_owned()));
    assert_eq!(listed(&served), both(&former).into());

    let [_, other] = &folder.weights;
    folder.publish(&other[..other.len() / 2]);
    let says = ["the model `requested` answers with its former weights", "is the download complete?"];
    bench.refused(&["reload"], &says);
    assert_eq!(ask(&served.address, "requested", "1", true), former);
    assert_eq!(ask(&served.address, "configured", "1", true), former);
    let state = bench.json(&["status"]);
    let named = state["configuration"]["former_weights"].as_array().unwrap();
    assert_eq!(named.iter().map(|model| &model["alias"]).collect::<Vec<_>>(), ["requested", "configured"], "{state}");
    let state = bench.out(&["status"]);
    assert!(state.contains("the model `configured` answers with its former weights"), "{state}");

    // The folder is looked at every second, whatever the configuration is.
    configure("[gateway]\nno_such_key = 1\n");
    folder.publish(other);
    let answers =
        |alias: &str| (0..LOOKS).find_map(|_| Some(ask(&served.address, alias, "1", false)).filter(|it| *it != former));
    let latter = answers("requested").expect("the gateway did not take the weights over");
    assert_eq!(answers("configured"), Some(latter.clone()));
    assert_eq!(listed(&served), both(&latter).into());
    let generated = json!({"model": "requested", "prompt_ids": [1, 2], "sampling_params": {"max_tokens": 2}});
    let generated = send(&served.address, "/generate", &[], generated.to_string().as_bytes()).answer().json();
    assert_eq!((&generated["policy_version"], &generated["weights"]), (&1.into(), &latter.into()), "{generated}");
    configure("");
    bench.json(&["reload"]);
    assert_eq!(bench.json(&["status"])["configuration"]["former_weights"], json!([]));
    let output = served.terminate();
    let log = stderr(&output);
    assert!(log.contains("the model `requested` answers with its former weights"), "{log}");
}
