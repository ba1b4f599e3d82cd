//! What changes while the gateway runs: models, names, and how long sessions last. Requests that are under way are not disturbed.

use crate::client::{assistant, chat, post, user};
use crate::stub::{Reply, Stub, events, says};
use crate::{Bench, served, turns};
use clawhost_gateway::{GatewayChange, RecordPolicy, ServedModel};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

/// A model under an alias.
fn named(alias: &str, stub: &Stub) -> ServedModel {
    ServedModel { alias: alias.into(), ..served(Dialect::OpenAi, &stub.base_url()) }
}

fn change(models: Vec<ServedModel>) -> GatewayChange {
    GatewayChange { models, hosts: Vec::new(), session_idle_ms: 60_000, record: RecordPolicy::All, tls: None }
}

fn saying(text: &'static str) -> Stub {
    Stub::start(move |_, request| says(request, text, &[]))
}

fn asks(model: &str) -> Value {
    json!({"model": model, "messages": [user("hi")]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_spans_a_change_ends_whole_and_the_next_request_sees_the_new_models() {
    let (begun, has_begun) = mpsc::channel::<()>();
    let (release, held) = mpsc::channel::<()>();
    let parts = Mutex::new(Some((begun, held)));
    let slow = Stub::start(move |_, request| {
        let parts = parts.lock().unwrap().take();
        let fragments = events(request, "a long answer", &[]).into_iter().enumerate().map(move |(at, event)| {
            if let (3, Some((begun, held))) = (at, &parts) {
                begun.send(()).unwrap();
                held.recv().unwrap();
            }
            event.into_bytes()
        });
        Reply::Stream { fragments: Box::new(fragments), ends: true }
    });
    let fast = saying("new");
    let mut bench = Bench::with(vec![named("old", &slow)], |_| {}).await;
    let address = bench.address.clone();
    let body = json!({"model": "old", "stream": true, "messages": [user("hi")]});
    let streaming = tokio::spawn(async move { post(&address, CHAT, &[], &body).await });
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    bench.change(change(vec![named("new", &fast)])).unwrap();
    assert_eq!(post(&bench.address, CHAT, &[], &asks("old")).await.status, 404);
    assert_eq!(post(&bench.address, CHAT, &[], &asks("new")).await.status, 200);
    release.send(()).unwrap();
    let streamed = streaming.await.unwrap();
    assert_eq!((streamed.status, streamed.text().as_str()), (200, "a long answer"), "{streamed:?}");
    let said: Vec<_> = bench.episodes().await.iter().map(|episode| turns(episode)[0].1.clone()).collect();
    assert!(said.contains(&"a long answer".to_owned()) && said.contains(&"new".to_owned()), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_is_refused_and_changes_nothing() {
    let stub = saying("ok");
    let bench = Bench::with(vec![named("m", &stub)], |_| {}).await;
    let check = |models: Vec<ServedModel>, expect: &str| {
        let change = GatewayChange { hosts: vec!["other.example".into()], ..change(models) };
        assert_eq!(bench.change(change).unwrap_err().code(), expect);
    };
    check(vec![], "gateway-without-model");
    check(vec![named("a", &stub), named("a", &stub)], "gateway-alias-twice");
    assert_eq!(post(&bench.address, CHAT, &[], &asks("m")).await.status, 200);
    assert_eq!(post(&bench.address, CHAT, &[("host", "other.example")], &asks("m")).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_the_end_of_sessions_change_while_it_runs() {
    let stub = saying("ok");
    let bench = Bench::with(vec![named("m", &stub)], |_| {}).await;
    let named_host = [("host", "new.example")];
    assert_eq!(post(&bench.address, CHAT, &named_host, &asks("m")).await.status, 403);
    let hosts = vec!["new.example".to_owned()];
    bench.change(GatewayChange { hosts, session_idle_ms: 1000, ..change(vec![named("m", &stub)]) }).unwrap();
    let first = post(&bench.address, CHAT, &named_host, &asks("m")).await;
    assert_eq!(first.status, 200);
    bench.clock.advance(Duration::from_secs(2));
    // The importer looks at the clock when an exchange is recorded.
    loop {
        post(&bench.address, CHAT, &[("x-clawhost-session", "other")], &chat(&[user("wakes it")])).await;
        let continued = post(&bench.address, CHAT, &[], &chat(&[user("hi"), assistant("ok"), user("more")])).await;
        if continued.header("x-clawhost-session") != first.header("x-clawhost-session") {
            break;
        }
        bench.clock.advance(Duration::from_secs(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_name_of_its_client_ends_by_the_name_that_the_gateway_made() {
    let stub = saying("ok");
    let mut bench = Bench::with(vec![named("m", &stub)], |_| {}).await;
    let first = post(&bench.address, CHAT, &[], &asks("m")).await;
    let name = first.header("x-clawhost-session").to_owned();
    let end = async |name: &str| post(&bench.address, &format!("/s/{name}/end"), &[], &json!({})).await;
    assert_eq!(end("s-0000000000000000").await.status, 404);
    let ended = end(&name).await;
    assert_eq!((ended.status, &ended.json()["ended"]), (200, &json!(1)), "{ended:?}");
    assert_eq!(end(&name).await.status, 404, "it has ended");
    let next = post(&bench.address, CHAT, &[], &chat(&[user("hi"), assistant("ok"), user("more")])).await;
    assert_ne!(next.header("x-clawhost-session"), name);
    assert_eq!(bench.episodes().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_recorded_of_clients_without_a_key_can_be_chosen() {
    let stub = saying("ok");
    let mut bench = Bench::with(vec![named("m", &stub)], |config| config.record = RecordPolicy::Off).await;
    let off = post(&bench.address, CHAT, &[], &asks("m")).await;
    assert_eq!((off.status, off.header("x-clawhost-record"), off.header("x-clawhost-session")), (200, "off", ""));
    bench.change(GatewayChange { record: RecordPolicy::NoTrain, ..change(vec![named("m", &stub)]) }).unwrap();
    assert_eq!(post(&bench.address, CHAT, &[], &asks("m")).await.header("x-clawhost-record"), "");
    let episodes = bench.episodes().await;
    let withheld: Vec<_> = episodes.iter().map(|episode| episode.origin.withheld()).collect();
    assert_eq!(withheld, [Some(clawhost_core::Withheld::NoTrain)]);
}
