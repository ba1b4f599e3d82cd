//! What generates the tokens of answers: the engine of this process, or a service that has the weights.

use super::engine::{Engine, Watch};
use super::request::{Answer, Request};
use crate::LocalModelError;
use async_trait::async_trait;
use clawhost_core::Digest;

/// Generates tokens.
#[async_trait]
pub trait Generator: std::fmt::Debug + Send + Sync + 'static {
    /// What computes, as identities of models name it.
    fn provider(&self) -> &'static str;
    /// The number and the digest of the weights that answer the next request.
    fn weights(&self) -> (u64, Digest);
    /// The largest number of tokens of a prompt with its answer.
    fn context(&self) -> usize;
    /// Ids of tokens are below it.
    fn vocabulary(&self) -> usize;
    /// Whether it keeps answers within grammars.
    fn constrains(&self) -> bool {
        true
    }

    /// Answers a request. `watch` sees the tokens in order, perhaps not before all are there. Dropping the future cancels it.
    ///
    /// # Errors
    /// As [`Engine::ask`], or the service does not answer.
    async fn generate(&self, request: Request, watch: Watch) -> Result<Answer, LocalModelError>;
}

#[async_trait]
impl Generator for Engine {
    fn provider(&self) -> &'static str {
        "local"
    }

    fn weights(&self) -> (u64, Digest) {
        let current = self.current();
        (current.number, current.digest)
    }

    fn context(&self) -> usize {
        self.current().model.config().context
    }

    fn vocabulary(&self) -> usize {
        self.current().model.config().vocabulary
    }

    async fn generate(&self, request: Request, watch: Watch) -> Result<Answer, LocalModelError> {
        self.ask_watched(request, Some(watch)).await
    }
}
