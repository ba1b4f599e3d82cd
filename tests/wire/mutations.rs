//! Mutated golden bodies: fields removed, renamed, nested, and replaced by values of other types.

use super::read;
use clawhost_core::{ModelRequest, ModelResponse};
use clawhost_wire::{WireError, anthropic, openai};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Field names and keywords of the dialects, so that mutations hit known fields.
const WORDS: [&str; 22] = [
    "arguments",
    "choices",
    "content",
    "error",
    "finish_reason",
    "function",
    "id",
    "input",
    "message",
    "name",
    "role",
    "stop_reason",
    "text",
    "thinking",
    "tool_calls",
    "tool_result",
    "tool_use",
    "tool_use_id",
    "type",
    "usage",
    "prompt_tokens",
    "input_tokens",
];

/// Nesting depths within and beyond serde_json's limit (128).
const DEPTHS: [usize; 4] = [1, 20, 127, 300];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![
            json!(0),
            json!(-1),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(0.5),
            json!(-0.0),
            json!(f64::MAX),
            json!(1e-300),
        ]),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(WORDS.to_vec()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("")),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let name = prop_oneof![3 => prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned), 1 => ".{0,6}"];
    leaf().prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<String, Value>>())),
        ]
    })
}

/// A change of a document. The position is a share of all its positions.
#[derive(Debug, Clone)]
enum Change {
    Remove(Index),
    Replace(Index, Value),
    Rename(Index, &'static str),
    Repeat(Index),
    Nest(Index, usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any::<Index>().prop_map(Change::Remove),
        (any::<Index>(), value()).prop_map(|(place, value)| Change::Replace(place, value)),
        (any::<Index>(), prop::sample::select(WORDS.to_vec())).prop_map(|(place, name)| Change::Rename(place, name)),
        any::<Index>().prop_map(Change::Repeat),
        (any::<Index>(), prop::sample::select(DEPTHS.to_vec())).prop_map(|(place, depth)| Change::Nest(place, depth)),
    ]
}

/// All positions of a document except its root, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
            fields.iter().map(|(name, value)| (escaped(name), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in children {
        let at = format!("{at}/{name}");
        places(value, &at, found);
        found.push(at);
    }
}

fn changed(mut document: Value, changes: &[Change]) -> Value {
    for change in changes {
        let mut all = Vec::new();
        places(&document, "", &mut all);
        let (Change::Remove(place)
        | Change::Replace(place, _)
        | Change::Rename(place, _)
        | Change::Repeat(place)
        | Change::Nest(place, _)) = change;
        if all.is_empty() {
            return document;
        }
        let (parent, name) = all[place.index(all.len())].rsplit_once('/').unwrap();
        let name = name.replace("~1", "/").replace("~0", "~");
        match document.pointer_mut(parent).unwrap() {
            Value::Object(fields) => {
                let old = fields.remove(&name).unwrap();
                match change {
                    Change::Remove(_) => {}
                    Change::Replace(_, value) => drop(fields.insert(name, value.clone())),
                    Change::Rename(_, other) => drop(fields.insert((*other).to_owned(), old)),
                    Change::Repeat(_) => drop(fields.insert(name, json!([old.clone(), old]))),
                    Change::Nest(_, depth) => drop(fields.insert(name, nested(old, *depth))),
                }
            }
            Value::Array(items) => {
                let at: usize = name.parse().unwrap();
                let old = items.remove(at);
                match change {
                    Change::Remove(_) => {}
                    Change::Replace(_, value) => items.insert(at, value.clone()),
                    Change::Rename(_, other) => items.insert(at, json!({ *other: old })),
                    Change::Repeat(_) => items.extend([old.clone(), old]),
                    Change::Nest(_, depth) => items.insert(at, nested(old, *depth)),
                }
            }
            _ => panic!("a position is in an object or a list"),
        }
    }
    document
}

fn nested(value: Value, depth: usize) -> Value {
    (0..depth).fold(value, |inner, _| json!([inner]))
}

const RESPONSES: [&str; 2] = ["openai-response.json", "anthropic-response.json"];
const REQUESTS: [&str; 2] = ["openai-request.json", "anthropic-request.json"];

fn golden(name: &str) -> Value {
    serde_json::from_str(&read(name)).unwrap()
}

type Reader = fn(&str) -> Result<ModelResponse, WireError>;

/// The client parsers.
const CLIENTS: [(&str, Reader); 2] = [("openai", openai::response), ("anthropic", anthropic::response)];

/// Properties of every body: a parsed answer can be recorded and its calls can be answered; an error quotes little of the
/// body.
fn check_body(body: &str) -> [bool; 2] {
    CLIENTS.map(|(client, response)| match response(body) {
        Ok(answer) => {
            let written = serde_json::to_string(&answer).unwrap();
            assert_eq!(serde_json::from_str::<ModelResponse>(&written).unwrap(), answer, "{client}: {body}");
            for call in &answer.message.tool_calls {
                assert!(!call.id.is_empty(), "{client}: a result refers to the id of its call: {body}");
            }
            true
        }
        Err(WireError::Malformed(_, shown)) => {
            assert!(shown.len() <= 120 * 10, "{client}: {} bytes of the body", shown.len());
            assert!(!shown.chars().any(char::is_control), "{client}: {shown:?}");
            false
        }
        Err(_) => false,
    })
}

/// Serialising a wire type and parsing it again gives an equal value.
fn check_type<T: DeserializeOwned + Serialize>(body: &Value) {
    if let Ok(read) = serde_json::from_value::<T>(body.clone()) {
        let written = serde_json::to_value(read).unwrap();
        let again: T = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(again).unwrap(), written, "{body}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_body_panics(name in prop::sample::select(RESPONSES.to_vec()), changes in prop::collection::vec(change(), 1..5)) {
        let body = changed(golden(name), &changes);
        check_body(&body.to_string());
        check_type::<openai::ChatResponse>(&body);
        check_type::<anthropic::MessagesResponse>(&body);
    }

    #[test]
    fn no_document_panics(body in value()) {
        check_body(&body.to_string());
    }

    #[test]
    fn no_truncated_body_panics(name in prop::sample::select(RESPONSES.to_vec()), place in any::<Index>()) {
        let body = read(name);
        let cut = place.index(body.trim_end().len());
        prop_assert_eq!(check_body(&body[..cut]), [false; 2], "cut at byte {}", cut);
    }

    #[test]
    fn no_request_panics(name in prop::sample::select(REQUESTS.to_vec()), changes in prop::collection::vec(change(), 1..5)) {
        let body = changed(golden(name), &changes);
        check_type::<openai::ChatRequest>(&body);
        check_type::<anthropic::MessagesRequest>(&body);
        let conversation = changed(golden("conversation.json"), &changes);
        if let Ok(asked) = serde_json::from_value::<ModelRequest>(conversation) {
            let sent = openai::request("m", &asked, openai::TokenLimit::MaxTokens);
            prop_assert_eq!(sent.messages.len(), asked.messages.len());
            if let Ok(sent) = anthropic::request("m", &asked) {
                prop_assert!(sent.messages.windows(2).all(|pair| pair[0].role != pair[1].role));
            }
        }
    }
}

#[test]
fn unchanged_bodies_parse() {
    for (name, response) in RESPONSES.iter().zip(CLIENTS) {
        let body = changed(golden(name), &[]);
        let answer = (response.1)(&body.to_string()).unwrap();
        assert_eq!(answer.message.plain_text(), "Both at once.", "{name}");
        assert_eq!(answer.message.tool_calls.len(), 2, "{name}");
    }
}

/// If every change made bodies unreadable, only the JSON parser would be tested; changes without effect would test nothing.
#[test]
fn changed_bodies_give_answers_and_errors() {
    const BODIES: usize = 400;
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(change(), 1..5);
    let (mut answers, mut refusals, mut calls_lost) = (0, 0, 0);
    for number in 0..BODIES {
        let changes = strategy.new_tree(&mut runner).unwrap().current();
        let at = number % 2;
        match (CLIENTS[at].1)(&changed(golden(RESPONSES[at]), &changes).to_string()) {
            Ok(answer) => {
                answers += 1;
                calls_lost += usize::from(answer.message.tool_calls.len() != 2);
            }
            Err(_) => refusals += 1,
        }
    }
    let seen = format!("{answers} answers, {calls_lost} of them with other calls, {refusals} refusals");
    assert!(answers > BODIES / 4 && refusals > BODIES / 10 && calls_lost > BODIES / 40, "{seen}");
}
