//! Adds the guidance of a gateway to a request: behind the client's own system text, so that a prefix that many requests share stays as it
//! is, and with it the endpoint's cache of it. Messages, tools, images and thinking are not touched.

use crate::context::{ContextShape, elements};
use crate::splice::TopLevel;
use clawhost_core::{Message, Origin, Part, Role};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Between the client's system text and the guidance.
const GAP: &str = "\n\n";

/// The edit that adds guidance to a request's body: a top-level field and its new value as JSON text. `None`: the body has no place for it.
///
/// - Chat: the last of the system messages at the beginning is extended; without one, a system message is put first.
/// - Messages: a block is added behind the last block of `system`.
/// - Responses: `instructions` are extended. An endpoint does not carry them over to the next response, so every request needs it.
pub fn with_guidance(shape: ContextShape, body: &TopLevel<'_>, text: &str) -> Option<(&'static str, String)> {
    match shape {
        ContextShape::Chat => Some(("messages", chat(body.value("messages")?, text)?)),
        ContextShape::Messages => Some(("system", messages(body.value("system"), text)?)),
        ContextShape::Responses => Some(("instructions", extended(body.value("instructions"), text)?)),
    }
}

/// Adds guidance to a request that is translated.
pub fn guide_request(messages: &mut Vec<Message>, text: &str) {
    let leading = messages.iter().take_while(|message| message.role == Role::System).count();
    match leading.checked_sub(1).and_then(|last| messages.get_mut(last)) {
        // Texts of a message are joined by one line end.
        Some(last) => last.parts.push(Part::Text(format!("\n{text}"))),
        None => messages.insert(0, Message::text(Role::System, Origin::Host, text)),
    }
}

/// What is read of a message of the chat shape.
#[derive(Deserialize)]
struct Chat<'a> {
    #[serde(default)]
    role: Value,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// The list of messages with the text.
fn chat(list: &str, text: &str) -> Option<String> {
    let elements = elements(list)?;
    let is_system = |element: &&&RawValue| {
        let message: Option<Chat<'_>> = serde_json::from_str(element.get()).ok();
        message.is_some_and(|message| message.role == "system" || message.role == "developer")
    };
    let leading = elements.iter().take_while(is_system).count();
    let mut written: Vec<&str> = elements.iter().map(|element| element.get()).collect();
    let Some(place) = leading.checked_sub(1) else {
        let added = format!("{{\"role\":\"system\",\"content\":{}}}", Value::from(text));
        written.insert(0, &added);
        return Some(format!("[{}]", written.join(",")));
    };
    let last = written.get(place)?;
    let content = serde_json::from_str::<Chat<'_>>(last).ok()?.content.map(RawValue::get);
    let content = match content {
        Some(list) if list.starts_with('[') => with_block(list, text),
        other => extended(other, text)?,
    };
    let edited = TopLevel::of(last, &[]).ok()?.with(&[("content", content)]);
    *written.get_mut(place)? = &edited;
    Some(format!("[{}]", written.join(",")))
}

/// The system text of the messages shape: a text becomes a block of its own, since another one follows.
fn messages(system: Option<&str>, text: &str) -> Option<String> {
    match system {
        None | Some("null" | "\"\"" | "[]") => Some(Value::from(text).to_string()),
        Some(list) if list.starts_with('[') => Some(with_block(list, text)),
        Some(own) if own.starts_with('"') => Some(format!("[{{\"type\":\"text\",\"text\":{own}}},{}]", block(text))),
        Some(_) => None,
    }
}

/// A block of text.
fn block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", Value::from(text))
}

/// A list of blocks with one more. `list`: the JSON text of a list.
fn with_block(list: &str, text: &str) -> String {
    let block = block(text);
    let own = list.trim_end().strip_suffix(']').unwrap_or(list).trim_end();
    let comma = if own == "[" { "" } else { "," };
    format!("{own}{comma}{block}]")
}

