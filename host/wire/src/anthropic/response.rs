//! Parses an endpoint's answer.

use super::{Block, KnownBlock, MessagesResponse, WireUsage};
use crate::{WireError, malformed, text_in};
use clawhost_core::{AnsweringModel, Message, ModelResponse, Origin, Part, Role, ToolCall, Usage};

/// Parses an endpoint's answer.
///
/// # Errors
/// The body is not a messages response, contains no answer, or contains an error.
pub fn response(body: &str) -> Result<ModelResponse, WireError> {
    let response: MessagesResponse = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    if let Some(error) = response.error.filter(|error| !error.is_null()) {
        return Err(crate::endpoint_error(&error));
    }
    if response.content.is_empty() && response.stop_reason.is_none() {
        return Err(WireError::Empty);
    }
    let mut parts = Vec::new();
    let mut tool_calls = Vec::new();
    for block in response.content {
        match block {
            Block::Known(KnownBlock::Text { text, .. }) if !text.is_empty() => parts.push(Part::Text(text)),
            Block::Known(KnownBlock::ToolUse { id, name, input, .. }) => {
                let arguments = if input.is_null() { "{}".to_owned() } else { input.to_string() };
                let id = if id.is_empty() { crate::stream::missing_id(tool_calls.len()) } else { id };
                tool_calls.push(ToolCall { id, name, arguments, extra: Vec::new() });
            }
            // Thinking and other blocks are not part of the policy's action.
            _ => {}
        }
    }
    let usage = response.usage.as_ref().map(usage).unwrap_or_default();
    let finish = finish(response.stop_reason.as_deref(), &tool_calls);
    let (role, origin) = (Role::Assistant, Origin::Policy);
    let message = Message { role, parts, tool_calls, tool_call_id: None, origin, extra: Vec::new() };
    Ok(ModelResponse {
        answered_by: text_in(&response.rest, "model").map(|model| AnsweringModel { model, version: None }),
        ..ModelResponse::new(message, usage, finish)
    })
}

pub(super) fn usage(usage: &WireUsage) -> Usage {
    let cached = usage.cache_read_input_tokens.unwrap_or(0);
    let written = usage.cache_creation_input_tokens.unwrap_or(0);
    Usage {
        // The dialect counts cached tokens separately; here they are included.
        prompt_tokens: usage.input_tokens.saturating_add(cached).saturating_add(written),
        completion_tokens: usage.output_tokens,
        cached_tokens: cached,
        ..Usage::default()
    }
}

/// The finish reason in the terms of the port.
pub(super) fn finish(reason: Option<&str>, calls: &[ToolCall]) -> String {
    match reason {
        Some("end_turn" | "stop_sequence") => "stop",
        Some("max_tokens") => "length",
        Some("tool_use") => "tool_calls",
        Some(other) => other,
        None if calls.is_empty() => "stop",
        None => "tool_calls",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: Result<(&str, usize, u64, &str), &str>) {
        match (response(body), expected) {
            (Ok(answer), Ok((text, calls, tokens, finish))) => {
                assert_eq!(answer.message.plain_text(), text, "{body}");
                assert_eq!(answer.message.tool_calls.len(), calls, "{body}");
                assert_eq!(answer.usage.prompt_tokens, tokens, "{body}");
                assert_eq!(answer.finish, finish, "{body}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{body}: {error}"),
            (got, _) => panic!("{body}: {got:?}"),
        }
    }

    #[test]
    fn answers_of_real_servers_parse() {
        check(
            r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"42"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1,"cache_read_input_tokens":4}}"#,
            Ok(("42", 0, 7, "stop")),
        );
        check(
            r#"{"content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"tool_use","id":"a","name":"f","input":{"x":1}}],"stop_reason":"tool_use"}"#,
            Ok(("", 1, 0, "tool_calls")),
        );
        check(r#"{"content":[],"stop_reason":"end_turn"}"#, Ok(("", 0, 0, "stop")));
        check(r#"{"content":[{"type":"text","text":"cut"}],"stop_reason":"max_tokens"}"#, Ok(("cut", 0, 0, "length")));
        check(r#"{"content":[{"type":"text","text":"no"}],"stop_reason":"refusal"}"#, Ok(("no", 0, 0, "refusal")));
        check(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Err("Overloaded"));
        check(
            r#"{"content":[{"type":"tool_use","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":null,"output_tokens":-1}}"#,
            Ok(("", 1, 0, "tool_calls")),
        );
        check(r#"{"content":null,"stop_reason":"end_turn"}"#, Ok(("", 0, 0, "stop")));
        check("{}", Err("holds no answer"));
        check("<html>", Err("begins with `<html>"));
        check("event: message_start\ndata: {", Err("the server streams"));
        check("", Err("EOF"));
    }
}
