//! The OpenAI chat dialect: `POST /chat/completions`.
//!
//! As a client, [`request`] writes what an endpoint is asked, [`response`] reads a whole answer, and [`StreamReader`] a
//! streamed one. As a server, [`read_request`] reads what a client asks, [`body`] writes a whole answer, and
//! [`StreamWriter`] a streamed one.

mod answer;
mod request;
mod response;
mod server;
mod stream;

pub use answer::{StreamWriter, body, error_body};
pub use request::{TokenLimit, request};
pub use response::response;
pub use server::read_request;
pub use stream::StreamReader;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The dialect's name, as [`UnknownFields::dialect`](clawhost_core::UnknownFields::dialect) has it.
pub const DIALECT: &str = "openai";

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
    /// Above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// For servers that take one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts that end the answer: one, or a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Value>,
    /// Which tools may be called: a word, or an object that names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// The form of the answer's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<Value>,
    /// Whether log-probabilities are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// How many alternatives to each token, 0 to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u8>,
    /// Whether the answer is wanted piece by piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// What a stream has in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<Value>,
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
    /// Whatever else was said, `model` and `system_fingerprint` among it.
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
    /// Whatever else was said, `logprobs` among it.
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
