//! Models that answer conversations.

use super::{DeltaSink, ModelRequest, ModelResponse};
use crate::{Failure, FailureKind, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

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
    /// Nobody reads the answer any more.
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
    /// Which model this is.
    fn identity(&self) -> LlmIdentity;
    /// Asks once. Cancel-safe: dropping the future abandons the request.
    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError>;
    /// Asks once, and passes the answer on while it is written. What is returned is the whole answer: that of `complete`, had
    /// it been asked in the same way. After the first piece nothing is tried again, since pieces cannot be taken back.
    ///
    /// A model that cannot stream passes its answer on when it has ended.
    ///
    /// # Errors
    /// Those of `complete`; where the answer broke off, pieces may have been passed on. [`ModelError::Stopped`]: the sink wants no more.
    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let response = self.complete(request).await?;
        match response.pass_on(sink) {
            ControlFlow::Continue(()) => Ok(response),
            ControlFlow::Break(()) => Err(ModelError::Stopped),
        }
    }
}

/// What the models of a run cost, all of them together: the policy's, and those that plugins ask.
pub trait Meter: Send + Sync {
    /// Tokens so far.
    fn spent(&self) -> Usage;
}
