//! Conversations.

use serde::{Deserialize, Serialize};

/// Name-value pairs in order.
pub type Attributes = Vec<(String, String)>;

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions that frame the conversation.
    System,
    /// The user, or the environment in its place.
    User,
    /// The policy.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// The origin of a message. Set by the host; a plugin's claim is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The task's own text.
    Task,
    /// The environment plugin.
    Environment,
    /// The policy.
    Policy,
    /// A tool.
    Tool,
    /// A person.
    User,
    /// The host.
    Host,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text for the model.
    Text(String),
    /// A JSON document, as text.
    Json(String),
    /// A reference to stored bytes.
    Blob(Blob),
    /// Other content, as text.
    Other(String),
}

impl Part {
    /// Bytes of text in this part.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) | Self::Other(text) => text.len(),
            Self::Blob(blob) => blob.digest.len() + blob.media_type.len(),
        }
    }

    /// Whether it contains no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A reference to stored bytes by their digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Media type, for example `image/png`.
    pub media_type: String,
    /// Length in bytes.
    pub size: u64,
}

/// A tool call of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id, unique in its message.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text exactly as the policy wrote it; may be malformed.
    pub arguments: String,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

/// An available tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name: letters, digits, `_` and `-`; at most 64 bytes.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, as text.
    pub input_schema: String,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

/// The attribute of an answer with the model's reasoning, which is no part of its text.
pub const REASONING: &str = "reasoning";

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The role.
    pub role: Role,
    /// The content.
    pub parts: Vec<Part>,
    /// Tool calls; assistant messages only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Id of the call that this message answers; tool messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The origin.
    pub origin: Origin,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

impl Message {
    /// A message with a single text.
    pub fn text(role: Role, origin: Origin, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![Part::Text(text.into())],
            tool_calls: Vec::new(),
            tool_call_id: None,
            origin,
            extra: Vec::new(),
        }
    }

    /// All text and JSON parts, joined by line ends.
    pub fn plain_text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            if let Part::Text(text) | Part::Json(text) = part {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
            }
        }
        out
    }

    /// Bytes of text in parts and tool calls, as limits count them.
    pub fn len(&self) -> usize {
        let parts: usize = self.parts.iter().map(Part::len).sum();
        let calls: usize =
            self.tool_calls.iter().map(|call| call.id.len() + call.name.len() + call.arguments.len()).sum();
        let extra: usize = self.extra.iter().map(|(name, value)| name.len() + value.len()).sum();
        parts + calls + extra + self.tool_call_id.as_ref().map_or(0, String::len)
    }

    /// Whether it contains no text at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What model calls used: tokens, and money where it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Prompt tokens that were served from a cache.
    pub cached_tokens: u64,
    /// Their price in millionths of a dollar, if the operator of a gateway named prices; else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_micros: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Bytes of text per token, in an estimate. English text has about four; other text has fewer, and is estimated too low.
const BYTES_PER_TOKEN: u64 = 4;

/// The estimated tokens of a text of this many bytes: a quarter, at least one.
pub fn estimated_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN).max(1)
}

impl Usage {
    /// All tokens, read and generated.
    pub fn tokens(self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cost_micros = self.cost_micros.saturating_add(other.cost_micros);
    }
}
