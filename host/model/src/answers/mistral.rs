//! Calls of Mistral: `[TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]`, and of its newer models `[TOOL_CALLS]name[ARGS]{...}`, one for each.

use super::format::call;
use clawhost_core::ToolCall;
use serde_json::Value;

/// The beginning of calls.
pub(super) const CALLS: &str = "[TOOL_CALLS]";
/// Between the name and the arguments.
pub(super) const ARGUMENTS: &str = "[ARGS]";

/// Ids have nine letters or digits: the templates refuse others.
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
    let one = |(number, part): (usize, &str)| {
        let (name, arguments) = part.split_once(ARGUMENTS)?;
        let arguments = arguments.trim();
        serde_json::from_str::<Value>(arguments).ok()?;
        Some(ToolCall {
            id: id(number),
            name: name.trim().to_owned(),
            arguments: arguments.to_owned(),
            extra: Vec::new(),
        })
    };
    (1..).zip(text.split(CALLS)).map(one).collect()
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
        check("no call", "no call", &[]);
        for text in ["[TOOL_CALLS]", "[TOOL_CALLS] []", "x [TOOL_CALLS] [{\"name\": 1}]", "[TOOL_CALLS]a[ARGS]{"] {
            check(text, text, &[]);
        }
    }
}
