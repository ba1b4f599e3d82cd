//! Parses an endpoint's answer.

use super::{ChatChoice, ChatMessage, ChatResponse, ChatToolCall, ChatUsage};
use crate::{WireError, malformed, text_in};
use clawhost_core::{
    AnsweringModel, Message, ModelResponse, Origin, OtherAnswer, Part, Role, TokenLogprob, ToolCall, Usage,
};
use serde_json::Value;

/// Parses an endpoint's answer.
///
/// # Errors
/// The body is not a chat response, contains no answer, or contains an error.
pub fn response(body: &str) -> Result<ModelResponse, WireError> {
    let response: ChatResponse = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    if let Some(error) = response.error.filter(|error| !error.is_null()) {
        return Err(crate::endpoint_error(&error));
    }
    let mut choices = response.choices.into_iter().map(answer);
    let OtherAnswer { message, finish, logprobs } = choices.next().ok_or(WireError::Empty)?;
    let usage = response.usage.as_ref().map(usage).unwrap_or_default();
    let version = text_in(&response.rest, "system_fingerprint");
    Ok(ModelResponse {
        answered_by: text_in(&response.rest, "model").map(|model| AnsweringModel { model, version }),
        logprobs,
        others: choices.collect(),
        ..ModelResponse::new(message, usage, finish)
    })
}

/// One of the answers.
fn answer(choice: ChatChoice) -> OtherAnswer {
    let ChatMessage { content, tool_calls, .. } = choice.message;
    let mut parts = Vec::new();
    match content {
        Value::String(text) if !text.is_empty() => parts.push(Part::Text(text)),
        Value::Array(items) => {
            let text = |item: &Value| item.get("text").and_then(Value::as_str).map(|text| Part::Text(text.to_owned()));
            parts.extend(items.iter().filter_map(text));
        }
        _ => {}
    }
    let call = |(index, call): (usize, ChatToolCall)| ToolCall {
        // Some local servers omit the id.
        id: if call.id.is_empty() { crate::stream::missing_id(index) } else { call.id },
        name: call.function.name,
        extra: Vec::new(),
        arguments: match call.function.arguments {
            Value::String(text) => text,
            Value::Null => "{}".to_owned(),
            object => object.to_string(),
        },
    };
    let tool_calls: Vec<ToolCall> = tool_calls.unwrap_or_default().into_iter().enumerate().map(call).collect();
    let finish =
        choice.finish_reason.unwrap_or_else(|| if tool_calls.is_empty() { "stop" } else { "tool_calls" }.into());
    let message = Message {
        role: Role::Assistant,
        parts,
        tool_calls,
        tool_call_id: None,
        origin: Origin::Policy,
        extra: Vec::new(),
    };
    OtherAnswer { message, finish, logprobs: choice.rest.get("logprobs").map(logprobs).unwrap_or_default() }
}

pub(super) fn usage(usage: &ChatUsage) -> Usage {
    let details = usage.rest.get("prompt_tokens_details");
    Usage {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        cached_tokens: details.and_then(|details| details.get("cached_tokens")).and_then(Value::as_u64).unwrap_or(0),
        ..Usage::default()
    }
}

/// The log-probs of a choice. Entries without a number are skipped, so that they do not invalidate the answer.
pub(crate) fn logprobs(choice: &Value) -> Vec<TokenLogprob> {
    let one = |token: &Value| {
        let logprob = token.get("logprob")?.as_f64()?;
        // Servers round: a near-certain token may be slightly above 0.
        Some((token.get("token")?.as_str()?.to_owned(), logprob.min(0.0)))
    };
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let tokens = list(choice.get("content"));
    let read = |token: &Value| {
        let (text, logprob) = one(token)?;
        let alternatives = list(token.get("top_logprobs")).iter().filter_map(one).collect();
        Some(TokenLogprob { token: text, logprob, alternatives })
    };
    tokens.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"42"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#,
            Ok(("42", 0, 3, "stop")),
        );
        check(
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"function":{"name":"g","arguments":{"x":1}}}]},"finish_reason":"tool_calls"}]}"#,
            Ok(("", 2, 0, "tool_calls")),
        );
        check(
            r#"{"choices":[{"message":{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#,
            Ok(("a\nb", 0, 0, "stop")),
        );
        check(
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":null,"function":{"name":"f","arguments":"{}"}}]}}],"usage":{"prompt_tokens":-1}}"#,
            Ok(("", 1, 0, "tool_calls")),
        );
        check(r#"{"choices":[]}"#, Err("holds no answer"));
        check("data: {\"choices\": []}", Err("the server streams although streaming was not requested"));
        check(r#"{"error":{"message":"model not found"}}"#, Err("model not found"));
        check("<html>Bad gateway</html>", Err("begins with `<html>"));
        check("", Err("EOF"));
        check("null", Err("null"));
    }

    #[test]
    fn the_answering_model_and_log_probs_parse() {
        let body = r#"{"model":"m-2","system_fingerprint":"fp_1","choices":[{"message":{"role":"assistant","content":"ab"},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5},{"token":"c","logprob":-1.5}]},{"token":"b","logprob":1e-9,"top_logprobs":[]},{"token":"?","logprob":null}],"refusal":null}}]}"#;
        let answer = response(body).unwrap();
        assert_eq!(answer.answered_by, Some(AnsweringModel { model: "m-2".into(), version: Some("fp_1".into()) }));
        let alternatives = vec![("a".to_owned(), -0.5), ("c".to_owned(), -1.5)];
        let [a, b] = [("a", -0.5, alternatives), ("b", 0.0, vec![])]
            .map(|(token, logprob, alternatives)| TokenLogprob { token: token.into(), logprob, alternatives });
        assert_eq!(answer.logprobs, [a, b]);
        for odd in [r#""model":"""#, r#""model":null"#, r#""model":7,"system_fingerprint":[]"#] {
            let answer =
                response(&format!("{{{odd},\"choices\":[{{\"message\":{{\"role\":\"assistant\"}}}}]}}")).unwrap();
            assert_eq!(answer.answered_by, None, "{odd}");
        }
    }

    #[test]
    fn further_answers_stand_beside_the_first() {
        let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#;
        let answer = response(body).unwrap();
        assert_eq!((answer.message.plain_text().as_str(), answer.usage.completion_tokens), ("a", 9));
        let [other] = answer.others.as_slice() else { panic!("{answer:?}") };
        assert_eq!((other.message.tool_calls[0].name.as_str(), other.finish.as_str()), ("f", "tool_calls"));
    }

    proptest! {
        #[test]
        fn content_reason_and_usage_parse(content in ".{0,20}", reason in ".{0,8}", tokens in any::<u64>()) {
            let body = serde_json::json!({
                "choices": [{"message": {"role": "x", "content": content}, "finish_reason": reason}],
                "usage": {"prompt_tokens": tokens},
            });
            let answer = response(&body.to_string()).unwrap();
            prop_assert_eq!(answer.message.plain_text(), content);
        }
    }
}
