//! Models that answer conversations.

use crate::{Failure, FailureKind, Message, TokenRecord, ToolSpec, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Which model answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LlmIdentity {
    /// The kind of client, for example `openai` or `follower`.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// What else tells it apart: an address, a version, a digest of weights.
    pub version: String,
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Most tokens to write.
    pub max_tokens: u32,
    /// 0 to 2; none: the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// For models that take one.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The assistant's message.
    pub message: Message,
    /// What it cost.
    pub usage: Usage,
    /// Why it stopped: `stop`, `length`, `tool_calls`, or the model's own word.
    pub finish: String,
    /// Its tokens, where the model is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenRecord>>,
}

/// Why a model gave no answer. No variant holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ModelError {
    /// The endpoint could not be reached, was too slow, or kept asking to wait.
    #[error("the model did not answer: {0}")]
    Unavailable(String),
    /// The endpoint refused the request.
    #[error("the model refused the request: {0}")]
    Refused(String),
    /// The conversation has outgrown what the model can read.
    #[error("the conversation is too long for the model: {0}")]
    TooLong(String),
    /// What came back could not be read.
    #[error("the model's answer could not be read: {0}")]
    InvalidResponse(String),
    /// The run's budget is spent.
    #[error("the budget is spent: {0}")]
    Budget(String),
}

impl ModelError {
    /// As the failure of an episode.
    pub fn into_failure(self) -> Failure {
        let code = match &self {
            Self::Unavailable(_) => crate::code::UNAVAILABLE,
            Self::Refused(_) => crate::code::REFUSED,
            Self::TooLong(_) => crate::code::LENGTH,
            Self::InvalidResponse(_) => crate::code::GARBAGE,
            Self::Budget(_) => crate::code::BUDGET,
        };
        Failure::new(FailureKind::Llm, code, self.to_string())
    }
}

/// A model that answers conversations.
#[async_trait]
pub trait Llm: Send + Sync {
    /// Which model this is.
    fn identity(&self) -> LlmIdentity;
    /// Asks once. Cancel-safe: dropping the future abandons the request.
    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError>;
}

/// What the models of a run cost, all of them together: the policy's, and those that plugins ask.
pub trait Meter: Send + Sync {
    /// Tokens so far.
    fn spent(&self) -> Usage;
}
