//! Calls of Llama 3: the whole answer is `{"name": ..., "parameters": {...}}`, several of them are separated by `;`, and `<|python_tag|>` may stand
//! before them (the format of its model cards).

use super::format::call;
use clawhost_core::{ToolCall, ToolSpec};
use serde_json::Value;

/// May stand before calls.
pub(super) const TAG: &str = "<|python_tag|>";

/// The calls of an answer. An answer with anything else has none: it may be JSON that was asked for, so that only names of tools count.
pub(super) fn read(text: &str, tools: &[ToolSpec]) -> (String, Vec<ToolCall>) {
    all_calls(text, tools).map_or_else(|| (text.to_owned(), Vec::new()), |calls| (String::new(), calls))
}

fn all_calls(text: &str, tools: &[ToolSpec]) -> Option<Vec<ToolCall>> {
    let mut rest = text.trim();
    rest = rest.strip_prefix(TAG).unwrap_or(rest);
    let mut calls = Vec::new();
    loop {
        let mut objects = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let found = objects.next()?.ok()?;
        let call = call(&found, &format!("call-{}", calls.len() + 1))?;
        calls.push(tools.iter().any(|tool| tool.name == call.name).then_some(call)?);
        rest = rest.get(objects.byte_offset()..)?.trim_start();
        if rest.is_empty() {
            return Some(calls);
        }
        rest = rest.strip_prefix(';')?.trim_start();
        rest = rest.strip_prefix(TAG).unwrap_or(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_calls_has_them_and_any_other_is_text() {
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            input_schema: "{}".to_owned(),
            extra: Vec::new(),
        };
        let tools = [tool("weather"), tool("time")];
        let check = |text: &str, expect: &[(&str, &str)]| {
            let (said, calls) = read(text, &tools);
            let found: Vec<(&str, &str)> =
                calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!(found, expect, "{text}");
            assert_eq!(said, if expect.is_empty() { text } else { "" });
        };
        let weather = r#"{"name": "weather", "parameters": {"city": "Paris"}}"#;
        check(weather, &[("weather", r#"{"city":"Paris"}"#)]);
        check(&format!(" {TAG}{weather}\n"), &[("weather", r#"{"city":"Paris"}"#)]);
        let time = r#"{"name": "time", "arguments": {}}"#;
        check(&format!("{weather}; {time}"), &[("weather", r#"{"city":"Paris"}"#), ("time", "{}")]);
        check("It is warm.", &[]);
        check(r#"{"name": "Bob", "parameters": {}}"#, &[]);
        check(&format!("{weather} is my call"), &[]);
        check(&format!("{weather};"), &[]);
        check("", &[]);
        check("{\"name\": \"weather\"", &[]);
    }
}
