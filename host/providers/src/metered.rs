//! Budgets: a run's spending in tokens and money is limited by the operator.

use async_trait::async_trait;
use clawhost_core::{DeltaSink, Llm, LlmIdentity, Meter, ModelDelta, ModelError, ModelRequest, ModelResponse, Usage};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Prices in the operator's currency per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Price of prompt tokens.
    pub input: f64,
    /// Price of answer tokens.
    pub output: f64,
}

/// Limits of spending; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Prompt and answer tokens together.
    pub tokens: Option<u64>,
    /// Money, if prices are known.
    pub cost: Option<f64>,
}

/// Spending so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spending {
    /// Tokens used.
    pub usage: Usage,
    /// Number of answered calls.
    pub calls: u64,
    /// Money; 0 if prices are unknown.
    pub cost: f64,
}

impl Spending {
    /// Adds tokens at these prices.
    pub fn add(&mut self, usage: Usage, prices: Option<Prices>) {
        self.usage += usage;
        if let Some(prices) = prices {
            let (read, written) = (usage.prompt_tokens as f64, usage.completion_tokens as f64);
            self.cost += (read * prices.input + written * prices.output) / 1e6;
        }
    }
}

/// The spending of all models of a run, for its records.
#[derive(Debug, Clone)]
pub struct Ledger(pub Arc<Mutex<Spending>>);

impl Meter for Ledger {
    fn spent(&self) -> Usage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).usage
    }
}

/// A model with a budget. Calls in flight when the budget is exhausted are still paid for: at most as many as run
/// concurrently.
pub struct Metered {
    model: Arc<dyn Llm>,
    budget: Budget,
    prices: Option<Prices>,
    spent: Arc<Mutex<Spending>>,
}

impl std::fmt::Debug for Metered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metered").field("model", &self.model.identity()).field("budget", &self.budget).finish()
    }
}

impl Metered {
    /// Wraps a model with a budget. The models of a run share `spent`.
    pub fn new(model: Arc<dyn Llm>, budget: Budget, prices: Option<Prices>, spent: Arc<Mutex<Spending>>) -> Self {
        Self { model, budget, prices, spent }
    }

    fn check(&self) -> Result<(), ModelError> {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = spent.usage.prompt_tokens.saturating_add(spent.usage.completion_tokens);
        if let Some(limit) = self.budget.tokens.filter(|limit| tokens >= *limit) {
            return Err(ModelError::Budget(format!("{tokens} of {limit} tokens")));
        }
        if let Some(limit) = self.budget.cost.filter(|limit| spent.cost >= *limit) {
            return Err(ModelError::Budget(format!("{:.4} of {limit} spent", spent.cost)));
        }
        Ok(())
    }
}

#[async_trait]
impl Llm for Metered {
    fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.check()?;
        let response = self.model.complete(request).await?;
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.add(response.usage, self.prices);
        spent.calls += 1;
        Ok(response)
    }

    /// An answer that is interrupted, or not read to its end, costs the usage that the endpoint reported until then. Some
    /// endpoints report it only at the end.
    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        self.check()?;
        let mut bill = Bill { sink, reported: Usage::default(), metered: self };
        let response = self.model.stream(request, &mut bill).await?;
        bill.reported = response.usage;
        drop(bill);
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).calls += 1;
        Ok(response)
    }
}

/// Tracks the usage of a stream, and charges it when dropped, because the stream's future may be dropped.
struct Bill<'a> {
    sink: &'a mut dyn DeltaSink,
    reported: Usage,
    metered: &'a Metered,
}

impl DeltaSink for Bill<'_> {
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        if let ModelDelta::Usage(usage) = &delta {
            self.reported = *usage;
        }
        self.sink.delta(delta)
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let mut spent = self.metered.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.add(self.reported, self.metered.prices);
    }
}
