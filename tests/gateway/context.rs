//! Conversations that are longer than a model's context.

use crate::client::{Answer, assistant, post, user};
use crate::stub::{Received, Reply, Stub, events, says, stream};
use crate::{Bench, served, turns};
use clawhost_gateway::ServedModel;
use clawhost_providers::Dialect;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn model() -> Stub {
    Stub::start(|_, request: &Received| match (request.path.ends_with("/responses"), request.body["stream"] == true) {
        (true, _) => Reply::Http(404, vec![], String::new()),
        (false, true) => stream(events(request, "ok", &[])),
        (false, false) => says(request, "ok", &[]),
    })
}

fn reading(dialect: Dialect, stub: &Stub, tokens: u64) -> Vec<ServedModel> {
    let mut served = served(dialect, &stub.base_url());
    served.first = served.first.reading(Some(tokens));
    vec![served]
}

/// About 100 tokens.
fn long(word: &str) -> String {
    format!("{word} {}", "x".repeat(390))
}

async fn ask(bench: &Bench, messages: &[Value], stream: bool) -> Answer {
    let body = json!({"model": "m", "max_tokens": 9, "stream": stream, "messages": messages});
    post(&bench.address, CHAT, &[], &body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_turns_are_left_out_and_recorded() {
    for (dialect, streams) in
        [(Dialect::OpenAi, false), (Dialect::OpenAi, true), (Dialect::Anthropic, false), (Dialect::Anthropic, true)]
    {
        let stub = model();
        let mut bench = Bench::with(reading(dialect, &stub, 380), |_| {}).await;
        let mut messages = vec![json!({"role": "system", "content": "be  brief"})];
        let mut seen = Vec::new();
        for word in ["one", "two", "three", "four", "five"] {
            messages.push(user(&long(word)));
            let answer = ask(&bench, &messages, streams).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            seen.push(answer.header("x-clawhost-cut").to_owned());
            messages.push(assistant("ok"));
        }
        assert_eq!(seen, ["", "", "", "2", "4"], "{dialect:?}");
        let said = stub.requests().pop().unwrap().conversation();
        let words: Vec<&str> = said.iter().map(|(_, text)| text.split(' ').next().unwrap()).collect();
        assert_eq!(words[1..], ["three", "ok", "four", "ok", "five"], "{dialect:?}");
        let episodes = bench.episodes().await;
        assert_eq!(episodes.len(), 1);
        let said: Vec<String> = turns(&episodes[0]).into_iter().flat_map(|(said, _)| said).collect();
        assert_eq!(said, ["one", "two", "three", "four", "five"].map(long), "the record is whole");
        assert_eq!(
            episodes[0].log,
            [
                "exchange 3: the model did not see 2 messages: its context is shorter",
                "exchange 4: the model did not see 4 messages: its context is shorter"
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_forwarded_as_it_was_written() {
    let stub = model();
    let bench = Bench::with(reading(Dialect::OpenAi, &stub, 300), |_| {}).await;
    let kept = json!({"role": "user", "content": [{"type": "text", "text": "now"}], "own": {"b": 1.50, "a": 2}});
    let body = json!({
        "model": "m", "max_tokens": 9, "top_k": 3,
        "messages": [user(&long("one")), assistant(&long("two")), user(&long("three")), assistant("ok"), kept],
    });
    let answer = post(&bench.address, CHAT, &[], &body).await;
    assert_eq!((answer.status, answer.header("x-clawhost-cut")), (200, "2"), "{answer:?}");
    let sent = &stub.requests()[0].body;
    assert_eq!((&sent["messages"][2], &sent["top_k"]), (&kept, &json!(3)));
    assert_eq!(sent["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_continues_a_long_conversation_is_cut() {
    let stub = model();
    let bench = Bench::with(reading(Dialect::OpenAi, &stub, 250), |_| {}).await;
    let mut previous = Value::Null;
    let mut seen = Vec::new();
    for word in ["one", "two", "three", "four"] {
        let body = json!({"model": "m", "input": long(word), "previous_response_id": previous});
        let answer = post(&bench.address, "/v1/responses", &[], &body).await;
        previous = answer.json()["id"].clone();
        seen.push(answer.header("x-clawhost-cut").to_owned());
    }
    assert_eq!(seen, ["", "", "2", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cut_to_fit_is_refused() {
    let stub = model();
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let bench = Bench::with(reading(dialect, &stub, 300), |_| {}).await;
        let text = "x".repeat(2_000);
        let answer = ask(&bench, &[user("hi"), assistant("ok"), user(&text)], false).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (400, Some("context_length_exceeded")),
            "{answer:?}"
        );
        assert!(answer.body.contains("`stub-model` reads 300"), "{answer:?}");
    }
    assert!(stub.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_with_a_longer_context_stands_in() {
    let (short, long_one) = (model(), model());
    let mut both = reading(Dialect::OpenAi, &short, 300).pop().unwrap();
    both.then = vec![served(Dialect::OpenAi, &long_one.base_url()).first];
    let bench = Bench::with(vec![both], |_| {}).await;
    assert_eq!(ask(&bench, &[user(&"x".repeat(2_000))], false).await.status, 200);
    assert_eq!((short.requests().len(), long_one.requests().len()), (0, 1));
}
