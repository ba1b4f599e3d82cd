//! The canonical form of a message: equal for a message as a gateway recorded it and as clients send it back.

use clawhost_core::{Message, Part, Role, canonical_json};
use serde_json::Value;

/// Fields of content that say how a server should cache it, not what it says.
const CACHE_MARKS: [&str; 2] = ["cache_control", "cachePoint"];

/// Kinds of content in which a model thinks. Clients may drop it from the history.
const THINKING: [&str; 4] = ["thinking", "redacted_thinking", "reasoning", "reasoning_content"];

/// Writes the canonical form of a message behind `out`. Ids, cache marks, thinking, names of participants and white space at the ends
/// are left out; arguments of calls are canonical JSON.
pub(crate) fn write(message: &Message, out: &mut Vec<u8>) {
    out.push(match message.role {
        Role::System => b's',
        Role::User => b'u',
        Role::Assistant => b'a',
        Role::Tool => b't',
    });
    let mut text = String::new();
    let mut others = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(piece) | Part::Json(piece) => text.push_str(piece),
            Part::Blob(blob) => others.push(blob.digest.clone()),
            Part::Other(kept) => others.extend(other(kept)),
        }
    }
    field(out, text.trim().replace("\r\n", "\n").as_bytes());
    others.iter().for_each(|other| field(out, other.as_bytes()));
    for call in &message.tool_calls {
        out.push(b'c');
        field(out, call.name.as_bytes());
        let arguments: Result<Value, _> = serde_json::from_str(call.arguments.trim());
        match arguments {
            Ok(value) => field(out, canonical_json(&value).as_bytes()),
            // An empty text is how some servers write an empty object.
            Err(_) if call.arguments.trim().is_empty() => field(out, b"{}"),
            Err(_) => field(out, call.arguments.trim().as_bytes()),
        }
    }
}

/// Bytes behind their length, so that two fields never read like one.
fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Content of another kind, as canonical JSON. `None`: it is the model's thinking.
fn other(kept: &str) -> Option<String> {
    let Ok(mut value) = serde_json::from_str::<Value>(kept) else { return Some(kept.to_owned()) };
    let thinks = |part: &Value| part.get("type").and_then(Value::as_str).is_some_and(|kind| THINKING.contains(&kind));
    let inner = value.as_object().and_then(|object| object.values().next());
    if inner.is_some_and(thinks) {
        return None;
    }
    strip(&mut value);
    Some(canonical_json(&value))
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            CACHE_MARKS.iter().for_each(|name| drop(fields.remove(*name)));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Origin, ToolCall};

    fn form(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        write(message, &mut out);
        out
    }

    fn said(parts: Vec<Part>) -> Message {
        Message { parts, ..Message::text(Role::Assistant, Origin::Policy, "") }
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn calls(id: &str, name: &str, arguments: &str) -> Message {
        let call = ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), extra: vec![] };
        Message { tool_calls: vec![call], ..said(vec![]) }
    }

    #[test]
    fn what_clients_change_in_a_history_does_not_matter() {
        let equal = |one: Message, other: Message| assert_eq!(form(&one), form(&other), "{one:?} {other:?}");
        equal(said(vec![]), said(vec![text("")]));
        equal(said(vec![text("a"), text("b")]), said(vec![text("ab")]));
        equal(said(vec![text(" a\r\nb\n")]), said(vec![text("a\nb")]));
        equal(calls("1", "f", r#"{"b": 1, "a": [2]}"#), calls("2", "f", r#"{"a":[2],"b":1}"#));
        equal(calls("1", "f", ""), calls("1", "f", "{}"));
        let thought = Part::Other(r#"{"anthropic":{"type":"thinking","thinking":"hm","signature":"s"}}"#.into());
        equal(said(vec![thought, text("a")]), said(vec![text("a")]));
        let image = |cached: bool| {
            let mark = if cached { r#","cache_control":{"type":"ephemeral"}"# } else { "" };
            said(vec![Part::Other(format!(r#"{{"anthropic":{{"type":"image","source":{{"data":"AA"}}{mark}}}}}"#))])
        };
        equal(image(true), image(false));
        let with_id =
            |id: &str| Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, Origin::Tool, "done") };
        equal(with_id("a"), with_id("b"));
    }

    #[test]
    fn what_a_message_says_does_matter() {
        let differ = |one: Message, other: Message| assert_ne!(form(&one), form(&other), "{one:?} {other:?}");
        differ(said(vec![text("a")]), said(vec![text("b")]));
        differ(said(vec![text("a")]), Message::text(Role::User, Origin::User, "a"));
        differ(calls("1", "f", "{}"), calls("1", "g", "{}"));
        differ(calls("1", "f", r#"{"a":1}"#), calls("1", "f", r#"{"a":2}"#));
        differ(calls("1", "f", "not json"), calls("1", "f", "{}"));
        differ(said(vec![Part::Other("x".into())]), said(vec![Part::Other("y".into())]));
        differ(said(vec![text("f{}")]), calls("1", "f", "{}"));
    }
}
