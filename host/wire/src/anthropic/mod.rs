//! The Anthropic messages dialect: `POST /v1/messages`.
//!
//! It differs from the chat dialect in four ways that matter here: the system prompt stands beside the messages; roles
//! alternate, so that tool results and what follows them share one message of the user; tool arguments are objects, not
//! text; and no text may be empty.
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
pub use request::{request, unsent};
pub use response::response;
pub use server::read_request;
pub use stream::StreamReader;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the dialect that requests name.
pub const VERSION: &str = "2023-06-01";

/// The dialect's name, as [`UnknownFields::dialect`](clawhost_core::UnknownFields::dialect) has it.
pub const DIALECT: &str = "anthropic";

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
    /// Above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Which tools may be called: an object with a `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Whether the answer is wanted piece by piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
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
    /// Whatever else was said, `model` among it.
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
