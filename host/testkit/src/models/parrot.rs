//! A model whose answer is its seed.

use async_trait::async_trait;
use clawhost_core::{Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, Usage};
use std::sync::Mutex;

/// Answers with the seed of the request. Keeps all requests as text.
#[derive(Default)]
pub struct Parrot(Mutex<Vec<String>>);

impl Parrot {
    /// The requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl Llm for Parrot {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: "parrot".into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.0.lock().unwrap().push(serde_json::to_string(request).unwrap());
        tokio::task::yield_now().await;
        let message = Message::text(Role::Assistant, Origin::Policy, format!("seed {:?}", request.seed));
        let usage = Usage { prompt_tokens: 3, ..Usage::default() };
        Ok(ModelResponse::new(message, usage, "stop"))
    }
}
