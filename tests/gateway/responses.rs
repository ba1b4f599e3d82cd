//! `/v1/responses`: forwarded to an endpoint that has it, translated for others; stored responses are continued, read and deleted.

use crate::client::{Answer, post, request};
use crate::stub::{Received, Reply, Stub, events, says, stream};
use crate::{Bench, served, turns};
use clawhost_providers::Dialect;
use serde_json::{Value, json};

const PATH: &str = "/v1/responses";

fn asked(input: Value, more: Value) -> Value {
    let mut body = json!({"model": "m", "input": input, "max_output_tokens": 50});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// An endpoint without `/responses` that repeats the last message, or calls a tool.
fn chat_only() -> Stub {
    Stub::start(|_, request| {
        if request.path.ends_with("/responses") {
            return Reply::Http(404, vec![], json!({"error": {"message": "no such path"}}).to_string());
        }
        let said = request.conversation().pop().unwrap().1;
        let calls: &[(&str, &str, &str)] = if said == "look" { &[("t1", "look", "{\"x\":1}")] } else { &[] };
        match request.body["stream"] == true {
            true => stream(events(request, &said, calls)),
            false => says(request, &said, calls),
        }
    })
}

fn output(number: usize, text: &str) -> Value {
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    json!({"id": format!("msg_{number}"), "type": "message", "status": "completed", "role": "assistant", "content": [part]})
}

/// An endpoint with `/responses`, which keeps none: it does not know earlier ids.
fn native(remembers: bool) -> Stub {
    Stub::start(move |number, request: &Received| {
        let earlier = request.body["previous_response_id"].as_str();
        if earlier.is_some() && !remembers {
            return Reply::Http(404, vec![], json!({"error": {"message": "previous response not found"}}).to_string());
        }
        let items = request.body["input"].as_array().map_or(1, Vec::len);
        let reasoning = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"});
        let output = json!([reasoning, output(number, &format!("saw {items}"))]);
        let whole = json!({
            "id": format!("resp_up{number}"), "object": "response", "status": "completed", "model": "stub", "output": output,
            "future": {"kept": true}, "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
        });
        if request.body["stream"] != true {
            return Reply::Http(200, vec![], whole.to_string());
        }
        let event = |kind: &str, more: Value| {
            let mut event = json!({"type": kind, "sequence_number": 0});
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            format!("event: {kind}\ndata: {event}\n\n")
        };
        stream([
            event("response.created", json!({"response": {"id": whole["id"], "status": "in_progress"}})),
            event("response.output_text.delta", json!({"output_index": 1, "delta": format!("saw {items}")})),
            event("response.unknown_event", json!({"future": 1})),
            event("response.completed", json!({"response": whole})),
        ])
    })
}

fn text(body: &Value) -> String {
    let items = body["output"].as_array().unwrap();
    let texts = items.iter().filter_map(|item| item["content"][0]["text"].as_str());
    texts.collect()
}

async fn get(bench: &Bench, method: &'static str, path: &str) -> Answer {
    let (address, path) = (bench.address.clone(), path.to_owned());
    tokio::task::spawn_blocking(move || request(method, &address, &path, &[], b"").answer()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_another_shape_answers_in_items_and_is_continued_by_an_id() {
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let stub = chat_only();
        let mut bench = Bench::new(dialect, &stub.base_url()).await;
        let tool = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
        let first =
            post(&bench.address, PATH, &[], &asked("look".into(), json!({"tools": tool, "instructions": "be brief"})))
                .await;
        assert_eq!(first.status, 200, "{first:?}");
        let first = first.json();
        assert_eq!(
            (&first["object"], &first["status"], &first["tools"]),
            (&"response".into(), &"completed".into(), &tool)
        );
        let call = &first["output"][1];
        assert_eq!((&call["type"], &call["call_id"]), (&"function_call".into(), &"t1".into()), "{first}");
        let result = json!([{"type": "function_call_output", "call_id": "t1", "output": "rain"}]);
        let more = json!({"previous_response_id": first["id"], "tools": tool, "instructions": "be brief"});
        let second = post(&bench.address, PATH, &[], &asked(result, more)).await.json();
        assert_eq!(text(&second), "rain", "{dialect:?}: {second}");
        let sent = stub.requests().pop().unwrap();
        let roles: Vec<String> = sent.conversation().into_iter().map(|(role, _)| role).collect();
        assert_eq!(roles.first().map(String::as_str), Some("system"), "{roles:?}");
        assert!(roles.len() >= 3 && sent.body.to_string().contains("\"t1\""), "{dialect:?}: {}", sent.body);
        let episodes = bench.episodes().await;
        assert_eq!(episodes.len(), 1, "{dialect:?}");
        assert_eq!(
            turns(&episodes[0]),
            [(vec!["look".to_owned()], "look".to_owned()), (vec!["rain".to_owned()], "rain".to_owned())]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_in_a_namespace_reach_a_model_of_another_shape_under_one_name() {
    let stub = Stub::start(|_, request| {
        if request.path.ends_with("/responses") {
            return Reply::Http(404, vec![], String::new());
        }
        let last = request.conversation().pop().unwrap();
        let calls: &[(&str, &str, &str)] = if last.1 == "go" { &[("t1", "agents__spawn", "{}")] } else { &[] };
        match request.body["stream"] == true {
            true => stream(events(request, "", calls)),
            false => says(request, if calls.is_empty() { "done" } else { "" }, calls),
        }
    });
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let mut bench = Bench::new(dialect, &stub.base_url()).await;
        let tool = json!({"type": "function", "name": "spawn", "parameters": {"type": "object"}});
        let tools = json!({"tools": [{"type": "namespace", "name": "agents", "tools": [tool]}]});
        let call =
            post(&bench.address, PATH, &[], &asked("go".into(), tools.clone())).await.json()["output"][0].clone();
        assert_eq!((&call["namespace"], &call["name"]), (&"agents".into(), &"spawn".into()), "{call}");
        let streamed = asked("go".into(), json!({"tools": tools["tools"], "stream": true}));
        let streamed = post(&bench.address, PATH, &[], &streamed).await;
        assert!(streamed.body.contains("\"namespace\":\"agents\""), "{streamed:?}");
        let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "started"});
        let history = json!([{"role": "user", "content": "go"}, call, output]);
        let answer = post(&bench.address, PATH, &[], &asked(history, tools)).await;
        assert_eq!(text(&answer.json()), "done", "{answer:?}");
        assert_eq!(stub.requests().last().unwrap().tools(), ["agents__spawn"]);
        let episodes = bench.episodes().await;
        assert_eq!(episodes[0].turns.len(), 2, "one conversation");
        assert_eq!(episodes[0].turns[0].action.tool_calls[0].name, "agents__spawn");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_without_the_path_is_tried_once() {
    let stub = chat_only();
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    for _ in 0..2 {
        assert_eq!(post(&bench.address, PATH, &[], &asked("hi".into(), json!({}))).await.status, 200);
    }
    let paths: Vec<String> = stub.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v1/responses", "/v1/chat/completions", "/v1/chat/completions"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_translated_stream_has_every_event_of_the_shape() {
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let stub = chat_only();
        let bench = Bench::new(dialect, &stub.base_url()).await;
        let answer = post(&bench.address, PATH, &[], &asked("hello".into(), json!({"stream": true}))).await;
        let data: Vec<Value> = answer.events().iter().map(|data| serde_json::from_str(data).unwrap()).collect();
        let deltas: String = data
            .iter()
            .filter(|event| event["type"] == "response.output_text.delta")
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        assert_eq!(deltas, "hello", "{dialect:?}");
        assert_eq!(data[0]["type"], "response.created");
        let last = data.last().unwrap();
        assert_eq!((&last["type"], text(&last["response"])), (&"response.completed".into(), "hello".to_owned()));
        let read = get(&bench, "GET", &format!("/v1/responses/{}", data[0]["response"]["id"].as_str().unwrap())).await;
        assert_eq!(read.json(), last["response"], "{dialect:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_of_the_shape_gets_the_bytes_and_its_own_ids() {
    let stub = native(true);
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let body = asked(
        "hi".into(),
        json!({"tools": [{"type": "web_search"}], "include": ["reasoning.encrypted_content"], "x": 1.50}),
    );
    let first = post(&bench.address, PATH, &[], &body).await.json();
    assert_eq!((&first["id"], &first["future"]["kept"]), (&"resp_up0".into(), &true.into()));
    let mut expect = body.clone();
    expect["model"] = "stub-model".into();
    assert_eq!(stub.requests()[0].body, expect);
    let second = asked("more".into(), json!({"previous_response_id": "resp_up0", "stream": true}));
    let second = post(&bench.address, PATH, &[], &second).await;
    assert!(second.body.contains("response.unknown_event") && second.body.contains("resp_up1"), "{second:?}");
    let sent = &stub.requests()[1].body;
    assert_eq!((&sent["previous_response_id"], &sent["input"]), (&"resp_up0".into(), &"more".into()));
    let read = get(&bench, "GET", "/v1/responses/resp_up1").await.json();
    assert_eq!(read["status"], "completed", "{read}");
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 1);
    assert_eq!(
        turns(&episodes[0]),
        [(vec!["hi".to_owned()], "saw 1".to_owned()), (vec!["more".to_owned()], "saw 1".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_has_forgotten_gets_the_conversation_without_what_is_sealed() {
    let stub = native(false);
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    post(&bench.address, PATH, &[], &asked("one".into(), json!({}))).await;
    let second = asked("two".into(), json!({"previous_response_id": "resp_up0"}));
    let second = post(&bench.address, PATH, &[], &second).await;
    assert_eq!((second.status, text(&second.json()).as_str()), (200, "saw 3"), "{second:?}");
    let sent = &stub.requests()[2].body;
    assert_eq!(sent["previous_response_id"], Value::Null);
    assert!(!sent.to_string().contains("sealed"), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_at_another_model_and_after_a_restart() {
    let (one, other) = (native(true), chat_only());
    let models = || {
        let mut second = served(Dialect::OpenAi, &other.base_url());
        second.alias = "other".into();
        vec![served(Dialect::OpenAi, &one.base_url()), second]
    };
    let mut bench = Bench::with(models(), |_| {}).await;
    post(&bench.address, PATH, &[], &asked("one".into(), json!({}))).await;
    bench.stop().await;
    bench.start(models(), clawhost_core::KnownSecrets::default(), |_| {}).await;
    let second = asked("two".into(), json!({"previous_response_id": "resp_up0", "model": "other"}));
    let second = post(&bench.address, PATH, &[], &second).await;
    assert_eq!((second.status, text(&second.json()).as_str()), (200, "two"), "{second:?}");
    let said: Vec<String> = other.requests().pop().unwrap().conversation().into_iter().map(|(_, text)| text).collect();
    assert_eq!(said, ["one", "saw 1", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_endpoint_gets_the_conversation_and_not_an_id_that_it_cannot_know() {
    let (one, other) = (native(true), native(true));
    let mut second = served(Dialect::OpenAi, &other.base_url());
    second.alias = "other".into();
    let bench = Bench::with(vec![served(Dialect::OpenAi, &one.base_url()), second], |_| {}).await;
    post(&bench.address, PATH, &[], &asked("one".into(), json!({}))).await;
    let second = asked("two".into(), json!({"previous_response_id": "resp_up0", "model": "other"}));
    assert_eq!(text(&post(&bench.address, PATH, &[], &second).await.json()), "saw 3");
    assert_eq!(other.requests()[0].body["previous_response_id"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_responses_are_read_listed_and_deleted() {
    let stub = chat_only();
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let items = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]);
    let made = post(&bench.address, PATH, &[], &asked(items, json!({}))).await.json();
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    assert_eq!(get(&bench, "GET", &path).await.json(), made);
    let listed = get(&bench, "GET", &format!("{path}/input_items?limit=2&order=asc")).await.json();
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["has_more"]), (2, &true.into()), "{listed}");
    assert_eq!(listed["data"][1]["content"], json!([{"type": "output_text", "text": "b"}]));
    let after = listed["last_id"].as_str().unwrap();
    let rest = get(&bench, "GET", &format!("{path}/input_items?order=asc&after={after}")).await.json();
    assert_eq!(
        (rest["data"][0]["content"][0]["text"].as_str(), &rest["has_more"]),
        (Some("c"), &false.into()),
        "{rest}"
    );
    assert_eq!(get(&bench, "GET", &format!("{path}/input_items?limit=0")).await.status, 400);
    assert_eq!(get(&bench, "GET", &format!("{path}/input_items?limit=x")).await.status, 400);
    assert_eq!(get(&bench, "POST", &format!("{path}/cancel")).await.status, 400);

    assert_eq!(get(&bench, "DELETE", &path).await.json()["deleted"], true);
    assert_eq!(get(&bench, "GET", &path).await.status, 404);
    assert_eq!(get(&bench, "DELETE", &path).await.status, 404);
    let more = json!({"previous_response_id": made["id"]});
    assert_eq!(post(&bench.address, PATH, &[], &asked("more".into(), more)).await.status, 404);
    let unkept = post(&bench.address, PATH, &[], &asked("d".into(), json!({"store": false}))).await.json();
    assert_eq!(unkept["store"], false);
    let path = format!("/v1/responses/{}", unkept["id"].as_str().unwrap());
    assert_eq!(get(&bench, "GET", &path).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_survives_a_restart() {
    let stub = chat_only();
    let mut bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let made = post(&bench.address, PATH, &[], &asked("a".into(), json!({}))).await.json();
    let path = format!("/v1/responses/{}", made["id"].as_str().unwrap());
    assert_eq!(get(&bench, "DELETE", &path).await.status, 200);
    bench.kill();
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], clawhost_core::KnownSecrets::default(), |_| {}).await;
    assert_eq!(get(&bench, "GET", &path).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_an_endpoint_of_the_shape_can_do_is_refused_by_name() {
    let stub = chat_only();
    let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
    let check = async |input: Value, more: Value, says: &str| {
        let answer = post(&bench.address, PATH, &[], &asked(input, more)).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains(says), "{says}: {answer:?}");
    };
    check("hi".into(), json!({"tools": [{"type": "web_search"}]}), "web_search").await;
    check("hi".into(), json!({"background": true}), "background").await;
    check("hi".into(), json!({"conversation": "conv_1"}), "conversation").await;
    check(json!([{"type": "item_reference", "id": "msg_1"}]), json!({}), "item_reference").await;
    assert_eq!(get(&bench, "GET", PATH).await.status, 426, "codex tries a web socket first");
    let unknown = asked("hi".into(), json!({"previous_response_id": "resp_nobody"}));
    let unknown = post(&bench.address, PATH, &[], &unknown).await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    assert!(unknown.body.contains("no response `resp_nobody`"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_ends_with_a_failed_response() {
    for native in [true, false] {
        let stub = Stub::start(move |_, request| {
            let event = match request.path.ends_with("/responses") {
                true if !native => return Reply::Http(404, vec![], String::new()),
                true => "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n".to_owned(),
                false => events(request, "half", &[]).remove(1),
            };
            Reply::Stream { fragments: Box::new(std::iter::once(event.into_bytes())), ends: false }
        });
        let bench = Bench::new(Dialect::OpenAi, &stub.base_url()).await;
        let answer = post(&bench.address, PATH, &[], &asked("hi".into(), json!({"stream": true}))).await;
        let data: Vec<Value> = answer.events().iter().map(|data| serde_json::from_str(data).unwrap()).collect();
        let [.., error, failed] = data.as_slice() else { panic!("{answer:?}") };
        assert!(error["error"]["message"].is_string(), "{native}: {error}");
        assert_eq!((&failed["type"], &failed["response"]["status"]), (&"response.failed".into(), &"failed".into()));
        assert_eq!(failed["response"]["id"], data[0]["response"]["id"], "{native}");
    }
}
