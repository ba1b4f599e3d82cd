//! Models that plugins ask in a case: each request gets the next reply.

use async_trait::async_trait;
use clawhost_core::{
    Digest, IgnoredRequest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, Usage,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The replies under an alias.
pub(super) struct Replies {
    texts: Vec<String>,
    next: AtomicUsize,
}

impl Replies {
    pub(super) fn new(texts: Vec<String>) -> Self {
        Self { texts, next: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Llm for Replies {
    fn identity(&self) -> LlmIdentity {
        let version = Digest::of(self.texts.join("\n").as_bytes()).to_string();
        LlmIdentity { provider: "case".into(), model: "replies".into(), version }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(text) = self.texts.get(position) else {
            return Err(ModelError::Unavailable(format!(
                "the case has {} replies, and this is one request more",
                self.texts.len()
            )));
        };
        let message = Message::text(Role::Assistant, Origin::Policy, text.clone());
        let ignored = IgnoredRequest::without_sampling(request);
        Ok(ModelResponse { ignored, ..ModelResponse::new(message, Usage::default(), "stop") })
    }
}
