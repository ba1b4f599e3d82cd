//! A built-in policy that never found anything to act on. Its run looks like a result and measures nothing.

use async_trait::async_trait;
use clawhost_core::{DeltaSink, Llm, LlmIdentity, ModelError, ModelRequest, ModelResponse};
use clawhost_follower::{NO_INSTRUCTION, NOTHING_LISTED};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Answers of the policy, and those that said that there was nothing to act on.
#[derive(Debug, Default)]
pub(crate) struct IdleTally {
    answers: AtomicU64,
    idle: AtomicU64,
}

impl IdleTally {
    /// The number of answers, if there was nothing to act on in any of them.
    pub(crate) fn all_idle(&self) -> Option<u64> {
        let (answers, idle) = (self.answers.load(Ordering::Relaxed), self.idle.load(Ordering::Relaxed));
        Some(answers).filter(|answers| *answers > 0 && *answers == idle)
    }

    fn add(&self, response: &ModelResponse, idle_answer: &str) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        let is_idle = response.message.tool_calls.is_empty() && response.message.plain_text() == idle_answer;
        self.idle.fetch_add(u64::from(is_idle), Ordering::Relaxed);
    }
}

/// A built-in policy whose idle answers are counted.
struct Counted {
    model: Arc<dyn Llm>,
    idle_answer: &'static str,
    tally: Arc<IdleTally>,
}

/// Counts the idle answers of a built-in policy. Any other model is returned as it is.
pub(crate) fn counted(spec: &str, model: Arc<dyn Llm>, tally: &Arc<IdleTally>) -> Arc<dyn Llm> {
    let idle_answer = match spec {
        "follower" => NO_INSTRUCTION,
        "random" => NOTHING_LISTED,
        _ => return model,
    };
    Arc::new(Counted { model, idle_answer, tally: tally.clone() })
}

#[async_trait]
impl Llm for Counted {
    fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let response = self.model.complete(request).await?;
        self.tally.add(&response, self.idle_answer);
        Ok(response)
    }

    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let response = self.model.stream(request, sink).await?;
        self.tally.add(&response, self.idle_answer);
        Ok(response)
    }
}
