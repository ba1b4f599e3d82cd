//! Golden files of both dialects in `tests/golden/wire`: written requests and parsed answers. `UPDATE_GOLDEN=1 cargo test -p
//! clawhost-wire` rewrites them; review the difference before committing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed"
)]

mod mutations;
mod round_trip;
mod streams;

use clawhost_core::ModelRequest;
use clawhost_wire::{anthropic, openai};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/wire").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_default()
}

/// Compares a value with its golden file.
fn check(name: &str, value: &impl Serialize) {
    let value = serde_json::to_value(value).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file(name), format!("{value:#}\n")).unwrap();
    }
    let golden: Value = serde_json::from_str(&read(name)).unwrap();
    assert_eq!(value, golden, "{name}");
}

/// A body survives a round trip through a wire type: nothing is lost, known or not.
fn survives<T: DeserializeOwned + Serialize>(body: &str) {
    let value: Value = serde_json::from_str(body).unwrap();
    let read: T = serde_json::from_value(value.clone()).unwrap();
    let written = serde_json::to_value(read).unwrap();
    // Null fields may become absent.
    let without_nulls = |value: &Value| value.to_string().replace("null", "");
    for (name, field) in value.as_object().unwrap() {
        if !field.is_null() {
            assert_eq!(without_nulls(&written[name]).len(), without_nulls(field).len(), "{name}");
        }
    }
    assert_eq!(
        serde_json::from_value::<T>(written.clone()).map(|again| serde_json::to_value(again).unwrap()).unwrap(),
        written
    );
}

#[test]
fn a_conversation_is_written_in_both_dialects() {
    let conversation: ModelRequest = serde_json::from_str(&read("conversation.json")).unwrap();
    check("openai-request.json", &openai::request("m", &conversation, openai::TokenLimit::MaxTokens));
    check("anthropic-request.json", &anthropic::request("m", &conversation).unwrap());
}

#[test]
fn answers_of_both_dialects_parse() {
    check("openai-answer.json", &openai::response(&read("openai-response.json")).unwrap());
    check("anthropic-answer.json", &anthropic::response(&read("anthropic-response.json")).unwrap());
}

#[test]
fn unknown_fields_survive_a_round_trip() {
    survives::<openai::ChatResponse>(&read("openai-response.json"));
    survives::<anthropic::MessagesResponse>(&read("anthropic-response.json"));
    survives::<openai::ChatRequest>(&read("openai-request.json"));
    survives::<anthropic::MessagesRequest>(&read("anthropic-request.json"));
    let odd = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x","id":7},{"role":"user","content":[{"type":"image","source":{"a":1}},{"type":"text","text":"t","cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"a","content":"r","is_error":true}]}],"metadata":{"user_id":"u"},"thinking":{"type":"enabled"}}"#;
    let read: anthropic::MessagesRequest = serde_json::from_str(odd).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), serde_json::from_str::<Value>(odd).unwrap());
}
