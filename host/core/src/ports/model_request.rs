//! Model requests.

use crate::{Digest, Message, ToolSpec};
use serde::{Deserialize, Serialize};

/// Which tools the model may or must call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool.
    None,
    /// At least one tool.
    Required,
    /// This tool.
    Tool(String),
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Required format of the answer's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// The schema's name: letters, digits, `_` and `-`.
        name: String,
        /// JSON Schema.
        schema: serde_json::Value,
        /// Whether the server must enforce it.
        #[serde(default)]
        strict: bool,
    },
}

/// Request fields that this program does not know. They are sent unchanged to endpoints of the same dialect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownFields {
    /// The dialect: `openai` or `anthropic`.
    pub dialect: String,
    /// The fields by name.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// Whose requests may share what a model remembers of conversations: cached keys and values, and the tokens of its answers. It changes no answer, and is no
/// part of what a request asks: it is never written, so it is in no record and in no digest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Partition(Option<Digest>);

impl Partition {
    /// What this program asks for itself: all episodes of a run share it.
    pub const OWN: Self = Self(None);

    /// A client of a gateway, by the name of its key. The empty name stands for all clients without a key.
    pub fn of_client(owner: &str) -> Self {
        Self(Some(Digest::of(owner.as_bytes())))
    }
}

/// A model request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Available tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Which tools may or must be called.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Temperature, 0 to 2; `None`: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling threshold, above 0 and at most 1; `None`: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Seed, for models that support one.
    pub seed: Option<u64>,
    /// Stop sequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Required format of the answer's text; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Log-probs of the answer's tokens with this many alternatives, 0 to 20; `None`: not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u8>,
    /// Fields that this program does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownFields>,
    /// With whose requests it shares what a model of this process remembers.
    #[serde(skip)]
    pub partition: Partition,
}

impl ModelRequest {
    /// Bytes of text that the model reads: messages and tools.
    pub fn bytes(&self) -> usize {
        let messages: usize = self.messages.iter().map(Message::len).sum();
        let tool = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.input_schema.len();
        messages + self.tools.iter().map(tool).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_no_part_of_what_is_written() {
        let own = ModelRequest { max_tokens: 3, ..ModelRequest::default() };
        assert_eq!(own.partition, Partition::OWN);
        let of_client = ModelRequest { partition: Partition::of_client("shop"), ..own.clone() };
        let written = serde_json::to_string(&of_client).unwrap();
        assert_eq!(written, serde_json::to_string(&own).unwrap());
        assert_eq!(serde_json::from_str::<ModelRequest>(&written).unwrap(), own);
    }

    #[test]
    fn every_key_has_a_partition_of_its_own() {
        let all = [Partition::OWN, Partition::of_client(""), Partition::of_client("a"), Partition::of_client("b")];
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
        assert_eq!(Partition::of_client("a"), all[2]);
    }
}
