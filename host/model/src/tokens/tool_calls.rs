//! Tool calls in generated text: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, the format of Hermes and
//! Qwen.

use clawhost_core::ToolCall;
use serde_json::Value;

/// The beginning of a call.
pub(crate) const CALL: &str = "<tool_call>";
const END: &str = "</tool_call>";

/// Splits a text into message and calls. A block that is no valid call stays in the text.
pub(crate) fn tool_calls(text: &str) -> (String, Vec<ToolCall>) {
    let (mut said, mut calls) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(begin) = rest.find(CALL) {
        let (before, behind) = rest.split_at(begin);
        let inside = behind.get(CALL.len()..).unwrap_or_default();
        // The last call may lack its end if the answer ended there.
        let (block, after) = inside.split_once(END).unwrap_or((inside, ""));
        said.push_str(before);
        match call(block, calls.len()) {
            Some(call) => calls.push(call),
            None => said.push_str(behind.get(..behind.len() - after.len()).unwrap_or_default()),
        }
        rest = after;
    }
    said.push_str(rest);
    match calls.is_empty() {
        true => (said, calls),
        false => (said.trim().to_owned(), calls),
    }
}

fn call(block: &str, number: usize) -> Option<ToolCall> {
    let told: Value = serde_json::from_str(block.trim()).ok()?;
    let name = told.get("name")?.as_str()?.to_owned();
    let arguments = match told.get("arguments").or_else(|| told.get("parameters")) {
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
        None => "{}".to_owned(),
    };
    Some(ToolCall { id: format!("call-{}", number + 1), name, arguments, extra: Vec::new() })
}

/// An answer as models write it: its text, then its calls in the format that [`tool_calls`] reads. `harmless` makes what
/// comes from outside inert.
pub(crate) fn written(text: &str, calls: &[ToolCall], harmless: impl Fn(&str) -> String) -> String {
    let mut all = harmless(text);
    for call in calls {
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(call.arguments.as_str()));
        let block = serde_json::json!({ "name": call.name, "arguments": arguments }).to_string();
        let line = if all.is_empty() { "" } else { "\n" };
        all.push_str(&format!("{line}{CALL}\n{}\n{END}", harmless(&block)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_removed_from_the_text_and_invalid_blocks_stay() {
        let check = |text: &str, said: &str, expect: &[(&str, &str)]| {
            let (found, calls) = tool_calls(text);
            let calls: Vec<(&str, &str)> =
                calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!((found.as_str(), calls.as_slice()), (said, expect), "{text}");
        };
        check("no call", "no call", &[]);
        check(" kept as it is \n", " kept as it is \n", &[]);
        let one = "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
        check(one, "I look.", &[("weather", r#"{"city":"Paris"}"#)]);
        let two = "<tool_call>{\"name\": \"a\"}</tool_call>\n<tool_call>{\"name\": \"b\", \"arguments\": {\"x\": 1}}";
        check(two, "", &[("a", "{}"), ("b", r#"{"x":1}"#)]);
        check("<tool_call>{\"name\": \"a\", \"arguments\": \"{odd\"}</tool_call>", "", &[("a", "{odd")]);
        check("<tool_call>{nonsense</tool_call> x", "<tool_call>{nonsense</tool_call> x", &[]);
        check("<tool_call>{\"arguments\": {}}</tool_call>", "<tool_call>{\"arguments\": {}}</tool_call>", &[]);
        let (_, calls) = tool_calls(two);
        assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call-1", "call-2"]);
    }
}
