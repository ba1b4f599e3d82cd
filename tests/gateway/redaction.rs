//! What is redacted is missing in the record, and in nothing that is passed on.

use crate::client::{assistant, post, request, user};
use crate::stub::{Received, Reply, Stub, events, says, stream};
use crate::{Bench, served, turns};
use clawhost_capture::Exchange;
use clawhost_core::{KnownSecrets, Withheld};
use clawhost_gateway::{GatewayConfig, Redaction, RedactionSettings};
use clawhost_providers::Dialect;
use serde_json::{Value, json};
use std::sync::Arc;

const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "sk-proj-AbCdEfGh1234567890xyz";

/// A model that repeats the last message of the user, and calls a tool with it if that is wanted.
fn echo() -> Stub {
    Stub::start(|_, request: &Received| {
        if request.path.ends_with("/responses") {
            return Reply::Http(404, vec![], String::new());
        }
        let said = request.conversation().pop().unwrap().1;
        let arguments = json!({"text": said}).to_string();
        let calls = [("t1", "note", arguments.as_str())];
        let calls: &[(&str, &str, &str)] = if said.starts_with("note") { &calls } else { &[] };
        match request.body["stream"] == true {
            true => stream(events(request, &said, calls)),
            false => says(request, &said, calls),
        }
    })
}

fn redacts(config: &mut GatewayConfig) {
    let settings = RedactionSettings { emails: true, ..RedactionSettings::default() };
    config.redaction = Arc::new(Redaction::new(&settings).unwrap());
}

async fn bench(stub: &Stub) -> Bench {
    Bench::with(vec![served(Dialect::OpenAi, &stub.base_url())], redacts).await
}

fn asked(messages: &[Value], more: Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 50, "messages": messages});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The records of the only open session.
fn recorded(bench: &Bench) -> Vec<Exchange> {
    let open = bench.open();
    assert_eq!(open.len(), 1, "{open:?}");
    let documents = bench.reader().exchanges(&open[0].episode.run, &open[0].episode.id).unwrap();
    documents.iter().map(|document| serde_json::from_str(document).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_forwarded_and_answered_and_not_recorded() {
    let stub = echo();
    for more in [json!({}), json!({"stream": true})] {
        let mut bench = bench(&stub).await;
        let system = json!({"role": "system", "content": format!("the key is {KEY}")});
        let said = format!("note {KEY} of a@b.example");
        let answer = post(&bench.address, CHAT, &[], &asked(&[system, user(&said)], more.clone())).await;
        // A stream has it in pieces of two characters.
        let text = if more["stream"] == true { answer.text() } else { answer.body.clone() };
        assert!(text.contains(&said), "{answer:?}");
        let sent = stub.requests().pop().unwrap().body.to_string();
        assert!(sent.contains(&said) && sent.contains(&format!("the key is {KEY}")), "{sent}");
        let episodes = bench.episodes().await;
        let document = serde_json::to_string(&episodes).unwrap();
        assert!(!document.contains("AbCdEfGh") && !document.contains("a@b.example"), "{document}");
        let replaced = "note [redacted:key] of [redacted:email]";
        assert_eq!(turns(&episodes[0]), [(vec![replaced.to_owned()], replaced.to_owned())]);
        let call = &episodes[0].turns[0].action.tool_calls[0];
        assert_eq!(call.arguments, json!({"text": replaced}).to_string());
        assert_eq!(episodes[0].policy.system_prompt.as_deref(), Some("the key is [redacted:key]"));
        assert_eq!(episodes[0].origin.withheld(), Some(Withheld::Redacted));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_an_error_or_a_half_answer_is_not_recorded() {
    let stub = Stub::start(|number, request| match number {
        0 => Reply::Http(401, vec![], json!({"error": {"message": format!("wrong key {KEY}")}}).to_string()),
        _ => {
            let half = events(request, &format!("it is {KEY} and"), &[]).into_iter().take(20).map(String::into_bytes);
            Reply::Stream { fragments: Box::new(half.collect::<Vec<_>>().into_iter()), ends: false }
        }
    });
    let mut bench = bench(&stub).await;
    for more in [json!({}), json!({"stream": true})] {
        let answer = post(&bench.address, CHAT, &[], &asked(&[user("hi")], more)).await;
        assert!(answer.body.contains("sk") || answer.text().contains(KEY), "{answer:?}");
    }
    bench.stop().await;
    let records = format!("{:?}", recorded(&bench));
    assert!(!records.contains("AbCdEfGh") && records.contains("wrong key [redacted:key]"), "{records}");
    assert!(records.contains("it is [redacted:key]"), "{records}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_with_secrets_goes_on_after_a_restart() {
    let stub = echo();
    let mut bench = bench(&stub).await;
    let first = format!("the key is {KEY}");
    let mut messages = vec![user(&first)];
    assert_eq!(post(&bench.address, CHAT, &[], &asked(&messages, json!({}))).await.status, 200);
    bench.kill();
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], KnownSecrets::default(), redacts).await;
    messages.extend([assistant(&first), user("and now?")]);
    assert_eq!(post(&bench.address, CHAT, &[], &asked(&messages, json!({}))).await.status, 200);
    // A client that rewrites its history sends what was said, and not what was recorded.
    messages.insert(0, user("a summary"));
    messages.extend([assistant("and now?"), user("go on")]);
    assert_eq!(post(&bench.address, CHAT, &[], &asked(&messages, json!({}))).await.status, 200);
    let replaced = "the key is [redacted:key]".to_owned();
    let episodes = bench.episodes().await;
    assert_eq!(episodes.len(), 1, "{episodes:?}");
    let said =
        |texts: &[&str], answer: &str| (texts.iter().map(|text| (*text).to_owned()).collect(), answer.to_owned());
    assert_eq!(
        turns(&episodes[0]),
        [said(&[&replaced], &replaced), said(&["and now?"], "and now?"), said(&["a summary", "go on"], "go on")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_response_is_redacted() {
    let stub = echo();
    let mut bench = bench(&stub).await;
    let body = json!({"model": "m", "input": format!("the key is {KEY}"), "max_output_tokens": 50});
    let made = post(&bench.address, "/v1/responses", &[], &body).await.json();
    assert!(made.to_string().contains(KEY), "{made}");
    bench.stop().await;
    bench.start(vec![served(Dialect::OpenAi, &stub.base_url())], KnownSecrets::default(), redacts).await;
    let (address, path) = (bench.address.clone(), format!("/v1/responses/{}", made["id"].as_str().unwrap()));
    let read = tokio::task::spawn_blocking(move || {
        let object = request("GET", &address, &path, &[], b"").answer().json();
        (object, request("GET", &address, &format!("{path}/input_items"), &[], b"").answer().json())
    });
    let (object, items) = read.await.unwrap();
    assert_eq!(
        (&object["id"], &object["output"][0]["content"][0]["text"]),
        (&made["id"], &"the key is [redacted:key]".into())
    );
    assert!(items.to_string().contains("the key is [redacted:key]"), "{items}");
}
