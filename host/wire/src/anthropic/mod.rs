//! The Anthropic messages dialect: `POST /v1/messages`.
//!
//! It differs from the chat dialect in four relevant ways: the system prompt is separate from the messages; roles alternate,
//! so tool results and the following user message are one message; tool arguments are objects, not text; and texts must not
//! be empty.
//!
//! Client side: [`request`] writes a request, [`response`] parses a whole answer, [`StreamReader`] a streamed one. Server
//! side: [`read_request`] parses a request, [`body`] writes a whole answer, [`StreamWriter`] a streamed one.

mod answer;
mod request;
mod response;
mod server;
mod stream;

pub use answer::{StreamWriter, body, error_body};
pub use request::{request, unsent};
pub use response::response;
pub use server::read_request;
pub use stream::StreamReader;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The dialect version in requests.
pub const VERSION: &str = "2023-06-01";

/// The dialect's name in [`UnknownFields::dialect`](clawhost_core::UnknownFields::dialect).
pub const DIALECT: &str = "anthropic";

/// Replaces an empty text, which the dialect rejects.
const EMPTY: &str = "(empty)";

/// A messages request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesRequest {
    /// Name of the model.
    pub model: String,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// System prompt: text, or a list of text blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The conversation.
    pub messages: Vec<WireMessage>,
    /// Available tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// Temperature, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus threshold, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Tool choice: an object with a `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Stop sequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Whether the answer is to be streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A message of the dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// Text, or a list of blocks.
    pub content: Content,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Block>),
}

/// A content block. Unknown kinds are kept unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Block {
    /// A block of a known kind.
    Known(KnownBlock),
    /// Any other block: images, documents, thinking.
    Other(Value),
}

/// A block of a known kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KnownBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Other fields.
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    /// A tool call.
    ToolUse {
        /// Id of the call.
        #[serde(default)]
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments, an object.
        #[serde(default)]
        input: Value,
        /// Other fields.
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
    /// The result of a call.
    ToolResult {
        /// Id of the call.
        tool_use_id: String,
        /// Text, or a list of blocks.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        content: Value,
        /// Other fields, including `is_error`.
        #[serde(flatten)]
        rest: Map<String, Value>,
    },
}

/// A messages response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesResponse {
    /// Content of the answer.
    #[serde(default, deserialize_with = "crate::or_default")]
    pub content: Vec<Block>,
    /// Stop reason.
    #[serde(default)]
    pub stop_reason: Option<String>,
    /// Token usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<WireUsage>,
    /// An error, in place of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// Other fields, including `model`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Token usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WireUsage {
    /// Prompt tokens, without cached ones.
    #[serde(default, deserialize_with = "crate::count")]
    pub input_tokens: u64,
    /// Tokens of the answer.
    #[serde(default, deserialize_with = "crate::count")]
    pub output_tokens: u64,
    /// Prompt tokens that were read from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_input_tokens: Option<u64>,
    /// Prompt tokens that were written to the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_input_tokens: Option<u64>,
    /// Other fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
