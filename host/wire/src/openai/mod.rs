//! The OpenAI chat dialect: `POST /chat/completions`.
//!
//! Client side: [`request`] writes a request, [`response`] parses a whole answer, [`StreamReader`] a streamed one. Server
//! side: [`read_request`] parses a request, [`body`] writes a whole answer, [`StreamWriter`] a streamed one.

mod answer;
mod request;
mod response;
mod server;
mod stream;

pub(crate) use answer::logprobs as logprobs_of;
pub use answer::{StreamWriter, body, error_body};
pub use request::{TokenLimit, request};
pub(crate) use response::logprobs as logprobs_in;
pub use response::response;
pub use server::read_request;
pub use stream::StreamReader;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The dialect's name in [`UnknownFields::dialect`](clawhost_core::UnknownFields::dialect).
pub const DIALECT: &str = "openai";

/// A chat request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// Name of the model.
    pub model: String,
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// Available tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ChatTool>,
    /// Most tokens of the answer, as most servers name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The same, as OpenAI's newer models name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<u32>,
    /// Temperature, 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus threshold, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed, for servers that support one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Stop sequences: one, or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Value>,
    /// Tool choice: a keyword, or an object that names a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Required format of the answer's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// Whether log-probs are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// Number of alternatives per token, 0 to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u8>,
    /// Whether the answer is to be streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Options of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<Value>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A message of the dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, `tool`, or another role.
    pub role: String,
    /// Text, a list of parts, or null.
    #[serde(default)]
    pub content: Value,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ChatToolCall>>,
    /// Id of the call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A tool call of the dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatToolCall {
    /// Id; some servers send none.
    #[serde(default, deserialize_with = "crate::or_default")]
    pub id: String,
    /// Always `function` at present.
    #[serde(rename = "type", default = "function_word")]
    pub kind: String,
    /// Name and arguments.
    pub function: ChatFunction,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

fn function_word() -> String {
    "function".to_owned()
}

/// Name and arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatFunction {
    /// Name of the tool.
    pub name: String,
    /// JSON text as the model wrote it; some servers send an object.
    #[serde(default)]
    pub arguments: Value,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A tool of the dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatTool {
    /// Always `function` at present.
    #[serde(rename = "type", default = "function_word")]
    pub kind: String,
    /// The tool's `name`, `description` and `parameters`; absent for other kinds of tools.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub function: Value,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A chat response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// Answers; one is requested.
    #[serde(default)]
    pub choices: Vec<ChatChoice>,
    /// Token usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsage>,
    /// An error, which some servers send with status 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Other fields, including `model` and `system_fingerprint`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatChoice {
    /// The assistant's message.
    pub message: ChatMessage,
    /// Finish reason.
    #[serde(default)]
    pub finish_reason: Option<String>,
    /// Other fields, including `logprobs`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Token usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatUsage {
    /// Prompt tokens.
    #[serde(default, deserialize_with = "crate::count")]
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    #[serde(default, deserialize_with = "crate::count")]
    pub completion_tokens: u64,
    /// Other fields, including cached tokens.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
