//! Distillation from the command line: teachers in a folder and behind an endpoint, by the drawn token and by the likely ones.

use super::*;
use crate::serving::Served;
use crate::stub::{Reply, Stub};
use crate::weights::{Game, lines};
use clawhost_model::TinyModel;
use serde_json::json;

/// A run that distils, and a teacher in a folder.
struct Distilling {
    game: Game,
    folder: String,
}

impl Distilling {
    fn new(test: &str) -> Option<Self> {
        let game = Game::new(test, &["--objective", "opd", "--rate", "0.005"])?;
        let folder = game.bench.data.path().join("large");
        TinyModel { seed: 9, width: 32, ..TinyModel::default() }.make().unwrap().write(&folder).unwrap();
        Some(Self { folder: folder.display().to_string(), game })
    }

    /// The words of the run without a look at validation or test tasks, and with these options, which take the place of others.
    fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let mut words = self.game.words(&[]);
        let few = ["--test-pairs", "0", "--evaluate-every", "0"];
        let mut more = few.iter().chain(more).copied().peekable();
        while let Some(option) = more.next() {
            let value = more.next_if(|word| !word.starts_with("--"));
            match (words.iter().position(|word| *word == option), value) {
                (Some(place), Some(value)) => words[place + 1] = value,
                (_, value) => words.extend([Some(option), value].into_iter().flatten()),
            }
        }
        words
    }

    /// The result of the run without timing, and its metrics.
    fn learned(&self, bench: &Bench, more: &[&str]) -> (Value, Vec<Value>) {
        let (document, timing) = without_timing(bench.json(&self.words(more)));
        (document, lines(&Path::new(timing["out"].as_str().unwrap()).join("metrics.jsonl")))
    }

    /// A gateway that serves the teacher, and the teacher's text.
    fn served(&self) -> (Served, String, Bench) {
        let gateway = self.game.bench.fresh();
        let served = Served::start(&gateway, &[&format!("large=local:{}", self.folder)]);
        let endpoint = format!("openai:large@http://{}/v1", served.address);
        (served, endpoint, gateway)
    }
}

/// The divergence from the teacher in an iteration, nats per token.
fn apart(iteration: &Value) -> f64 {
    -iteration["metrics"]["weights.distillation_advantage_mean"].as_f64().unwrap()
}

#[test]
fn an_endpoint_teaches_as_the_same_model_in_a_folder_does() {
    let Some(distilling) = Distilling::new("an_endpoint_teaches") else { return };
    let (served, endpoint, _gateway) = distilling.served();
    let learned = |teacher: &str, top: &str| {
        let more = ["--teacher", teacher, "--teacher-top", top];
        let (document, iterations) = distilling.learned(&distilling.game.bench, &more);
        let apart: Vec<f64> = iterations.iter().map(apart).collect();
        assert!(apart.len() == 4 && apart[0] > 0.0, "{apart:?}");
        (document["weights"]["after"].clone(), apart)
    };
    let mut found = Vec::new();
    for top in ["0", "4"] {
        let (local, remote) = (learned(&distilling.folder, top), learned(&endpoint, top));
        assert_eq!(local, remote, "bit for bit, by {top} likely tokens");
        found.push(local);
    }
    assert_ne!(found[0].0, found[1].0);
    let output = served.terminate();
    assert!(stderr(&output).contains("recorded 0 exchanges"), "scores are no turns: {}", stderr(&output));
}

#[test]
fn the_policy_comes_nearer_to_its_teacher_by_likely_tokens() {
    let Some(distilling) = Distilling::new("nearer_to_its_teacher") else { return };
    let (_served, endpoint, _gateway) = distilling.served();
    for teacher in [&distilling.folder, &endpoint] {
        let more = ["--teacher", teacher, "--teacher-top", "5", "--iterations", "12"];
        let (_, iterations) = distilling.learned(&distilling.game.bench, &more);
        let apart: Vec<f64> = iterations.iter().map(apart).collect();
        assert!(apart.len() == 12 && apart[11] < 0.6 * apart[0], "{apart:?}");
    }
}

#[test]
fn a_run_that_distils_needs_no_rewards_that_differ() {
    let Some(distilling) = Distilling::new("needs_no_rewards_that_differ") else { return };
    // Nobody guesses a number of this size.
    let plugin = distilling.game.words[1].replace("size=10&", "size=1000000&");
    let more = ["--iterations", "6", "--episodes", "8", "--teacher", &distilling.folder];
    let mut words = distilling.words(&more);
    words[1] = &plugin;
    words.retain(|word| *word != "-q");
    let output = distilling.game.bench.run(&words);
    let told = format!("{}{}", stdout(&output), stderr(&output));
    assert!(output.status.success(), "{told}");
    assert!(!told.contains("no learning signal") && told.contains("batches     6 learned of 6"), "{told}");
}

