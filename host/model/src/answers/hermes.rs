//! Calls of Hermes and Qwen: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, one block for each.

use super::format::call;
use clawhost_core::ToolCall;
use serde_json::Value;

/// The beginning of a call.
pub(super) const CALL: &str = "<tool_call>";
/// Its end.
pub(super) const END: &str = "</tool_call>";

/// Splits a text into message and calls. A block that is no valid call stays in the text.
pub(super) fn read(text: &str) -> (String, Vec<ToolCall>) {
    let (mut said, mut calls) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some(begin) = rest.find(CALL) {
        let (before, behind) = rest.split_at(begin);
        let inside = behind.get(CALL.len()..).unwrap_or_default();
        // The last call may lack its end if the answer ended there.
        let (block, after) = inside.split_once(END).unwrap_or((inside, ""));
        said.push_str(before);
        let found = serde_json::from_str::<Value>(block.trim()).ok();
        match found.and_then(|found| call(&found, &format!("call-{}", calls.len() + 1))) {
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

/// A call as a model writes it, with `object` as its text.
pub(super) fn written(object: &str) -> String {
    format!("{CALL}\n{object}\n{END}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_removed_from_the_text_and_invalid_blocks_stay() {
        let check = |text: &str, said: &str, expect: &[(&str, &str)]| {
            let (found, calls) = read(text);
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
        let (_, calls) = read(two);
        assert_eq!(calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call-1", "call-2"]);
    }
}
