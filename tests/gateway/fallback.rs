//! An alias with several models: the order in which they are asked, the number of tries, and what the client and the record say.

use crate::client::{Answer, assistant, chat, post, user};
use crate::stub::{Reply, Stub, events, says, stream};
use crate::{Bench, served};
use clawhost_core::Ending;
use clawhost_gateway::{Candidate, ServedModel};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

/// A stub that answers with a status.
fn failing(status: u16, headers: &'static [(&'static str, &'static str)]) -> Stub {
    Stub::start(move |_, _| {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Reply::Http(status, headers, json!({"error": {"message": format!("status {status}")}}).to_string())
    })
}

/// A stub that says a text, streamed if that is wanted.
fn saying(text: &'static str) -> Stub {
    Stub::start(move |_, request| match request.body["stream"].as_bool() {
        Some(true) => stream(events(request, text, &[])),
        _ => says(request, text, &[]),
    })
}

fn candidate(dialect: Dialect, stub: &Stub, retries: u32) -> Candidate {
    served(dialect, &stub.base_url()).first.retried(retries)
}

async fn bench(candidates: Vec<Candidate>) -> Bench {
    let mut candidates = candidates.into_iter();
    let first = candidates.next().unwrap();
    let model = ServedModel { alias: "m".into(), first, then: candidates.collect(), routing: None };
    Bench::with(vec![model], |config| config.limits.retry_pause = Duration::ZERO).await
}

fn body(streams: bool) -> Value {
    json!({"model": "m", "stream": streams, "max_tokens": 9, "messages": [user("hi")]})
}

/// The text of an answer, whole or streamed.
fn said(answer: &Answer) -> String {
    match answer.header("content-type").starts_with("text/event-stream") {
        true => answer.text(),
        false => answer.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
    }
}

fn attempts(answer: &Answer) -> (u16, String, String) {
    (answer.status, said(answer), answer.header("x-clawhost-attempts").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_model_answers_when_one_does_not_and_the_record_names_it() {
    for first in [Dialect::OpenAi, Dialect::Anthropic] {
        for second in [Dialect::OpenAi, Dialect::Anthropic] {
            for streams in [false, true] {
                let (down, up) = (failing(503, &[]), saying("Hello"));
                let mut bench = bench(vec![candidate(first, &down, 0), candidate(second, &up, 0)]).await;
                let answer = post(&bench.address, CHAT, &[], &body(streams)).await;
                let case = format!("{first:?}, {second:?}, streams: {streams}: {answer:?}");
                assert_eq!(attempts(&answer), (200, "Hello".into(), "2".into()), "{case}");
                let episodes = bench.episodes().await;
                assert_eq!((episodes.len(), episodes[0].turns.len()), (1, 1), "{case}");
                assert_eq!(episodes[0].policy.model.version, up.base_url(), "{case}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_asked_again_before_the_next_one() {
    let flaky = Stub::start(|number, request| match number {
        0 => Reply::Http(500, vec![], "{}".into()),
        1 => Reply::Half,
        _ => says(request, "at last", &[]),
    });
    let other = saying("other");
    let bench = bench(vec![candidate(Dialect::OpenAi, &flaky, 2), candidate(Dialect::OpenAi, &other, 0)]).await;
    let answer = post(&bench.address, CHAT, &[], &body(false)).await;
    assert_eq!(attempts(&answer), (200, "at last".into(), "3".into()));
    assert_eq!((flaky.requests().len(), other.requests().len()), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_failure_reaches_the_client_as_it_came() {
    let (one, two) = (failing(503, &[]), failing(429, &[("retry-after", "7")]));
    let mut bench = bench(vec![candidate(Dialect::OpenAi, &one, 1), candidate(Dialect::OpenAi, &two, 0)]).await;
    let answer = post(&bench.address, CHAT, &[], &body(false)).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "7"));
    assert_eq!((answer.json()["error"]["message"].as_str(), one.requests().len()), (Some("status 429"), 2));
    let episodes = bench.episodes().await;
    assert!(matches!(episodes[0].ending, Ending::Failed(_)), "one record: {:?}", episodes[0].ending);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_is_asked_once() {
    let (refuses, other) = (failing(400, &[]), saying("other"));
    let bench = bench(vec![candidate(Dialect::OpenAi, &refuses, 3), candidate(Dialect::OpenAi, &other, 0)]).await;
    let answer = post(&bench.address, CHAT, &[], &body(false)).await;
    assert_eq!((answer.status, refuses.requests().len(), other.requests().len()), (400, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_has_begun_is_not_asked_for_again() {
    let half = Stub::start(|_, request| {
        let begun: Vec<Vec<u8>> = events(request, "Hello", &[]).into_iter().take(2).map(String::into_bytes).collect();
        Reply::Stream { fragments: Box::new(begun.into_iter()), ends: true }
    });
    let other = saying("other");
    let bench = bench(vec![candidate(Dialect::OpenAi, &half, 2), candidate(Dialect::OpenAi, &other, 0)]).await;
    let answer = post(&bench.address, CHAT, &[], &body(true)).await;
    assert!(answer.body.contains("before the answer was complete"), "{answer:?}");
    assert_eq!((half.requests().len(), other.requests().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_again_and_again_is_left_alone_for_a_while() {
    let (down, up) = (failing(503, &[]), saying("Hello"));
    let bench = bench(vec![candidate(Dialect::OpenAi, &down, 0), candidate(Dialect::OpenAi, &up, 0)]).await;
    for _ in 0..8 {
        assert_eq!(post(&bench.address, CHAT, &[], &body(false)).await.status, 200);
    }
    assert_eq!((down.requests().len(), up.requests().len()), (5, 8), "left alone after five failures");
    bench.clock.advance(Duration::from_secs(31));
    post(&bench.address, CHAT, &[], &body(false)).await;
    post(&bench.address, CHAT, &[], &body(false)).await;
    assert_eq!(down.requests().len(), 6, "one request tries it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_changes_its_model_stays_one_session() {
    let flaky = Stub::start(|number, request| match number {
        0 => says(request, "one", &[]),
        _ => Reply::Http(503, vec![], "{}".into()),
    });
    let other = saying("two");
    let mut bench = bench(vec![candidate(Dialect::OpenAi, &flaky, 0), candidate(Dialect::Anthropic, &other, 0)]).await;
    post(&bench.address, CHAT, &[], &chat(&[user("a")])).await;
    let second = post(&bench.address, CHAT, &[], &chat(&[user("a"), assistant("one"), user("b")])).await;
    assert_eq!(said(&second), "two");
    let episodes = bench.episodes().await;
    assert_eq!((episodes.len(), episodes[0].turns.len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_client_is_passed_on_only_where_the_model_wants_that() {
    for (passes, expect) in [(true, Some("Bearer sk-own")), (false, None)] {
        let stub = saying("Hello");
        let mut model = served(Dialect::OpenAi, &stub.base_url());
        if let clawhost_gateway::ModelSource::Endpoint { passes_key, .. } = &mut model.first.source {
            *passes_key = passes;
        }
        let bench = Bench::with(vec![model], |_| {}).await;
        post(&bench.address, CHAT, &[("authorization", "Bearer sk-own")], &body(false)).await;
        let sent = stub.requests();
        let key = sent[0].headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        assert_eq!(key.map(|(_, value)| value.as_str()), expect);
    }
}
