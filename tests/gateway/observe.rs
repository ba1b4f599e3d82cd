//! What an operator sees of a running gateway.

use crate::client::{Answer, chat, post, request, user};
use crate::stub::{Reply, Stub, events, says, stream};
use crate::{ADMIN, Bench, TestClock, served};
use clawhost_core::Digest;
use clawhost_gateway::{AliasStats, ClientKey, ClientKeys, GatewayStats, ServedModel};
use clawhost_providers::{Dialect, Prices};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

fn streamed(text: &str) -> Value {
    json!({"model": "m", "stream": true, "max_tokens": 9, "messages": [user(text)]})
}

/// A model that says a text, streamed if that is wanted.
fn saying(text: &'static str) -> Stub {
    Stub::start(move |_, request| match request.body["stream"].as_bool() {
        Some(true) => stream(events(request, text, &[])),
        _ => says(request, text, &[]),
    })
}

async fn get(bench: &Bench, path: &'static str, headers: &[(&'static str, &'static str)]) -> Answer {
    let (address, headers) = (bench.address.clone(), headers.to_vec());
    tokio::task::spawn_blocking(move || request("GET", &address, path, &headers, b"").answer()).await.unwrap()
}

async fn stats(bench: &Bench) -> GatewayStats {
    serde_json::from_value(get(bench, "/v1/stats", &[]).await.json()).unwrap()
}

fn of<'a>(stats: &'a GatewayStats, alias: &str) -> &'a AliasStats {
    stats.aliases.iter().find(|known| known.alias == alias).unwrap()
}

