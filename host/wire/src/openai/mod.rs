//! The OpenAI chat dialect: `POST /chat/completions`.

use crate::{WireError, malformed, sent_arguments, sent_name};
use clawhost_core::{Message, ModelRequest, ModelResponse, Origin, Part, Role, ToolCall, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A chat request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The model's name.
    pub model: String,
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// Tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ChatTool>,
    /// Most tokens to write, as most servers name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The same, as OpenAI's own newer models want it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<u32>,
    /// 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// For servers that take one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts that end the answer: one, or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Value>,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A message on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, `tool`, or another word.
    pub role: String,
    /// Text, a list of parts, or null.
    #[serde(default)]
    pub content: Value,
    /// Tools called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ChatToolCall>>,
    /// Which call a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A tool call on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatToolCall {
    /// Its id; some servers send none.
    #[serde(default, deserialize_with = "crate::or_default")]
    pub id: String,
    /// Always `function` today.
    #[serde(rename = "type", default = "function_word")]
    pub kind: String,
    /// Name and arguments.
    pub function: ChatFunction,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

fn function_word() -> String {
    "function".to_owned()
}

/// Name and arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatFunction {
    /// The tool.
    pub name: String,
    /// JSON text as the model wrote it; some servers send an object.
    #[serde(default)]
    pub arguments: Value,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A tool on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatTool {
    /// Always `function` today.
    #[serde(rename = "type", default = "function_word")]
    pub kind: String,
    /// The tool's `name`, `description` and `parameters`; absent for tools of other kinds.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub function: Value,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A chat response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// Answers; one is asked for.
    #[serde(default)]
    pub choices: Vec<ChatChoice>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsage>,
    /// An error, which some servers send with status 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatChoice {
    /// The assistant's message.
    pub message: ChatMessage,
    /// Why it ended.
    #[serde(default)]
    pub finish_reason: Option<String>,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What a call cost, in tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatUsage {
    /// Tokens read.
    #[serde(default, deserialize_with = "crate::count")]
    pub prompt_tokens: u64,
    /// Tokens written.
    #[serde(default, deserialize_with = "crate::count")]
    pub completion_tokens: u64,
    /// Whatever else was said, cached tokens among it.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How an endpoint wants the token limit named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// `max_tokens`: nearly everybody.
    MaxTokens,
    /// `max_completion_tokens`: OpenAI itself, whose newer models refuse the other.
    MaxCompletionTokens,
}

/// The request for an endpoint.
pub fn request(model: &str, request: &ModelRequest, limit: TokenLimit) -> ChatRequest {
    let tool = |tool: &clawhost_core::ToolSpec| {
        let parameters = serde_json::from_str(&tool.input_schema).unwrap_or_else(|_| serde_json::json!({}));
        let function =
            serde_json::json!({ "name": tool.name, "description": tool.description, "parameters": parameters });
        ChatTool { kind: function_word(), function, rest: Map::new() }
    };
    let (max_tokens, max_completion_tokens) = match limit {
        TokenLimit::MaxTokens => (Some(request.max_tokens), None),
        TokenLimit::MaxCompletionTokens => (None, Some(request.max_tokens)),
    };
    ChatRequest {
        model: model.to_owned(),
        messages: request.messages.iter().map(message).collect(),
        tools: request.tools.iter().map(tool).collect(),
        max_tokens,
        max_completion_tokens,
        // Through text, so that 0.7 is sent as 0.7 and not as the f32's neighbour.
        temperature: request.temperature.and_then(|temperature| temperature.to_string().parse().ok()),
        // Servers read a signed number. The low bits are kept: neighbouring seeds stay apart.
        seed: request.seed.map(|seed| (seed & i64::MAX as u64) as i64),
        stop: (!request.stop.is_empty()).then(|| Value::from(request.stop.clone())),
        rest: Map::new(),
    }
}

fn message(message: &Message) -> ChatMessage {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let text = message.plain_text();
    let calls: Vec<ChatToolCall> = message
        .tool_calls
        .iter()
        .map(|call| ChatToolCall {
            id: call.id.clone(),
            kind: function_word(),
            function: ChatFunction {
                name: sent_name(&call.name),
                arguments: Value::from(sent_arguments(&call.arguments)),
                rest: Map::new(),
            },
            rest: Map::new(),
        })
        .collect();
    ChatMessage {
        role: role.to_owned(),
        content: if text.is_empty() && !calls.is_empty() { Value::Null } else { Value::from(text) },
        tool_calls: (!calls.is_empty()).then_some(calls),
        tool_call_id: message.tool_call_id.clone(),
        rest: Map::new(),
    }
}

/// Reads an endpoint's answer.
///
/// # Errors
/// The body is not a chat response, holds no answer, or holds an error.
pub fn response(body: &str) -> Result<ModelResponse, WireError> {
    let response: ChatResponse = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    if let Some(error) = response.error.filter(|error| !error.is_null()) {
        let text = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
        return Err(WireError::Endpoint(text));
    }
    let choice = response.choices.into_iter().next().ok_or(WireError::Empty)?;
    let mut parts = Vec::new();
    match choice.message.content {
        Value::String(text) if !text.is_empty() => parts.push(Part::Text(text)),
        Value::Array(items) => {
            let text = |item: &Value| item.get("text").and_then(Value::as_str).map(|text| Part::Text(text.to_owned()));
            parts.extend(items.iter().filter_map(text));
        }
        _ => {}
    }
    let call = |(index, call): (usize, ChatToolCall)| ToolCall {
        // Some local servers leave the id out: results refer to it, so it must be there.
        id: if call.id.is_empty() { format!("call-{index}") } else { call.id },
        name: call.function.name,
        extra: Vec::new(),
        arguments: match call.function.arguments {
            Value::String(text) => text,
            Value::Null => "{}".to_owned(),
            object => object.to_string(),
        },
    };
    let tool_calls: Vec<ToolCall> =
        choice.message.tool_calls.unwrap_or_default().into_iter().enumerate().map(call).collect();
    let usage = response.usage.map_or_else(Usage::default, |usage| Usage {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        cached_tokens: usage
            .rest
            .get("prompt_tokens_details")
            .and_then(|details| details.get("cached_tokens"))
            .and_then(Value::as_u64)
            .unwrap_or(0),
    });
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
    Ok(ModelResponse::new(message, usage, finish))
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
    fn answers_are_read_as_servers_send_them() {
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
        check("data: {\"choices\": []}", Err("the server streams, though nobody asked it to"));
        check(r#"{"error":{"message":"model not found"}}"#, Err("model not found"));
        check("<html>Bad gateway</html>", Err("begins with `<html>"));
        check("", Err("EOF"));
        check("null", Err("null"));
    }

    #[test]
    fn seeds_stay_apart_and_history_is_fit_to_be_read_again() {
        let asked = |seed, name: &str, arguments: &str| {
            let call = ToolCall { id: "a".into(), name: name.into(), arguments: arguments.into(), extra: vec![] };
            let said = Message { tool_calls: vec![call], ..Message::text(Role::Assistant, Origin::Policy, "") };
            let (tools, max_tokens, temperature, stop) = (vec![], 1, None, vec![]);
            let request_in = ModelRequest {
                messages: vec![said],
                tools,
                max_tokens,
                temperature,
                seed,
                stop,
                ..ModelRequest::default()
            };
            serde_json::to_value(request("m", &request_in, TokenLimit::MaxTokens)).unwrap()
        };
        assert_ne!(asked(Some(6), "f", "{}")["seed"], asked(Some(7), "f", "{}")["seed"]);
        let json = asked(None, "find<|im_end|> it", "{oops");
        assert!(json.get("temperature").is_none() && json.get("seed").is_none(), "what nobody chose is not sent");
        let function = &json["messages"][0]["tool_calls"][0]["function"];
        assert_eq!(function["name"], "find__im_end___it");
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments["unreadable_arguments"], "{oops");
    }

    #[test]
    fn a_request_says_what_was_asked_and_unknown_fields_survive() {
        let request_in = ModelRequest {
            messages: vec![
                Message::text(Role::System, Origin::Host, "be brief"),
                Message::text(Role::User, Origin::Environment, "2+2?"),
            ],
            tools: vec![clawhost_core::ToolSpec {
                name: "f".into(),
                description: "does f".into(),
                input_schema: r#"{"type":"object"}"#.into(),
                extra: vec![],
            }],
            max_tokens: 5,
            temperature: Some(0.7),
            seed: Some(u64::MAX),
            stop: vec![],
            ..ModelRequest::default()
        };
        let json = serde_json::to_value(request("m", &request_in, TokenLimit::MaxTokens)).unwrap();
        let expected = serde_json::json!({
            "model": "m",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "2+2?"}],
            "tools": [{"type": "function", "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}}}],
            "max_tokens": 5, "temperature": 0.7, "seed": i64::MAX,
        });
        assert_eq!(json, expected);

        let odd = r#"{"model":"m","messages":[{"role":"user","content":"x","name":"bob"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}","note":1},"index":0}]}],"tools":[{"type":"custom","custom":{"name":"c"}},{"type":"function","function":{"name":"f","strict":true},"x":1}],"stop":"END","logit_bias":{"1":2}}"#;
        let read: ChatRequest = serde_json::from_str(odd).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), serde_json::from_str::<Value>(odd).unwrap());
    }

    proptest! {
        #[test]
        fn what_a_body_says_is_what_is_read(content in ".{0,20}", reason in ".{0,8}", tokens in any::<u64>()) {
            let body = serde_json::json!({
                "choices": [{"message": {"role": "x", "content": content}, "finish_reason": reason}],
                "usage": {"prompt_tokens": tokens},
            });
            let answer = response(&body.to_string()).unwrap();
            prop_assert_eq!(answer.message.plain_text(), content);
        }
    }
}
