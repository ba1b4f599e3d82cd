//! The door before guests: whatever a model answers passes it before the loop and the plugins see it.

use crate::passing::{Passing, scrubbed};
use async_trait::async_trait;
use clawhost_core::{
    DeltaSink, KnownSecrets, Llm, LlmIdentity, ModelDelta, ModelError, ModelRequest, ModelResponse, Secrets,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A model whose answers and errors have no key of this process in any text.
///
/// An endpoint scrubs its own key already; here the keys of all endpoints are scrubbed, from every field.
pub struct Guarded {
    model: Arc<dyn Llm>,
    known: KnownSecrets,
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").field("model", &self.model.identity()).finish()
    }
}

impl Guarded {
    /// Guards a model. `known` are the keys of the process; keys that are added later are scrubbed too.
    pub fn new(model: Arc<dyn Llm>, known: KnownSecrets) -> Self {
        Self { model, known }
    }
}

fn clean(secrets: &Secrets, answered: Result<ModelResponse, ModelError>) -> Result<ModelResponse, ModelError> {
    match answered {
        Ok(response) => scrubbed(secrets, response),
        Err(error) => {
            Err(secrets.scrub_all(error).unwrap_or_else(|kept| ModelError::InvalidResponse(kept.to_string())))
        }
    }
}

#[async_trait]
impl Llm for Guarded {
    fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let answered = self.model.complete(request).await;
        clean(&self.known.secrets(), answered)
    }

    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let secrets = self.known.secrets();
        if secrets.is_empty() {
            return self.model.stream(request, sink).await;
        }
        let mut door = Door { passing: Passing::new(sink, secrets.clone()), is_stopped: false };
        let answered = self.model.stream(request, &mut door).await;
        // What was held back is no key: the answer is over.
        if answered.is_ok() && !door.is_stopped && door.passing.end().is_break() {
            return Err(ModelError::Stopped);
        }
        clean(&secrets, answered)
    }
}

/// Passes deltas on without keys.
struct Door<'a> {
    passing: Passing<'a>,
    is_stopped: bool,
}

impl DeltaSink for Door<'_> {
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        let passed = self.passing.delta(delta);
        self.is_stopped |= passed.is_break();
        passed
    }
}
