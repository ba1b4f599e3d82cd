//! Whoever shows how it is done: answers with what the environment says a demonstrator would, in the model's own tokens.
//!
//! An environment that demonstrates puts the attribute `demonstration` on what it observes. Played like any policy, its
//! demonstrations are real episodes: the environment answers them, rewards judge them, and what is imitated is exactly what the
//! model would have written.

use crate::service::LocalModel;
use async_trait::async_trait;
use clawhost_core::{Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse};
use std::sync::Arc;

/// The attribute of an observation that says what to answer.
pub const DEMONSTRATION: &str = "demonstration";

/// Answers in the place of a model.
#[derive(Debug)]
pub struct Demonstrator(Arc<LocalModel>);

impl Demonstrator {
    /// In the place of this model.
    pub fn new(model: Arc<LocalModel>) -> Self {
        Self(model)
    }
}

fn demonstration(messages: &[Message]) -> Option<&str> {
    let told = messages.last()?.extra.iter().find(|(name, _)| name == DEMONSTRATION);
    told.map(|(_, answer)| answer.as_str())
}

#[async_trait]
impl Llm for Demonstrator {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "demonstrator".into(), ..self.0.identity() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let answer = demonstration(&request.messages).ok_or_else(|| {
            let why = "the observation has no attribute `demonstration`; is the environment told to demonstrate (env-guess: `demonstrate=clumsy`)?";
            ModelError::Refused(why.to_owned())
        })?;
        Ok(self.0.said(request, answer)?)
    }
}
