//! The model port.

use super::{DeltaSink, ModelRequest, ModelResponse};
use crate::{Failure, FailureKind, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Identity of a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LlmIdentity {
    /// The kind of client, for example `openai` or `follower`.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// Further identification: an address, a version, a digest of weights.
    pub version: String,
}

/// Why a model call failed. No variant contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ModelError {
    /// The endpoint could not be reached, timed out, or kept returning rate limits.
    #[error("the model did not answer: {0}")]
    Unavailable(String),
    /// The endpoint refused the request.
    #[error("the model refused the request: {0}")]
    Refused(String),
    /// The conversation exceeds the model's context.
    #[error("the conversation is too long for the model: {0}")]
    TooLong(String),
    /// The response could not be parsed.
    #[error("the model's answer could not be read: {0}")]
    InvalidResponse(String),
    /// The run's budget is exhausted.
    #[error("the budget is spent: {0}")]
    Budget(String),
    /// The caller stopped reading the answer.
    #[error("the answer was stopped: its reader has gone")]
    Stopped,
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
            Self::Stopped => crate::code::CANCELLED,
        };
        Failure::new(FailureKind::Llm, code, self.to_string())
    }
}

/// A model that answers conversations.
#[async_trait]
pub trait Llm: Send + Sync {
    /// Identity of the model.
    fn identity(&self) -> LlmIdentity;
    /// Calls the model once. Cancel-safe: dropping the future abandons the request.
    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError>;
    /// Calls the model once and passes deltas on while it generates. Returns the whole answer, equal to that of `complete`.
    /// There are no retries after the first delta, because deltas cannot be taken back.
    ///
    /// A model that cannot stream passes its answer on at its end.
    ///
    /// # Errors
    /// The errors of `complete`; after an interruption deltas may have been passed on. [`ModelError::Stopped`]: the sink
    /// stopped reading.
    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let response = self.complete(request).await?;
        match response.pass_on(sink) {
            ControlFlow::Continue(()) => Ok(response),
            ControlFlow::Break(()) => Err(ModelError::Stopped),
        }
    }
}

/// Model usage of a run: the policy and the plugins together.
pub trait Meter: Send + Sync {
    /// Tokens used so far.
    fn spent(&self) -> Usage;
}