#[test]
fn teachers_that_cannot_teach_are_refused_with_a_remedy() {
    let Some(distilling) = Distilling::new("teachers_that_cannot_teach") else { return };
    let (bench, folder) = (&distilling.game.bench, &distilling.folder);
    let refused = |more: &[&str], says: &[&str]| bench.refused(&distilling.words(more), says);
    // Another alphabet of the same size.
    let other = bench.data.path().join("other").display().to_string();
    bench.out(&["model", "init", &other, "--alphabet", "abcdefghijklmnop", "--width", "16"]);
    let gateway = bench.fresh();
    let served = Served::start(&gateway, &[&format!("other=local:{other}")]);
    let endpoint = format!("openai:other@http://{}/v1", served.address);
    refused(&["--teacher", &endpoint], &["--teacher", "cannot be learned from", "here and", "the same tokenizer"]);
    let missing = format!("openai:nobody@http://{}/v1", served.address);
    refused(&["--teacher", &missing], &["cannot be learned from", "nobody"]);
    refused(&["--teacher", "anthropic:m@http://127.0.0.1:9/v1"], &["no teacher; an endpoint must score given tokens"]);
    refused(
        &["--teacher", &endpoint, "--temperature", "0.7"],
        &["--temperature: found 0.7; expected 1: an endpoint as teacher"],
    );
    refused(&["--teacher", folder, "--teacher-top", "21"], &["--teacher-top", "0 to 20"]);
    let plain = Game::new("likely_tokens_without_a_teacher", &["--teacher-top", "4"]).unwrap();
    plain.bench.refused(&plain.words(&[]), &["--teacher-top: needs --objective opd"]);
    // A server for conversations alone.
    let chat = Stub::start(|_, _| Reply::Http(404, vec![], "no such path".to_owned()));
    refused(&["--teacher", &format!("openai:m@{}", chat.base_url())], &["cannot be learned from", "HTTP 404"]);
    assert_eq!(chat.requests()[0].path, "/v1/completions");
}

#[test]
fn a_teacher_that_fails_stops_the_run_which_continues_from_there() {
    let Some(distilling) = Distilling::new("a_teacher_that_fails") else { return };
    let bench = &distilling.game.bench;
    let (served, _, _gateway) = distilling.served();
    // A proxy before the gateway. It passes the check and two iterations on, and then answers with errors while `broken` is set.
    let (inner, broken) = (served.address.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true)));
    let is_broken = broken.clone();
    let front = Stub::start(move |number, request| {
        if number > 70 && is_broken.load(std::sync::atomic::Ordering::Relaxed) {
            return Reply::Http(400, vec![], "out of order".to_owned());
        }
        let answer = client::send(&inner, "/v1/completions", &[], request.body.to_string().as_bytes()).answer();
        Reply::Http(answer.status, vec![], answer.json().to_string())
    });
    let endpoint = format!("openai:large@{}", front.base_url());
    let words = ["--teacher", &endpoint, "--teacher-top", "3", "--concurrency", "4"];
    let failed = bench.run(&distilling.words(&words));
    assert!(!failed.status.success());
    let told = stderr(&failed);
    assert!(told.contains("the teacher cannot be learned from") && told.contains("out of order"), "{told}");
    assert!(told.contains("--resume"), "{told}");
    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    let (resumed, _) = distilling.learned(bench, &[&words[..], &["--resume"]].concat());
    let (uninterrupted, _) = distilling.learned(&bench.warm(), &words);
    assert_eq!(resumed["weights"]["after"], uninterrupted["weights"]["after"]);
}

#[test]
fn a_dry_run_shows_the_teacher_or_the_credit() {
    let Some(distilling) = Distilling::new("a_dry_run_of_a_teacher") else { return };
    let (bench, folder) = (&distilling.game.bench, &distilling.folder);
    let told = bench.out(&distilling.words(&["--dry-run", "--teacher", folder]));
    assert!(told.contains(&format!("teacher     {folder}, by the drawn tokens\n")), "{told}");
    let told = bench.out(&distilling.words(&["--dry-run", "--teacher", folder, "--teacher-top", "4"]));
    assert!(told.contains(", by its 4 most likely tokens at every position and the rest\n"), "{told}");
    let document = bench.json(&distilling.words(&["--dry-run", "--teacher", folder]));
    assert_eq!(document["config"]["work"]["layers"][0]["teacher_top"], json!(0));
    let Some(plain) = Game::new("a_dry_run_of_credit", &["--dry-run"]) else { return };
    let credit = |more: &[&str], says: &str| {
        let told = plain.bench.out(&plain.words(more));
        assert!(told.contains(&format!("credit      {says}\n")), "{told}");
    };
    credit(&[], "of the episode, for all of its turns");
    credit(&["--credit", "turn"], "of the episode, and of each turn among turns after the same observation");
    let judged = ["--credit", "judge", "--credit-weight", "0.5"];
    credit(&judged, "of the episode, and what rewards say of each turn, with weight 0.5");
}
