//! A local model as a teacher that computes on the thread that asks.

use crate::LocalModel;
use async_trait::async_trait;
use clawhost_core::{ModelError, TaughtToken, Teacher};
use std::sync::Arc;

/// Scores given tokens on the thread that asks, with the threads of its pool ([`crate::generate::Engine::score_here`]).
#[derive(Debug, Clone)]
pub struct LocalTeacher(Arc<LocalModel>);

impl LocalTeacher {
    /// The model as it is at the time of each call.
    pub fn new(model: Arc<LocalModel>) -> Self {
        Self(model)
    }
}

#[async_trait]
impl Teacher for LocalTeacher {
    async fn teach(&self, tokens: &[u32], temperature: f32, likely: u8) -> Result<Vec<TaughtToken>, ModelError> {
        let scores = self.0.engine().score_here(tokens, temperature, likely.into())?;
        Ok(scores.into_iter().map(|one| TaughtToken { logprob: one.logprob, likely: one.alternatives }).collect())
    }
}
