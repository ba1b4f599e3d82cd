//! Conversations.

use serde::{Deserialize, Serialize};

/// Name-value pairs in order.
pub type Attributes = Vec<(String, String)>;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions that frame the conversation.
    System,
    /// The side that asks.
    User,
    /// The policy.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// Where a message came from; written by the host, never believed from a plugin.
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

/// One piece of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text for the model to read.
    Text(String),
    /// A JSON document, as text.
    Json(String),
    /// A reference to stored bytes.
    Blob(Blob),
    /// Anything else, as text.
    Other(String),
}

impl Part {
    /// Bytes of text this part holds.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) | Self::Other(text) => text.len(),
            Self::Blob(blob) => blob.digest.len() + blob.media_type.len(),
        }
    }

    /// Whether it holds no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes stored elsewhere, named by their content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// For example `image/png`.
    pub media_type: String,
    /// Length in bytes.
    pub size: u64,
}

/// A tool the policy wants to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique inside its message.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text exactly as the policy wrote it; it may be malformed.
    pub arguments: String,
    /// Room to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-`; at most 64 bytes.
    pub name: String,
    /// What it does, for the model to read.
    pub description: String,
    /// JSON Schema of the arguments, as text.
    pub input_schema: String,
    /// Room to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// Tools called; assistant messages only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Which call this answers; tool messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Where it came from.
    pub origin: Origin,
    /// Room to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

impl Message {
    /// A message of one text.
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

    /// Bytes of text in parts and tool calls: what a size limit counts.
    pub fn len(&self) -> usize {
        let parts: usize = self.parts.iter().map(Part::len).sum();
        let calls: usize =
            self.tool_calls.iter().map(|call| call.id.len() + call.name.len() + call.arguments.len()).sum();
        let extra: usize = self.extra.iter().map(|(name, value)| name.len() + value.len()).sum();
        parts + calls + extra + self.tool_call_id.as_ref().map_or(0, String::len)
    }

    /// Whether it holds no text at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What model calls cost, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Of the tokens read, those served from a cache.
    pub cached_tokens: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
    }
}
