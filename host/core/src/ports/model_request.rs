//! What a model is asked.

use crate::{Message, ToolSpec};
use serde::{Deserialize, Serialize};

/// Which of the tools on offer the model may or must call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None may be called.
    None,
    /// At least one must be called.
    Required,
    /// This one must be called.
    Tool(String),
}

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// The form that the answer's text must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that fits a schema.
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

/// Fields of a request that this program does not know. They are sent as they came, to endpoints of the same dialect only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownFields {
    /// The dialect that they belong to: `openai` or `anthropic`.
    pub dialect: String,
    /// By name.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// What a model is asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Which of them may be called.
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// Most tokens to write.
    pub max_tokens: u32,
    /// 0 to 2; none: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Above 0 and at most 1: the least set of tokens whose probabilities add up to this is drawn from; none: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// For models that take one.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The form of the answer's text; none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Log-probabilities of the answer's tokens, each with so many alternatives, 0 to 20; none: none are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u8>,
    /// What else was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownFields>,
}
