//! Each dialect is answered by an upstream of either one, whole and streamed.

use crate::client::{post, raw, user};
use crate::stub::{Reply, Stub, events, says, stream};
use crate::{Bench, served_with, turns};
use clawhost_core::KnownSecrets;
use clawhost_providers::Dialect;
use serde_json::{Value, json};

const BOTH: [Dialect; 2] = [Dialect::OpenAi, Dialect::Anthropic];

fn path(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAi => "/v1/chat/completions",
        Dialect::Anthropic => "/v1/messages",
    }
}

fn asked(stream: bool) -> Value {
    json!({"model": "m", "max_tokens": 50, "stream": stream, "messages": [{"role": "user", "content": "hi"}]})
}

/// A model that says a text and calls a tool.
fn model() -> Stub {
    Stub::start(|_, request| {
        let calls = [("t1", "look", "{\"x\":1}")];
        match request.body["stream"].as_bool() {
            Some(true) => stream(events(request, "Hello there", &calls)),
            _ => says(request, "Hello there", &calls),
        }
    })
}

/// Text, and name and arguments of the call, of an answer.
fn heard(dialect: Dialect, body: &Value) -> (String, String, Value) {
    match dialect {
        Dialect::OpenAi => {
            let message = &body["choices"][0]["message"];
            let function = &message["tool_calls"][0]["function"];
            let arguments = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
            (message["content"].as_str().unwrap().into(), function["name"].as_str().unwrap().into(), arguments)
        }
        Dialect::Anthropic => {
            let block = |kind: &str| {
                let blocks = body["content"].as_array().unwrap();
                blocks.iter().find(|block| block["type"] == kind).unwrap().clone()
            };
            let call = block("tool_use");
            (
                block("text")["text"].as_str().unwrap().into(),
                call["name"].as_str().unwrap().into(),
                call["input"].clone(),
            )
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_answers_to_a_request_are_recorded() {
    let choice = |index: u64, content: Value, finish: Option<&str>| json!({"index": index, "message": content, "delta": content, "finish_reason": finish});
    let stub = Stub::start(move |_, request| {
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 6});
        if request.body["stream"] != true {
            let choices = [choice(0, said("one"), Some("stop")), choice(1, said("two"), Some("length"))];
            return Reply::Http(200, vec![], json!({"id": "c", "choices": choices, "usage": usage}).to_string());
        }
        let chunks = [
            json!({"id": "c", "choices": [choice(1, said("tw"), None)]}),
            json!({"id": "c", "choices": [choice(0, said("one"), Some("stop")), choice(1, said("o"), Some("length"))]}),
            json!({"id": "c", "choices": [], "usage": usage}),
        ];
        stream(chunks.map(|chunk| format!("data: {chunk}\n\n")).into_iter().chain(["data: [DONE]\n\n".to_owned()]))
    });
    for streams in [false, true] {
        let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
        let body = json!({"model": "m", "n": 2, "stream": streams, "messages": [user("hi")]});
        let answer = post(&bench.address, "/v1/chat/completions", &[], &body).await;
        assert!(answer.status == 200 && answer.body.contains("tw"), "{answer:?}");
        let episodes = bench.episodes().await;
        let turn = &episodes[0].turns[0];
        assert_eq!((turn.action.plain_text().as_str(), turn.usage.completion_tokens), ("one", 6));
        let [other] = turn.others.as_slice() else { panic!("{turn:?}") };
        assert_eq!((other.message.plain_text().as_str(), other.finish.as_str()), ("two", "length"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_and_streamed_answers_reach_clients_of_both_dialects() {
    for (client, upstream) in BOTH.into_iter().flat_map(|client| BOTH.map(|upstream| (client, upstream))) {
        let stub = model();
        let mut bench = Bench::new(upstream, &stub.base_url()).await;
        let whole = post(&bench.address, path(client), &[], &asked(false)).await;
        assert_eq!(whole.status, 200, "{client:?} {upstream:?}: {whole:?}");
        let expect = ("Hello there".to_owned(), "look".to_owned(), json!({"x": 1}));
        assert_eq!(heard(client, &whole.json()), expect, "{client:?} {upstream:?}");
        let streamed = post(&bench.address, path(client), &[], &asked(true)).await;
        assert_eq!(streamed.text(), "Hello there", "{client:?} {upstream:?}: {streamed:?}");
        assert!(streamed.header("content-type").starts_with("text/event-stream"));
        let last = streamed.events().pop().unwrap();
        let is_last = match client {
            Dialect::OpenAi => last == "[DONE]",
            Dialect::Anthropic => last.contains("message_stop"),
        };
        assert!(is_last, "{client:?} {upstream:?}: {last}");
        assert!(!streamed.body.contains("\"choices\":[],"), "the report of usage was not requested: {streamed:?}");
        let episodes = bench.episodes().await;
        assert_eq!(episodes.len(), 2, "{client:?} {upstream:?}");
        for episode in &episodes {
            assert_eq!(turns(episode), [(vec!["hi".to_owned()], "Hello there".to_owned())]);
            assert_eq!(episode.turns[0].action.tool_calls[0].arguments, "{\"x\":1}");
            assert_eq!((episode.turns[0].usage.prompt_tokens, episode.turns[0].usage.completion_tokens), (10, 2));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_the_upstreams_dialect_is_forwarded_byte_for_byte() {
    let stub = Stub::start(|_, request| says(request, "ok", &[]));
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let body = json!({
        "model": "m",
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/never-fetched.png"}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": ""},
        ],
        "n": 2, "logprobs": true, "top_logprobs": 3, "stop": ["a", "b"], "temperature": 3.5, "metadata": {"a": "b"},
        "tool_choice": {"type": "allowed_tools"}, "response_format": {"type": "grammar"}, "future_field": {"deep": [1, null, 1e300]},
    });
    assert_eq!(post(&bench.address, "/v1/chat/completions", &[], &body).await.status, 200);
    let mut expect = body.clone();
    expect["model"] = "stub-model".into();
    assert_eq!(stub.requests()[0].body, expect);
    // A request that only the upstream understands is its to judge.
    let odd = json!({"model": "m", "messages": "not a list"});
    assert_eq!(post(&bench.address, "/v1/chat/completions", &[], &odd).await.status, 200);
    assert_eq!(stub.requests()[1].body["messages"], "not a list");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_passed_on_except_for_keys_and_connections() {
    let stub = Stub::start(|_, _| {
        let headers = vec![
            ("x-request-id", "req-1".to_owned()),
            ("set-cookie", "a=b".into()),
            ("access-control-allow-origin", "*".into()),
            ("x-echo", "sk-upstream-0123456789".into()),
            ("content-type", "application/json".into()),
        ];
        let text = "sk-upstream-0123456789 is the key";
        let message = json!({"role": "assistant", "content": text});
        let body = json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
        Reply::Http(200, headers, body.to_string())
    });
    let known = KnownSecrets::default();
    let model = served_with(Dialect::OpenAi, &stub.base_url(), Some("sk-upstream-0123456789"), &known);
    let mut bench = Bench::with_secrets(vec![model], known, |_| {}).await;
    let headers = [
        ("authorization", "Bearer sk-client"),
        ("x-api-key", "sk-client"),
        ("cookie", "c=d"),
        ("openai-organization", "org"),
        ("x-clawhost-session", "s"),
        ("accept-encoding", "gzip"),
    ];
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let answer = post(&bench.address, "/v1/chat/completions", &headers, &body).await;
    assert_eq!((answer.status, answer.header("x-request-id")), (200, "req-1"));
    for dropped in ["set-cookie", "access-control-allow-origin", "x-echo"] {
        assert_eq!(answer.header(dropped), "", "{dropped}");
    }
    assert!(!answer.body.contains("0123456789"), "{answer:?}");
    let sent = stub.requests().remove(0).headers;
    let header = |name: &str| sent.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(header("authorization"), Some("Bearer sk-upstream-0123456789"));
    assert_eq!(header("openai-organization"), Some("org"));
    for kept_back in ["x-api-key", "cookie", "x-clawhost-session", "accept-encoding"] {
        assert_eq!(header(kept_back), None, "{kept_back}");
    }
    let episodes = bench.episodes().await;
    let record = serde_json::to_string(&episodes).unwrap();
    assert!(!record.contains("0123456789") && !record.contains("sk-client"), "{record}");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_in_both_dialects() {
    let bench = Bench::new(Dialect::OpenAi, "http://127.0.0.1:1/v1").await;
    let get = |headers: &'static str| {
        let address = bench.address.clone();
        tokio::task::spawn_blocking(move || {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            let head = format!("GET /v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            serde_json::from_str::<Value>(text.split_once("\r\n\r\n").unwrap().1).unwrap()
        })
    };
    let listed = get("").await.unwrap();
    assert_eq!((&listed["object"], &listed["data"][0]["id"]), (&json!("list"), &json!("m")));
    let listed = get("anthropic-version: 2023-06-01\r\n").await.unwrap();
    assert_eq!((&listed["data"][0]["type"], &listed["last_id"]), (&json!("model"), &json!("m")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_the_report_of_usage_is_asked_without() {
    let stub = Stub::start(|_, request| match request.body.get("stream_options") {
        Some(_) => Reply::Http(400, vec![], "{\"error\":{\"message\":\"unknown field stream_options\"}}".into()),
        None => stream(events(request, "hi", &[])),
    });
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let answer = post(&bench.address, path(Dialect::OpenAi), &[], &asked(true)).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "hi"));
    let episodes = bench.episodes().await;
    assert_eq!(episodes[0].turns[0].ignored, [clawhost_core::IgnoredRequest::Usage], "it is an estimate");
}

#[tokio::test(flavor = "multi_thread")]
async fn spaces_and_escapes_of_a_request_survive() {
    let stub = Stub::start(|_, request| says(request, "ok", &[]));
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let text = "{ \"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}] ,\"mod\\u0065l\" : \"m\",\n\"x\":1.50 }";
    assert_eq!(raw(&bench.address, path(Dialect::OpenAi), &[], text.into()).await.status, 200);
    let episodes = bench.episodes().await;
    assert_eq!(turns(&episodes[0])[0].0, ["é"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_answers_of_a_model_that_gives_one_are_refused_by_name() {
    let stub = Stub::start(|_, request| says(request, "ok", &[]));
    let bench = Bench::new(Dialect::Anthropic, &stub.base_url()).await;
    let body = json!({"model": "m", "n": 2, "messages": [user("hi")]});
    let refused = post(&bench.address, "/v1/chat/completions", &[], &body).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body.contains("n: this model gives one answer to a request"), "{refused:?}");
    assert!(stub.requests().is_empty());
}
