//! The Anthropic messages dialect: `POST /v1/messages`.
//!
//! It differs from the chat dialect in four ways that matter here: the system prompt stands beside the messages; roles
//! alternate, so that tool results and what follows them share one message of the user; tool arguments are objects, not
//! text; and no text may be empty.

use crate::{WireError, malformed, sent_arguments, sent_name};
use clawhost_core::{Message, ModelRequest, ModelResponse, Origin, Part, Role, ToolCall, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the dialect that requests name.
pub const VERSION: &str = "2023-06-01";

/// Stands for a text that is empty, which the dialect refuses.
const EMPTY: &str = "(empty)";

/// A messages request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesRequest {
    /// The model's name.
    pub model: String,
    /// Most tokens to write.
    pub max_tokens: u32,
    /// Instructions: text, or a list of text blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The conversation.
    pub messages: Vec<WireMessage>,
    /// Tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A message on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// Text, or a list of blocks.
    pub content: Content,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Block>),
}

/// One piece of a message. A kind we do not know is kept as it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Block {
    /// A piece that we understand.
    Known(KnownBlock),
    /// Any other: images, documents, thinking.
    Other(Value),
}

/// A piece that we understand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KnownBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Whatever else was said.
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    /// A tool that is called.
    ToolUse {
        /// Its id.
        #[serde(default)]
        id: String,
        /// The tool.
        name: String,
        /// The arguments, an object.
        #[serde(default)]
        input: Value,
        /// Whatever else was said.
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    /// The answer to a call.
    ToolResult {
        /// Which call.
        tool_use_id: String,
        /// Text, or a list of blocks.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        content: Value,
        /// Whatever else was said, `is_error` among it.
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
}

/// A messages response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesResponse {
    /// What the model said.
    #[serde(default, deserialize_with = "crate::or_default")]
    pub content: Vec<Block>,
    /// Why it stopped.
    #[serde(default)]
    pub stop_reason: Option<String>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<WireUsage>,
    /// An error, which stands here instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What a call cost, in tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireUsage {
    /// Tokens read, without those of the cache.
    #[serde(default, deserialize_with = "crate::count")]
    pub input_tokens: u64,
    /// Tokens written.
    #[serde(default, deserialize_with = "crate::count")]
    pub output_tokens: u64,
    /// Tokens read from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_input_tokens: Option<u64>,
    /// Tokens read and put into the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_input_tokens: Option<u64>,
    /// Whatever else was said.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

fn text_block(text: String) -> Block {
    let text = if text.trim().is_empty() { EMPTY.to_owned() } else { text };
    Block::Known(KnownBlock::Text { text, rest: Map::new() })
}

/// The request for an endpoint.
///
/// # Errors
/// The request asks for something that the dialect does not have.
pub fn request(model: &str, request: &ModelRequest) -> Result<MessagesRequest, WireError> {
    if let Some(hot) = request.temperature.filter(|temperature| *temperature > 1.0) {
        return Err(WireError::Unsupported(format!("temperature {hot}: the Anthropic dialect takes 0 to 1")));
    }
    let system: Vec<String> =
        request.messages.iter().filter(|message| message.role == Role::System).map(Message::plain_text).collect();
    let system = system.join("\n\n");
    let mut messages: Vec<WireMessage> = Vec::new();
    for message in request.messages.iter().filter(|message| message.role != Role::System) {
        let (role, blocks) = blocks(message);
        match messages.last_mut() {
            // Roles alternate: what one side says in a row is one message.
            Some(WireMessage { role: last, content: Content::Blocks(said), .. }) if last == role => said.extend(blocks),
            _ => {
                let content = Content::Blocks(blocks);
                messages.push(WireMessage { role: role.to_owned(), content, rest: Map::new() });
            }
        }
    }
    let tool = |tool: &clawhost_core::ToolSpec| {
        let schema: Value = serde_json::from_str(&tool.input_schema).unwrap_or_else(|_| serde_json::json!({}));
        let mut tool = serde_json::json!({"name": tool.name, "description": tool.description, "input_schema": schema});
        // The dialect asks for the type, which a schema without fields may leave out.
        if let Some(schema) = tool.get_mut("input_schema").and_then(Value::as_object_mut) {
            schema.entry("type").or_insert_with(|| "object".into());
        }
        tool
    };
    Ok(MessagesRequest {
        model: model.to_owned(),
        max_tokens: request.max_tokens,
        system: (!system.trim().is_empty()).then_some(Value::String(system)),
        messages,
        tools: request.tools.iter().map(tool).collect(),
        // Through text, so that 0.7 is sent as 0.7 and not as the f32's neighbour.
        temperature: request.temperature.and_then(|temperature| temperature.to_string().parse().ok()),
        stop_sequences: request.stop.clone(),
        rest: Map::new(),
    })
}

/// A message's side and its blocks.
fn blocks(message: &Message) -> (&'static str, Vec<Block>) {
    let text = message.plain_text();
    if message.role == Role::Tool {
        let result = KnownBlock::ToolResult {
            tool_use_id: message.tool_call_id.clone().unwrap_or_default(),
            content: Value::String(if text.trim().is_empty() { EMPTY.to_owned() } else { text }),
            // The host answers calls that could not be run.
            rest: if message.origin == Origin::Host {
                [("is_error".to_owned(), Value::Bool(true))].into_iter().collect()
            } else {
                Map::new()
            },
        };
        return ("user", vec![Block::Known(result)]);
    }
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    let mut blocks = Vec::new();
    if !text.trim().is_empty() || message.tool_calls.is_empty() {
        blocks.push(text_block(text));
    }
    blocks.extend(message.tool_calls.iter().map(|call| {
        let input = serde_json::from_str(&sent_arguments(&call.arguments)).unwrap_or_default();
        Block::Known(KnownBlock::ToolUse { id: call.id.clone(), name: sent_name(&call.name), input, rest: Map::new() })
    }));
    (role, blocks)
}

/// Reads an endpoint's answer.
///
/// # Errors
/// The body is not a messages response, holds no answer, or holds an error.
pub fn response(body: &str) -> Result<ModelResponse, WireError> {
    let response: MessagesResponse = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    if let Some(error) = response.error.filter(|error| !error.is_null()) {
        let text = error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
        return Err(WireError::Endpoint(text));
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
                // Results refer to the id, so it must be there.
                let id = if id.is_empty() { format!("call-{}", tool_calls.len()) } else { id };
                tool_calls.push(ToolCall { id, name, arguments, extra: Vec::new() });
            }
            // Thinking and whatever else is there is not what the policy did.
            _ => {}
        }
    }
    let usage = response.usage.map_or_else(Usage::default, |usage| {
        let cached = usage.cache_read_input_tokens.unwrap_or(0);
        let written = usage.cache_creation_input_tokens.unwrap_or(0);
        Usage {
            // The dialect counts cached tokens apart; here all that was read is counted.
            prompt_tokens: usage.input_tokens.saturating_add(cached).saturating_add(written),
            completion_tokens: usage.output_tokens,
            cached_tokens: cached,
        }
    });
    let finish = match response.stop_reason.as_deref() {
        Some("end_turn" | "stop_sequence") => "stop".to_owned(),
        Some("max_tokens") => "length".to_owned(),
        Some("tool_use") => "tool_calls".to_owned(),
        Some(other) => other.to_owned(),
        None => if tool_calls.is_empty() { "stop" } else { "tool_calls" }.to_owned(),
    };
    let (role, origin) = (Role::Assistant, Origin::Policy);
    let message = Message { role, parts, tool_calls, tool_call_id: None, origin, extra: Vec::new() };
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

    #[test]
    fn a_hot_temperature_is_refused_instead_of_changed() {
        let hot = ModelRequest {
            messages: vec![],
            tools: vec![],
            max_tokens: 1,
            temperature: Some(1.5),
            seed: None,
            stop: vec![],
            ..ModelRequest::default()
        };
        assert!(request("m", &hot).unwrap_err().to_string().contains("takes 0 to 1"));
    }

    proptest! {
        #[test]
        fn roles_alternate_and_no_text_is_empty(turns in proptest::collection::vec((0u8..4, "[ a]{0,3}"), 0..12)) {
            let messages: Vec<Message> = turns.iter().map(|(role, text)| {
                let role = [Role::System, Role::User, Role::Assistant, Role::Tool][*role as usize];
                Message::text(role, Origin::Environment, text.clone())
            }).collect();
            let asked = ModelRequest { messages, tools: vec![], max_tokens: 1, temperature: Some(0.5), seed: None, stop: vec![], ..ModelRequest::default() };
            let sent = request("m", &asked).unwrap();
            for pair in sent.messages.windows(2) {
                prop_assert_ne!(&pair[0].role, &pair[1].role);
            }
            let json = serde_json::to_value(&sent).unwrap();
            for message in json["messages"].as_array().unwrap() {
                for block in message["content"].as_array().unwrap() {
                    let text = block.get("text").or_else(|| block.get("content")).and_then(Value::as_str).unwrap();
                    prop_assert!(!text.trim().is_empty());
                }
            }
        }
    }
}
