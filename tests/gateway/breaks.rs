//! Upstreams and clients that break off: the client gets an error, the record says so, nothing is counted twice.

use crate::Bench;
use crate::client::{chat, post, send, user};
use crate::stub::{Reply, Stub, events, says, stream};
use clawhost_core::Ending;
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex};

const CHAT: &str = "/v1/chat/completions";

fn streamed(text: &str) -> Value {
    json!({"model": "m", "stream": true, "max_tokens": 9, "messages": [user(text)]})
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_an_upstream_reach_the_client_as_they_came() {
    let stub = Stub::start(|_, _| {
        let headers = vec![("retry-after", "7".to_owned()), ("content-type", "application/json".into())];
        Reply::Http(429, headers, "{\"error\":{\"message\":\"slow down\",\"own\":1}}".into())
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let answer = post(&bench.address, CHAT, &[], &chat(&[user("hi")])).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "7"));
    assert_eq!(answer.body, "{\"error\":{\"message\":\"slow down\",\"own\":1}}");
    let episodes = bench.episodes().await;
    assert_eq!(episodes[0].ending.to_string(), format!("failed: llm(unavailable): {}", answer.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_cannot_be_used_is_a_502_with_a_time_to_retry() {
    let redirects =
        Stub::start(|_, _| Reply::Http(302, vec![("location", "http://127.0.0.1:1/".into())], String::new()));
    let packed = Stub::start(|_, _| Reply::Http(200, vec![("content-encoding", "gzip".into())], "bomb".into()));
    let half = Stub::start(|_, _| Reply::Half);
    let cases = [
        ("http://127.0.0.1:1/v1".to_owned(), "127.0.0.1:1 cannot be reached"),
        (redirects.base_url(), "redirects elsewhere"),
        (packed.base_url(), "compresses its answer"),
        (half.base_url(), "broke the connection off"),
    ];
    for (base_url, says) in cases {
        let mut bench = Bench::new(Dialect::OpenAi, &base_url).await;
        let answer = post(&bench.address, CHAT, &[], &chat(&[user("hi")])).await;
        assert_eq!((answer.status, answer.header("retry-after")), (502, "2"), "{says}: {answer:?}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(says), "{says}: {answer:?}");
        let episodes = bench.episodes().await;
        assert!(matches!(episodes[0].ending, Ending::Failed(_)), "{says}: {:?}", episodes[0].ending);
        assert!(episodes[0].turns.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_stream_is_an_error_event_and_an_incomplete_record() {
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let stub = Stub::start(|number, request| {
            let all = events(request, "Hello there", &[]);
            match number {
                0 => {
                    let half: Vec<Vec<u8>> = all.into_iter().take(4).map(String::into_bytes).collect();
                    Reply::Stream { fragments: Box::new(half.into_iter()), ends: true }
                }
                _ => stream(all),
            }
        });
        let mut bench = Bench::new(dialect, &stub.base_url()).await;
        let path = if dialect == Dialect::OpenAi { CHAT } else { "/v1/messages" };
        let broken = post(&bench.address, path, &[], &streamed("hi")).await;
        assert_eq!(broken.status, 200);
        let last: Value = serde_json::from_str(&broken.events().pop().unwrap()).unwrap();
        assert!(last["error"]["message"].as_str().unwrap().contains("before the answer was complete"), "{broken:?}");
        assert_eq!(broken.body.contains("event: error"), dialect == Dialect::Anthropic);
        // The client asks again, which is the same session.
        let again = post(&bench.address, path, &[], &streamed("hi")).await;
        assert_eq!(again.header("x-clawhost-session"), broken.header("x-clawhost-session"));
        assert_eq!(again.text(), "Hello there");
        let episodes = bench.episodes().await;
        assert_eq!((episodes.len(), episodes[0].turns.len(), &episodes[0].ending), (1, 1, &Ending::Terminated));
        assert!(episodes[0].log[0].contains("the answer broke off after"), "{:?}", episodes[0].log);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_upstream_inside_a_stream_is_passed_on() {
    let stub = Stub::start(|_, request| {
        let mut begun: Vec<String> = events(request, "Hello", &[]).into_iter().take(2).collect();
        begun.push("data: {\"error\":{\"message\":\"overloaded\"}}\n\n".to_owned());
        stream(begun)
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let broken = post(&bench.address, CHAT, &[], &streamed("hi")).await;
    assert!(broken.body.contains("data: {\"error\":{\"message\":\"overloaded\"}}\n\n"), "{broken:?}");
    bench.stop().await;
    let open = bench.open();
    assert_eq!((open[0].turns, open[0].is_complete), (0, false));
}

/// Opens once.
#[derive(Default)]
struct Door(Mutex<bool>, Condvar);

impl Door {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_ends_the_request_and_the_record_is_incomplete() {
    for upstream in [Dialect::OpenAi, Dialect::Anthropic] {
        let (door, ended) = (Arc::new(Door::default()), Arc::new(Door::default()));
        let (opened, over) = (door.clone(), ended.clone());
        let stub = Stub::start(move |_, request| {
            let mut all = events(request, "Hello there", &[]).into_iter().map(String::into_bytes);
            let (opened, over) = (opened.clone(), over.clone());
            let begun: Vec<Vec<u8>> = all.by_ref().take(3).collect();
            // Then it goes on until its own client, the gateway, has gone.
            let endless = std::iter::from_fn(move || {
                opened.wait();
                Some(b": ping\n\n".to_vec())
            });
            struct Over(Arc<Door>);
            impl Drop for Over {
                fn drop(&mut self) {
                    self.0.open();
                }
            }
            let over = Over(over);
            let fragments = begun.into_iter().chain(endless).inspect(move |_| {
                let _ = &over;
            });
            Reply::Stream { fragments: Box::new(fragments), ends: true }
        });
        let mut bench = Bench::new(upstream, &stub.base_url()).await;
        let address = bench.address.clone();
        let gone = tokio::task::spawn_blocking(move || {
            send(&address, CHAT, &[], streamed("hi").to_string().as_bytes()).until("He");
        });
        gone.await.unwrap();
        door.open();
        let waited = ended.clone();
        tokio::task::spawn_blocking(move || waited.wait()).await.unwrap();
        bench.stop().await;
        let open = bench.open();
        assert_eq!((open.len(), open[0].turns, open[0].is_complete), (1, 0, false), "{upstream:?}");
        let document = bench.reader().exchanges(&open[0].episode.run, &open[0].episode.id).unwrap().remove(0);
        let record: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(record["answer"]["incomplete"]["why"], "the client has gone", "{record}");
        let heard = record["answer"]["incomplete"]["message"]["parts"][0]["text"].as_str().unwrap();
        assert!(heard.starts_with("He") && "Hello there".starts_with(heard), "{record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_loses_no_answered_turn() {
    let door = Arc::new(Door::default());
    let opened = door.clone();
    let stub = Stub::start(move |number, request| match number {
        0 => says(request, "done", &[]),
        _ => {
            let opened = opened.clone();
            let mut all = events(request, "Hello there", &[]).into_iter().map(String::into_bytes);
            let begun: Vec<Vec<u8>> = all.by_ref().take(3).collect();
            let waits = std::iter::once_with(move || {
                opened.wait();
                Vec::new()
            });
            Reply::Stream { fragments: Box::new(begun.into_iter().chain(waits).chain(all)), ends: true }
        }
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    assert_eq!(post(&bench.address, CHAT, &[], &chat(&[user("first")])).await.status, 200);
    let address = bench.address.clone();
    let reading = tokio::task::spawn_blocking(move || {
        send(&address, CHAT, &[], streamed("second").to_string().as_bytes()).until("He");
    });
    reading.await.unwrap();
    bench.kill();
    let episodes = bench.episodes().await;
    door.open();
    assert!(episodes.iter().any(|episode| episode.turns.len() == 1 && episode.task.input == "first"), "{episodes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_that_an_exchange_was_not_recorded() {
    let stub = Stub::start(|_, request| match request.body["stream"].as_bool() {
        Some(true) => stream(events(request, "Hello there", &[])),
        _ => says(request, "Hello there", &[]),
    });
    let served = || vec![crate::served(Dialect::OpenAi, &stub.base_url())];
    // The second record needs a new file, for which there is no room.
    let full = |config: &mut clawhost_gateway::GatewayConfig| {
        (config.limits.spool_file_bytes, config.limits.spool_bytes) = (1, 0);
    };
    let mut bench = Bench::with(served(), full).await;
    let first = post(&bench.address, CHAT, &[], &chat(&[user("one")])).await;
    assert_eq!((first.status, first.header("x-clawhost-record")), (200, ""));
    let second = post(&bench.address, CHAT, &[], &chat(&[user("two")])).await;
    assert_eq!(second.status, 200, "agents are served all the same");
    assert!(second.header("x-clawhost-record").starts_with("missed: "), "{second:?}");
    let third = post(&bench.address, CHAT, &[], &streamed("three")).await;
    assert_eq!(third.text(), "Hello there");
    let comment = third.body.find(": clawhost did not record this exchange").expect("a comment");
    assert!(comment < third.body.find("[DONE]").unwrap(), "before the last event");
    // The Anthropic dialect goes the other way, through a translation.
    let fourth = post(&bench.address, "/v1/messages", &[], &streamed("four")).await;
    assert!(fourth.body.contains(": clawhost did not record"), "{fourth:?}");
    let counts = bench.stop().await;
    assert_eq!((counts.recorded, counts.missed), (1, 3));
    assert_eq!(bench.episodes().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_by_the_timeout_of_silence() {
    let stub = Stub::start(|_, _| Reply::Stall);
    let model = crate::served_within(Dialect::OpenAi, &stub.base_url(), std::time::Duration::from_secs(1));
    let bench = Bench::with(vec![model], |_| {}).await;
    let answer = post(&bench.address, CHAT, &[], &streamed("hi")).await;
    assert_eq!(answer.status, 502);
    assert!(answer.body.contains("was silent for 1 s"), "{answer:?}");
}
