//! Keys of clients: who may ask, whose sessions and responses they are, and how much.

use crate::client::{Answer, assistant, chat, post, request, user};
use crate::stub::{Stub, events, says, stream};
use crate::{Bench, served, turns};
use clawhost_core::{Digest, KnownSecrets};
use clawhost_gateway::{ClientKey, ClientKeys};
use clawhost_providers::{Dialect, Prices};
use serde_json::{Value, json};

fn key(name: &str) -> ClientKey {
    ClientKey::new(name, Digest::of(format!("ch-{name}").as_bytes()), 0)
}

fn model() -> Stub {
    Stub::start(|_, request| says(request, "ok", &[]))
}

async fn keyed(stub: &Stub, keys: Vec<ClientKey>) -> Bench {
    Bench::keyed(vec![served(Dialect::OpenAi, &stub.base_url())], ClientKeys::new(keys), "127.0.0.1:0").await
}

async fn ask(bench: &Bench, key: &str, messages: &[Value]) -> Answer {
    post(&bench.address, "/v1/chat/completions", &[("authorization", &format!("Bearer {key}"))], &chat(messages)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_refused_in_the_dialect_and_reaches_no_upstream() {
    let stub = model();
    let bench = keyed(&stub, vec![key("a")]).await;
    assert_eq!(ask(&bench, "ch-a", &[user("hi")]).await.status, 200);
    let refused = ask(&bench, "ch-b", &[user("hi")]).await;
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].as_str()),
        (401, Some("invalid_api_key")),
        "{refused:?}"
    );
    let body = json!({"model": "m", "max_tokens": 5, "messages": [user("hi")]});
    let refused = post(&bench.address, "/v1/messages", &[("x-api-key", "ch-b")], &body).await;
    assert_eq!((refused.status, refused.json()["error"]["type"].as_str()), (401, Some("authentication_error")));
    assert_eq!(stub.requests().len(), 1);
    let sent = format!("{:?}", stub.requests());
    assert!(!sent.contains("ch-a"), "a client's key is not passed on: {sent}");
    bench.set_keys(ClientKeys::new(vec![key("b")]));
    assert_eq!(ask(&bench, "ch-a", &[user("hi")]).await.status, 401, "it was removed");
    assert_eq!(ask(&bench, "ch-b", &[user("hi")]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_are_served_with_a_key_alone() {
    let stub = model();
    let models = vec![served(Dialect::OpenAi, &stub.base_url())];
    let bench = Bench::keyed(models, ClientKeys::new(vec![key("a")]), "0.0.0.0:0").await;
    let foreign = ("host", "gateway.lan");
    let body = chat(&[user("hi")]);
    let answer = post(&bench.address, "/v1/chat/completions", &[foreign], &body).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let answer = post(&bench.address, "/v1/chat/completions", &[foreign, ("x-api-key", "ch-a")], &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    for path in ["/v1/models", "/v1/responses/resp_1"] {
        let (address, path) = (bench.address.clone(), path.to_owned());
        let sent = move || request("GET", &address, &path, &[], b"").answer().status;
        assert_eq!(tokio::task::spawn_blocking(sent).await.unwrap(), 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_responses_belong_to_a_key() {
    let stub = Stub::start(|_, request| match request.path.ends_with("/responses") {
        true => crate::stub::Reply::Http(404, vec![], String::new()),
        false => says(request, "ok", &[]),
    });
    let mut bench = keyed(&stub, vec![key("a"), key("b")]).await;
    assert_eq!(ask(&bench, "ch-a", &[user("hi")]).await.status, 200);
    // The same history under another key is not the same conversation.
    assert_eq!(ask(&bench, "ch-b", &[user("hi"), assistant("ok"), user("more")]).await.status, 200);
    assert_eq!(ask(&bench, "ch-a", &[user("hi"), assistant("ok"), user("more")]).await.status, 200);
    let named = |key: &'static str| [("x-api-key", key), ("x-session-id", "job")];
    post(&bench.address, "/v1/chat/completions", &named("ch-a"), &chat(&[user("named")])).await;
    let end = async |key| post(&bench.address, "/s/job/end", &[("x-api-key", key)], &json!({})).await.status;
    assert_eq!((end("ch-b").await, end("ch-a").await), (404, 200));

    let made = json!({"model": "m", "input": "hi"});
    let made = post(&bench.address, "/v1/responses", &[("x-api-key", "ch-a")], &made).await.json();
    let more = json!({"model": "m", "input": "more", "previous_response_id": made["id"]});
    let continued = async |key| post(&bench.address, "/v1/responses", &[("x-api-key", key)], &more).await.status;
    assert_eq!((continued("ch-b").await, continued("ch-a").await), (404, 200));
    let read = async |key: &'static str| {
        let (address, path) = (bench.address.clone(), format!("/v1/responses/{}", made["id"].as_str().unwrap()));
        let sent = move || request("GET", &address, &path, &[("x-api-key", key)], b"").answer().status;
        tokio::task::spawn_blocking(sent).await.unwrap()
    };
    assert_eq!((read("ch-b").await, read("ch-a").await), (404, 200));

    let episodes = bench.episodes().await;
    let runs: std::collections::BTreeSet<_> = episodes.iter().map(|episode| episode.run.clone()).collect();
    assert_eq!(runs.len(), 2, "a run for each key");
    let two_turns = episodes.iter().find(|episode| turns(episode).len() == 2).unwrap();
    let clawhost_core::EpisodeOrigin::Live(live) = &two_turns.origin else { panic!("{two_turns:?}") };
    assert_eq!(live.live.agent, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_answered_with_429_and_a_reason() {
    let stub = model();
    let limited = ClientKey { requests_per_minute: Some(2), ..key("a") };
    let spender = ClientKey { tokens_per_day: Some(20), ..key("b") };
    let mut bench = keyed(&stub, vec![limited, spender.clone()]).await;
    let statuses = async |key: &'static str| {
        let mut seen = Vec::new();
        for at in 0..3 {
            seen.push(ask(&bench, key, &[user(&format!("hi {at}"))]).await);
        }
        seen
    };
    let seen = statuses("ch-a").await;
    assert_eq!(seen.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 429]);
    assert!(seen[2].body.contains("2 requests per minute") && !seen[2].header("retry-after").is_empty(), "{seen:?}");
    // Each answer takes 12 tokens.
    let seen = statuses("ch-b").await;
    assert_eq!(seen.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 429]);
    assert_eq!(seen[2].json()["error"]["code"], "insufficient_quota", "{:?}", seen[2]);
    // What was spent counts after a restart, whether its sessions have ended or not.
    bench.stop().await;
    bench.keys = ClientKeys::new(vec![spender]);
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], KnownSecrets::default(), |_| {}).await;
    assert_eq!(ask(&bench, "ch-b", &[user("again")]).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn money_of_a_day_is_limited_and_kept_over_a_restart() {
    let stub = Stub::start(|_, request| match request.body["stream"] == true {
        true => stream(events(request, "ok", &[])),
        false => says(request, "ok", &[]),
    });
    let priced = || {
        // Each answer reads 10 tokens and writes 2.
        let mut served = served(Dialect::OpenAi, &stub.base_url());
        served.first = served.first.priced(Some(Prices { input: 100.0, output: 250.0 }));
        vec![served]
    };
    let spender = ClientKey { usd_micros_per_day: Some(3_000), ..key("a") };
    let keys = ClientKeys::new(vec![spender]);
    let mut bench = Bench::keyed(priced(), keys, "127.0.0.1:0").await;
    assert_eq!(ask(&bench, "ch-a", &[user("hi")]).await.status, 200);
    bench.stop().await;
    bench.start(priced(), KnownSecrets::default(), |_| {}).await;
    let streamed = json!({"model": "m", "stream": true, "messages": [user("more")]});
    let answer = post(&bench.address, "/v1/chat/completions", &[("x-api-key", "ch-a")], &streamed).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    bench.episodes().await;
    bench.start(priced(), KnownSecrets::default(), |_| {}).await;
    let refused = ask(&bench, "ch-a", &[user("again")]).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (429, Some("insufficient_quota")));
    assert!(refused.body.contains("its 0.003 US dollars of today"), "{refused:?}");
    let episodes = bench.episodes().await;
    let costs = episodes.iter().flat_map(|episode| &episode.turns).map(|turn| turn.usage.cost_micros);
    assert_eq!(costs.collect::<Vec<_>>(), [1_500, 1_500]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_keeps_its_traffic_out_of_the_record_or_of_learning() {
    let stub = model();
    let silent = ClientKey { no_record: true, ..key("silent") };
    let untaught = ClientKey { no_train: true, ..key("untaught") };
    let mut bench = keyed(&stub, vec![silent, untaught]).await;
    let answer = ask(&bench, "ch-silent", &[user("a secret")]).await;
    assert_eq!((answer.status, answer.header("x-clawhost-record")), (200, "off"));
    assert_eq!(answer.header("x-clawhost-session"), "");
    let translated = json!({"model": "m", "max_tokens": 5, "messages": [user("a secret")]});
    let streamed = post(&bench.address, "/v1/messages", &[("x-api-key", "ch-silent")], &translated).await;
    assert_eq!((streamed.status, streamed.header("x-clawhost-record")), (200, "off"));
    assert_eq!(ask(&bench, "ch-untaught", &[user("hi")]).await.status, 200);
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 1, "{episodes:?}");
    assert_eq!(turns(&episodes[0]), [(vec!["hi".to_owned()], "ok".to_owned())]);
    assert_eq!(episodes[0].origin.withheld(), Some(clawhost_core::Withheld::NoTrain));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_has_used_stays_when_the_keys_are_read_again() {
    let stub = model();
    let spender = ClientKey { tokens_per_day: Some(12), ..key("a") };
    let bench = keyed(&stub, vec![spender.clone()]).await;
    assert_eq!(ask(&bench, "ch-a", &[user("hi")]).await.status, 200);
    bench.set_keys(ClientKeys::new(vec![spender, key("b")]));
    assert_eq!(ask(&bench, "ch-a", &[user("more")]).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_this_gateway_is_passed_on_to_no_endpoint() {
    let stub = model();
    let mut passing = served(Dialect::OpenAi, &stub.base_url());
    if let clawhost_gateway::ModelSource::Endpoint { passes_key, .. } = &mut passing.first.source {
        *passes_key = true;
    }
    let bench = Bench::keyed(vec![passing], ClientKeys::new(vec![key("a")]), "127.0.0.1:0").await;
    let generate = json!({"prompt_ids": [0], "sampling_params": {"max_tokens": 2}});
    let chat = json!({"model": "m", "messages": [user("hi")]});
    for (path, body) in [("/generate", generate), ("/v1/chat/completions", chat)] {
        post(&bench.address, path, &[("authorization", "Bearer ch-a")], &body).await;
    }
    let sent = stub.requests();
    assert_eq!(sent.len(), 2);
    let has_key = |request: &crate::stub::Received| request.headers.iter().any(|(_, value)| value.contains("ch-a"));
    assert!(!sent.iter().any(has_key), "{sent:?}");
}
