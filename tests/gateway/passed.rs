//! Plain completions, embeddings and counts of tokens.

use crate::client::post;
use crate::stub::{Reply, Stub, stream};
use crate::{Bench, turns};
use clawhost_providers::Dialect;
use serde_json::{Value, json};

fn plain(text: &str, more: Value) -> Value {
    let mut choice = json!({"index": 0, "text": text, "finish_reason": "stop"});
    choice.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"id": "cmpl-1", "object": "text_completion", "model": "stub", "choices": [choice]})
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_completions_are_forwarded_and_recorded_if_they_generate() {
    let stub = Stub::start(|_, request| match request.body["stream"] == true {
        true => {
            let mut events: Vec<String> =
                ["one ", "two"].map(|text| format!("data: {}\n\n", plain(text, json!({})))).to_vec();
            events.push("data: [DONE]\n\n".into());
            stream(events)
        }
        false => {
            let logprobs = json!({"tokens": ["a"], "token_logprobs": [null]});
            Reply::Http(200, vec![], plain("one two", json!({"logprobs": logprobs})).to_string())
        }
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let ask = async |more: Value| {
        let mut body = json!({"model": "m", "prompt": "count", "suffix": "!"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(&bench.address, "/v1/completions", &[], &body).await
    };
    let whole = ask(json!({})).await;
    assert_eq!((whole.status, whole.json()["choices"][0]["text"].as_str()), (200, Some("one two")), "{whole:?}");
    assert_eq!(stub.requests()[0].body["suffix"], "!");
    let streamed = ask(json!({"stream": true, "prompt": "again"})).await;
    assert!(streamed.body.contains("one ") && streamed.body.ends_with("data: [DONE]\n\n"), "{streamed:?}");
    let scored = ask(json!({"echo": true, "logprobs": 1, "max_tokens": 0})).await;
    assert_eq!(scored.json()["choices"][0]["logprobs"]["tokens"], json!(["a"]));
    assert_eq!(stub.requests()[2].body["model"], "stub-model");
    let episodes = bench.episodes().await;
    let seen: Vec<_> = episodes.iter().flat_map(turns).collect();
    let said = |asked: &str| (vec![asked.to_owned()], "one two".to_owned());
    assert_eq!(seen, [said("count"), said("again")], "log-probs of a given text are no turn of an agent");
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_are_passed_on_and_not_recorded() {
    let stub = Stub::start(|_, _| Reply::Http(200, vec![], json!({"data": [{"embedding": [0.5]}]}).to_string()));
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let body = json!({"model": "m", "input": "a", "encoding_format": "float"});
    let answer = post(&bench.address, "/v1/embeddings", &[], &body).await;
    assert_eq!((answer.status, &answer.json()["data"][0]["embedding"]), (200, &json!([0.5])), "{answer:?}");
    let sent = &stub.requests()[0];
    assert_eq!((sent.path.as_str(), &sent.body["model"]), ("/v1/embeddings", &"stub-model".into()));
    assert!(bench.episodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_has_no_api_for_is_refused() {
    let stub = Stub::start(|_, _| Reply::Http(500, vec![], String::new()));
    let bench = Bench::new(Dialect::Anthropic, &stub.base_url()).await;
    for (path, body) in [
        ("/v1/embeddings", json!({"model": "m", "input": "a"})),
        ("/v1/completions", json!({"model": "m", "prompt": "a"})),
    ] {
        let answer = post(&bench.address, path, &[], &body).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains("has no API for"), "{answer:?}");
    }
    assert!(stub.requests().is_empty());
    let unknown = post(&bench.address, "/v1/embeddings", &[], &json!({"model": "nobody", "input": "a"})).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_counted_by_the_endpoint_or_estimated() {
    let stub = Stub::start(|_, _| Reply::Http(200, vec![], json!({"input_tokens": 7}).to_string()));
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "four bytes each"}]});
    let counted = async |dialect| {
        let bench = Bench::new(dialect, &stub.base_url()).await;
        post(&bench.address, "/v1/messages/count_tokens", &[], &body).await
    };
    let exact = counted(Dialect::Anthropic).await;
    assert_eq!((exact.json()["input_tokens"].as_u64(), exact.header("x-clawhost-estimate")), (Some(7), ""));
    let estimate = counted(Dialect::OpenAi).await;
    assert_eq!(estimate.header("x-clawhost-estimate"), "4 bytes per token", "{estimate:?}");
    assert!(estimate.json()["input_tokens"].as_u64().is_some_and(|tokens| (3..20).contains(&tokens)), "{estimate:?}");
}