/// A JSON text with more at its end. `None`: it is something else.
fn extended(own: Option<&str>, text: &str) -> Option<String> {
    let added = Value::from(text).to_string();
    match own {
        None | Some("null" | "\"\"") => Some(added),
        Some(own) => {
            let own = own.strip_prefix('"')?.strip_suffix('"')?;
            let gap = Value::from(GAP).to_string();
            Some(format!("\"{own}{}{}\"", gap.trim_matches('"'), added.get(1..added.len().checked_sub(1)?)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn guided(shape: ContextShape, body: &str, text: &str) -> Option<String> {
        let top = TopLevel::of(body, &[]).unwrap();
        Some(top.with(&[with_guidance(shape, &top, text)?]))
    }

    #[test]
    fn guidance_follows_the_system_text_and_nothing_else_changes() {
        let check = |shape: ContextShape, body: &str, expect: Option<&str>| {
            assert_eq!(guided(shape, body, "G\n\"g\"").as_deref(), expect, "{body}");
        };
        let chat = ContextShape::Chat;
        check(
            chat,
            r#"{"messages": [{"role":"user", "content":"\u0061"}], "x":1.50}"#,
            Some(
                r#"{"messages": [{"role":"system","content":"G\n\"g\""},{"role":"user", "content":"\u0061"}], "x":1.50}"#,
            ),
        );
        check(
            chat,
            r#"{"messages":[{"role":"system","content":"\u0061b"},{ "role":"user","content":"c"}]}"#,
            Some(r#"{"messages":[{"role":"system","content":"\u0061b\n\nG\n\"g\""},{ "role":"user","content":"c"}]}"#),
        );
        let block = r#"{"type":"text","text":"G\n\"g\""}"#;
        let own = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
        check(
            chat,
            &format!(r#"{{"messages":[{{"role":"developer","content":[{own} ]}}]}}"#),
            Some(&format!(r#"{{"messages":[{{"role":"developer","content":[{own},{block}]}}]}}"#)),
        );
        check(
            chat,
            r#"{"messages":[{"role":"system","content":"a"},{"role":"system"},{"role":"user"},{"role":"system","content":"b"}]}"#,
            Some(
                r#"{"messages":[{"role":"system","content":"a"},{"content":"G\n\"g\"","role":"system"},{"role":"user"},{"role":"system","content":"b"}]}"#,
            ),
        );
        check(chat, r#"{"messages":[{"role":"system","content":7}]}"#, None);
        check(chat, r#"{"messages":"a"}"#, None);
        check(chat, "{}", None);
        let messages = ContextShape::Messages;
        check(messages, r#"{"messages":[]}"#, Some(r#"{"system":"G\n\"g\"","messages":[]}"#));
        check(
            messages,
            r#"{"system":"a\u0062"}"#,
            Some(&format!(r#"{{"system":[{{"type":"text","text":"a\u0062"}},{block}]}}"#)),
        );
        check(messages, &format!(r#"{{"system":[{own}]}}"#), Some(&format!(r#"{{"system":[{own},{block}]}}"#)));
        check(messages, r#"{"system":[]}"#, Some(r#"{"system":"G\n\"g\""}"#));
        check(messages, r#"{"system":{}}"#, None);
        let responses = ContextShape::Responses;
        check(responses, r#"{"input":"a"}"#, Some(r#"{"instructions":"G\n\"g\"","input":"a"}"#));
        check(responses, r#"{"instructions":null}"#, Some(r#"{"instructions":"G\n\"g\""}"#));
        check(responses, r#"{"instructions":"a"}"#, Some(r#"{"instructions":"a\n\nG\n\"g\""}"#));
        check(responses, r#"{"instructions":[]}"#, None);
    }

    #[test]
    fn a_translated_request_is_guided_alike() {
        let texts = |mut messages: Vec<Message>| {
            guide_request(&mut messages, "G");
            messages.iter().map(|message| (message.role, message.plain_text())).collect::<Vec<_>>()
        };
        let say = |role, text: &str| Message::text(role, Origin::User, text);
        let user = || say(Role::User, "u");
        assert_eq!(texts(vec![user()]), [(Role::System, "G".to_owned()), (Role::User, "u".to_owned())]);
        let all = texts(vec![say(Role::System, "a"), say(Role::System, "b"), user(), say(Role::System, "c")]);
        let said: Vec<&str> = all.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(said, ["a", "b\n\nG", "u", "c"]);
    }

    proptest! {
        #[test]
        fn every_guided_body_is_json_with_the_same_messages(
            system in prop::collection::vec(".{0,12}", 0..3),
            said in prop::collection::vec(".{0,12}", 1..4),
            text in ".{1,20}",
        ) {
            let all: Vec<Value> = system.iter().map(|text| json!({"role": "system", "content": text}))
                .chain(said.iter().map(|text| json!({"role": "user", "content": text}))).collect();
            let body = json!({"messages": all, "model": "m"}).to_string();
            let edited: Value = serde_json::from_str(&guided(ContextShape::Chat, &body, &text).unwrap()).unwrap();
            let messages = edited["messages"].as_array().unwrap();
            prop_assert_eq!(&messages[messages.len() - said.len()..], &all[system.len()..]);
            let last = messages[messages.len() - said.len() - 1]["content"].as_str().unwrap();
            prop_assert!(last.ends_with(&text));
            if let Some(own) = system.last() {
                prop_assert!(last.starts_with(own.as_str()));
            }
        }
    }
}
