//! Calls of Mistral: `[TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]`, and of its newer models `[TOOL_CALLS]name[ARGS]{...}`, one for each. Some
//! write `[CALL_ID]` and an id behind the name.

use super::format::call;
use clawhost_core::ToolCall;
use serde_json::Value;
use serde_json::value::RawValue;

/// The beginning of calls.
pub(super) const CALLS: &str = "[TOOL_CALLS]";
/// Between the name and the arguments.
pub(super) const ARGUMENTS: &str = "[ARGS]";

/// Between the name and the id of a call, if it has one.
pub(super) const CALL_ID: &str = "[CALL_ID]";

/// Letters and digits of an id: the templates refuse others.
const ID_BYTES: usize = 9;

fn id(number: usize) -> String {
    format!("call{:05}", number % 100_000)
}

/// Splits a text into message and calls. Calls that cannot be read stay in the text.
pub(super) fn read(text: &str) -> (String, Vec<ToolCall>) {
    let Some((said, behind)) = text.split_once(CALLS) else { return (text.to_owned(), Vec::new()) };
    match listed(behind).or_else(|| named(behind)) {
        Some(calls) if !calls.is_empty() => (said.trim().to_owned(), calls),
        _ => (text.to_owned(), Vec::new()),
    }
}

fn listed(text: &str) -> Option<Vec<ToolCall>> {
    let all: Vec<Value> = serde_json::from_str(text.trim()).ok()?;
    (1..).zip(&all).map(|(number, found)| call(found, &id(number))).collect()
}

fn named(text: &str) -> Option<Vec<ToolCall>> {
    let mut calls = Vec::new();
    let mut rest = text;
    loop {
        let (head, behind) = rest.split_once(ARGUMENTS)?;
        // The arguments are one JSON value: the marks may stand in its strings.
        let mut values = serde_json::Deserializer::from_str(behind).into_iter::<&RawValue>();
        let arguments = values.next()?.ok()?;
        let behind = behind.get(values.byte_offset()..)?.trim();
        let (name, given) = match head.split_once(CALL_ID) {
            Some((name, given)) => (name, given.trim().to_owned()),
            None => (head, String::new()),
        };
        let is_good = given.len() == ID_BYTES && given.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_new = calls.iter().all(|call: &ToolCall| call.id != given);
        let id = if is_good && is_new { given } else { id(calls.len() + 1) };
        calls.push(ToolCall {
            id,
            name: name.trim().to_owned(),
            arguments: arguments.get().to_owned(),
            extra: Vec::new(),
        });
        if behind.is_empty() {
            return Some(calls);
        }
        rest = behind.strip_prefix(CALLS)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_both_kinds_are_removed_from_the_text() {
        let check = |text: &str, said: &str, expect: &[(&str, &str, &str)]| {
            let (found, calls) = read(text);
            let calls: Vec<_> =
                calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!((found.as_str(), calls.as_slice()), (said, expect), "{text}");
        };
        let list = r#"[TOOL_CALLS] [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}]"#;
        check(list, "", &[("call00001", "a", r#"{"x":1}"#), ("call00002", "b", "{}")]);
        let named = r#"I look. [TOOL_CALLS]a[ARGS]{"x": 1}[TOOL_CALLS]b[ARGS]{}"#;
        check(named, "I look.", &[("call00001", "a", r#"{"x": 1}"#), ("call00002", "b", "{}")]);
        let with_ids = r#"[TOOL_CALLS]a[CALL_ID]abcdef123[ARGS]{"x": "[TOOL_CALLS]b[ARGS]"}[TOOL_CALLS]b[ARGS]{}"#;
        check(with_ids, "", &[("abcdef123", "a", r#"{"x": "[TOOL_CALLS]b[ARGS]"}"#), ("call00002", "b", "{}")]);
        let bad_ids = r#"[TOOL_CALLS]a[CALL_ID]x[ARGS]{}[TOOL_CALLS]b[CALL_ID]abcdef123[ARGS]{}[TOOL_CALLS]c[CALL_ID]abcdef123[ARGS]{}"#;
        check(bad_ids, "", &[("call00001", "a", "{}"), ("abcdef123", "b", "{}"), ("call00003", "c", "{}")]);
        check("no call", "no call", &[]);
        for text in [
            "[TOOL_CALLS]",
            "[TOOL_CALLS] []",
            "x [TOOL_CALLS] [{\"name\": 1}]",
            "[TOOL_CALLS]a[ARGS]{",
            "[TOOL_CALLS]a[ARGS]{} x",
        ] {
            check(text, text, &[]);
        }
    }
}
