//! Rewards that judge live episodes by themselves: a judge of what followed each turn, beside execution and what users say.

use super::*;
use crate::client::{assistant, request, user};
use crate::serving::Served;
use crate::stub::{Received, Stub, chat, says};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often a test looks for what a gateway does by itself, a process for each look.
const LOOKS: usize = 2_000;

/// A model that answers `ok`.
fn model() -> Stub {
    Stub::start(|_, request: &Received| says(request, "ok", &[]))
}

/// A judge that likes turns behind which somebody thanks, dislikes those behind which something is wrong, and counts its calls.
fn judge(asked: Arc<AtomicUsize>) -> Stub {
    Stub::start(move |_, request: &Received| {
        asked.fetch_add(1, Ordering::Relaxed);
        let text = request.body["messages"][1]["content"].as_str().unwrap();
        let (_, followed) = text.split_once("What followed:").unwrap();
        chat(match followed {
            text if text.contains("thanks") => "\\boxed{1}",
            text if text.contains("wrong") => "\\boxed{-1}",
            text if text.contains("prose") => "A thoughtful essay.",
            _ => "\\boxed{0}",
        })
    })
}

/// A session in which the user says these texts.
fn session(served: &Served, name: &str, said: &[&str]) {
    let mut messages = Vec::new();
    for text in said {
        messages.push(user(text));
        let body = json!({"model": "m", "messages": messages});
        let headers = [("x-clawhost-session", name)];
        let answer = request("POST", &served.address, "/v1/chat/completions", &headers, body.to_string().as_bytes());
        assert_eq!(answer.answer().status, 200);
        messages.push(assistant("ok"));
    }
    let path = format!("/s/{name}/end");
    assert_eq!(request("POST", &served.address, &path, &[], b"{}").answer().status, 200);
}

/// The episode of a session when it has so many verdicts.
fn judged(bench: &Bench, session: &str, verdicts: usize) -> Value {
    let mut last = Value::Null;
    for _ in 0..LOOKS {
        let rows = bench.json(&["episodes", "list", "--task", session]);
        let Some(id) = rows[0]["id"].as_str() else { continue };
        last = bench.json(&["episodes", "show", id]);
        if last["verdicts"].as_array().map_or(0, Vec::len) >= verdicts {
            return last;
        }
    }
    panic!("{session} has not {verdicts} verdicts: {last}");
}

#[test]
fn live_episodes_are_judged_by_what_followed_each_turn_and_users_outrank_it() {
    let Some(bench) = Bench::new("live_episodes_are_judged") else { return };
    let asked = Arc::new(AtomicUsize::new(0));
    let (stub, judge) = (model(), judge(asked.clone()));
    let config = format!(
        "[scoring]\nrewards = [\"{}?turns=next&votes=3\"]\ngrants = [\"llm:judge=openai:j@{}\"]\n",
        bench.guest("reward_judge"),
        judge.base_url()
    );
    std::fs::write(bench.data.path().join("gateway.toml"), config).unwrap();
    let upstream = format!("m=openai:stub@{}", stub.base_url());
    let served = Served::start(&bench, &[&upstream]);
    session(&served, "good", &["add it", "thanks, and now?", "thanks"]);
    session(&served, "bad", &["add it", "wrong"]);
    session(&served, "divided", &["add it", "and now?"]);
    session(&served, "odd", &["add it", "prose"]);
    session(&served, "last", &["add it", "thanks"]);
    judged(&bench, "last", 1);
    let good = judged(&bench, "good", 1);
    assert_eq!((&good["reward"], &good["verdicts"][0]["source"]), (&json!(1.0), &json!("judge")), "{good}");
    assert_eq!(good["verdicts"][0]["verdict"]["scored"]["per_turn"], json!([1.0, 1.0, 0.0]));
    assert_eq!(judged(&bench, "bad", 1)["reward"], json!(-1.0));
    // Nothing decides a turn, or the judge answers prose: that is no reward, and none of 0.
    for name in ["divided", "odd"] {
        let shown = judged(&bench, name, 0);
        assert_eq!((&shown["reward"], &shown["verdicts"]), (&Value::Null, &Value::Null), "{name}: {shown}");
    }
    let body = json!({"session": "bad", "thumb": "up"}).to_string();
    assert_eq!(request("POST", &served.address, "/v1/feedback", &[], body.as_bytes()).answer().status, 200);
    assert_eq!(judged(&bench, "bad", 2)["reward"], json!(1.0), "a user outranks a judge");
    served.terminate();
    // Another start asks nothing again.
    let before = asked.load(Ordering::Relaxed);
    let served = Served::start(&bench, &[&upstream]);
    session(&served, "later", &["add it", "thanks"]);
    judged(&bench, "later", 1);
    served.terminate();
    assert_eq!(asked.load(Ordering::Relaxed), before + 3, "three votes on one turn");
}

#[test]
fn a_reward_of_the_configuration_that_cannot_be_used_is_refused_at_the_start() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let check = |section: &str, part: &str| {
        std::fs::write(bench.data.path().join("gateway.toml"), section).unwrap();
        let refused = bench.run(&["serve", "--upstream", "m=openai:stub@http://127.0.0.1:1/v1"]);
        assert!(!refused.status.success() && stderr(&refused).contains(part), "{}", stderr(&refused));
    };
    check("[scoring]\nrewards = [\"none.wasm\"]", "none.wasm");
    check(
        "[scoring]\nrewards = [\"none.wasm\"]\ngrants = [\"judge\"]",
        "scoring.grants: expected kv, or llm:ALIAS=SPEC",
    );
    check("[scoring]\nreward = [\"none.wasm\"]", "did you mean `rewards`?");
}
