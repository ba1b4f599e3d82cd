//! The demonstrator: answers with the environment's demonstrations, in the model's own tokens.
//!
//! An environment that demonstrates sets the attribute `demonstration` on its observations. The demonstrator is played
//! like any policy, so demonstrations are real episodes: the environment answers them, rewards judge them, and the
//! model learns to imitate exactly the tokens that it would have written.

use crate::service::LocalModel;
use async_trait::async_trait;
use clawhost_core::{Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse};
use std::sync::Arc;

/// The attribute of an observation with the demonstrated answer.
pub const DEMONSTRATION: &str = "demonstration";

/// A policy that answers in place of a model.
#[derive(Debug)]
pub struct Demonstrator(Arc<LocalModel>);

impl Demonstrator {
    /// A demonstrator in place of this model.
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
            let why = "the observation has no attribute `demonstration`; does the environment demonstrate (env-guess: `demonstrate=clumsy`)?";
            ModelError::Refused(why.to_owned())
        })?;
        Ok(self.0.demonstrated(request, answer)?)
    }
}
