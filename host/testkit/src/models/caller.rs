//! A model that calls tools.

use async_trait::async_trait;
use clawhost_core::{Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Role, Usage};
use std::sync::Mutex;

/// Gives prepared answers, one per turn, and then repeats the last one. Keeps its requests.
pub struct Caller {
    /// The answers.
    pub says: Vec<Message>,
    /// The requests, in order.
    pub asked: Mutex<Vec<ModelRequest>>,
}

#[async_trait]
impl Llm for Caller {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "fake".into(), model: "caller".into(), version: "1".into() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let turn = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        self.asked.lock().unwrap().push(request.clone());
        let message = self.says[turn.min(self.says.len() - 1)].clone();
        Ok(ModelResponse::new(message, Usage::default(), "tool_calls"))
    }
}