/// The requests of an alias as `shape status count`.
fn requests(stats: &GatewayStats, alias: &str) -> Vec<String> {
    let shown = of(stats, alias).requests.iter().map(|of| format!("{} {} {}", of.shape, of.status, of.count));
    shown.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_counted_once_where_it_ends() {
    let stub = saying("Hello there");
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    post(&bench.address, CHAT, &[], &chat(&[user("one")])).await;
    post(&bench.address, CHAT, &[], &streamed("two")).await;
    post(&bench.address, "/v1/messages", &[], &streamed("three")).await;
    post(&bench.address, "/v1/embeddings", &[], &json!({"model": "m", "input": "four"})).await;
    post(&bench.address, CHAT, &[], &json!({"model": "unknown", "messages": [user("five")]})).await;
    get(&bench, "/nowhere", &[]).await;
    let stats = stats(&bench).await;
    assert_eq!(requests(&stats, "m"), ["chat 2xx 2", "messages 2xx 1", "embeddings 2xx 1"]);
    assert_eq!(requests(&stats, ""), ["chat 4xx 1", "other 4xx 1"]);
    let m = of(&stats, "m");
    assert_eq!((m.input_tokens, m.output_tokens, m.incomplete), (30, 6, 0));
    assert_eq!((m.added.count(), m.first_token.count(), m.upstream.count()), (4, 2, 4));
    assert_eq!((stats.active_requests, stats.active_streams), (0, 0));
    assert_eq!((stats.recorded, stats.missed, stats.open_sessions, stats.episodes), (3, 0, 3, 0));
    assert_eq!((stats.models.len(), stats.models[0].attempts, stats.models[0].failures), (1, 3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn time_of_a_model_is_not_counted_as_added() {
    let clock: Arc<OnceLock<Arc<TestClock>>> = Arc::default();
    let moved = clock.clone();
    let stub = Stub::start(move |_, request| {
        // Much longer than anything else in this test takes.
        moved.get().unwrap().advance(Duration::from_secs(1000));
        match request.body["stream"].as_bool() {
            Some(true) => stream(events(request, "Hello", &[])),
            _ => says(request, "Hello", &[]),
        }
    });
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    clock.set(bench.clock.clone()).unwrap_or_else(|_| panic!("set once"));
    for body in [chat(&[user("one")]), streamed("two")] {
        for path in [CHAT, "/v1/messages"] {
            let mut body = body.clone();
            body["max_tokens"] = 9.into();
            assert_eq!(post(&bench.address, path, &[], &body).await.status, 200);
        }
    }
    let stats = stats(&bench).await;
    let m = of(&stats, "m");
    assert!(m.added.sum_us < 1_000_000_000, "{m:?}");
    assert!((4_000_000_000..5_000_000_000).contains(&m.upstream.sum_us), "{m:?}");
    assert!((2_000_000_000..3_000_000_000).contains(&m.first_token.sum_us), "{m:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_break_off_and_exchanges_that_are_missed_are_counted() {
    let stub = Stub::start(|_, request| {
        let half: Vec<Vec<u8>> =
            events(request, "Hello there", &[]).into_iter().take(4).map(String::into_bytes).collect();
        Reply::Stream { fragments: Box::new(half.into_iter()), ends: true }
    });
    // The second record needs a new file, for which there is no room.
    let full = |config: &mut clawhost_gateway::GatewayConfig| {
        (config.limits.spool_file_bytes, config.limits.spool_bytes) = (1, 0);
    };
    let bench = Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], full).await;
    post(&bench.address, CHAT, &[], &streamed("one")).await;
    post(&bench.address, CHAT, &[], &streamed("two")).await;
    let stats = stats(&bench).await;
    assert_eq!((of(&stats, "m").incomplete, stats.recorded, stats.missed), (2, 1, 1));
    assert_eq!(requests(&stats, "m"), ["chat 2xx 2"], "the head was sent before");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_a_model_and_its_rest_are_shown() {
    let down = Stub::start(|_, _| Reply::Http(503, vec![], "{}".into()));
    let up = saying("ok");
    let first = served(Dialect::OpenAi, &down.base_url()).first;
    let then = vec![served(Dialect::OpenAi, &up.base_url()).first];
    let bench = Bench::with(vec![ServedModel { alias: "m".into(), first, then, routing: None }], |_| {}).await;
    for at in 0..6 {
        post(&bench.address, CHAT, &[], &chat(&[user(&format!("hi {at}"))])).await;
    }
    let stats = stats(&bench).await;
    let seen: Vec<_> = stats.models.iter().map(|model| (model.attempts, model.failures, model.is_down)).collect();
    assert_eq!(seen, [(5, 5, true), (6, 0, false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_counts_are_served_in_the_format_of_prometheus() {
    let stub = saying("ok");
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    post(&bench.address, CHAT, &[], &chat(&[user("one")])).await;
    let page = get(&bench, "/metrics", &[]).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "# TYPE clawhost_requests_total counter",
        "clawhost_requests_total{shape=\"chat\",alias=\"m\",status=\"2xx\"} 1",
        "clawhost_tokens_total{alias=\"m\",direction=\"input\"} 10",
        "clawhost_tokens_total{alias=\"m\",direction=\"output\"} 2",
        "clawhost_exchanges_recorded_total 1",
        "clawhost_exchanges_missed_total 0",
        "clawhost_open_sessions 1",
        "clawhost_active_requests 0",
        "clawhost_upstream_attempts_total{alias=\"m\",provider=\"openai\",model=\"stub-model\"} 1",
        "clawhost_model_down{alias=\"m\",provider=\"openai\",model=\"stub-model\"} 0",
        "clawhost_added_seconds_bucket{alias=\"m\",le=\"+Inf\"} 1",
        "clawhost_added_seconds_count{alias=\"m\"} 1",
    ] {
        assert!(page.body.lines().any(|known| known == line), "{line}: {}", page.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_is_shown_of_models_with_prices_and_of_no_others() {
    let stub = saying("ok");
    let model = |alias: &str, prices| {
        let first = served(Dialect::OpenAi, &stub.base_url()).first.priced(prices);
        ServedModel { alias: alias.into(), first, then: Vec::new(), routing: None }
    };
    let models = vec![model("priced", Some(Prices { input: 2.5, output: 10.0 })), model("unpriced", None)];
    let bench = Bench::with(models, |_| {}).await;
    for alias in ["priced", "unpriced"] {
        for streams in [false, true] {
            let mut body = streamed(alias);
            (body["model"], body["stream"]) = (alias.into(), streams.into());
            assert_eq!(post(&bench.address, CHAT, &[], &body).await.status, 200);
        }
    }
    // 10 tokens read and 2 written, twice.
    assert_eq!(of(&stats(&bench).await, "priced").cost_micros, Some(90));
    assert_eq!(of(&stats(&bench).await, "unpriced").cost_micros, None);
    let page = get(&bench, "/metrics", &[]).await.body;
    let costs: Vec<_> = page.lines().filter(|line| line.contains("clawhost_cost_usd_total")).skip(1).collect();
    let expect = ["# TYPE clawhost_cost_usd_total counter", "clawhost_cost_usd_total{alias=\"priced\"} 0.000090"];
    assert_eq!(costs, expect);
}

fn key(name: &str) -> ClientKey {
    ClientKey::new(name, Digest::of(format!("ch-{name}").as_bytes()), 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_for_this_machine_and_elsewhere_for_the_admin_alone() {
    let stub = saying("ok");
    let models = || vec![served(Dialect::OpenAi, &stub.base_url())];
    let keys = || ClientKeys::new(vec![key("a")]);
    let local = Bench::keyed(models(), keys(), "127.0.0.1:0").await;
    let open = Bench::keyed(models(), keys(), "0.0.0.0:0").await;
    for path in ["/metrics", "/v1/stats"] {
        let check = async |bench: &Bench, headers: &[(&'static str, &'static str)], expect: u16| {
            assert_eq!(get(bench, path, headers).await.status, expect, "{path} {headers:?}");
        };
        check(&local, &[], 200).await;
        check(&local, &[("x-api-key", "ch-a")], 200).await;
        check(&local, &[("x-api-key", ADMIN)], 200).await;
        check(&local, &[("x-api-key", "ch-wrong")], 401).await;
        check(&local, &[("host", "evil.example")], 403).await;
        check(&local, &[("origin", "https://evil.example")], 403).await;
        check(&open, &[], 401).await;
        check(&open, &[("x-api-key", "ch-a")], 401).await;
        check(&open, &[("x-api-key", ADMIN)], 200).await;
    }
    let refused = post(&local.address, CHAT, &[("x-api-key", "ch-wrong")], &chat(&[user("hi")])).await;
    assert_eq!((refused.status, stats(&local).await.refused_keys), (401, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_an_endpoint_refuses_is_no_refused_key_of_the_gateway() {
    let stub = Stub::start(|_, _| Reply::Http(401, vec![], "{}".into()));
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    assert_eq!(post(&bench.address, CHAT, &[], &chat(&[user("one")])).await.status, 401);
    let stats = stats(&bench).await;
    assert_eq!((stats.refused_keys, requests(&stats, "m")), (0, vec!["chat 4xx 1".to_owned()]));
}
