//! Budgets: a run's spending in tokens and money ends where the operator says.

use async_trait::async_trait;
use clawhost_core::{DeltaSink, Llm, LlmIdentity, Meter, ModelDelta, ModelError, ModelRequest, ModelResponse, Usage};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Prices in the operator's currency per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Tokens read.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
}

/// What may be spent. None: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Tokens read and written, together.
    pub tokens: Option<u64>,
    /// Money, where prices are known.
    pub cost: Option<f64>,
}

/// What has been spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spending {
    /// Tokens.
    pub usage: Usage,
    /// Calls answered.
    pub calls: u64,
    /// Money; 0 where prices are unknown.
    pub cost: f64,
}

impl Spending {
    /// Adds tokens at their price.
    pub fn add(&mut self, usage: Usage, prices: Option<Prices>) {
        self.usage += usage;
        if let Some(prices) = prices {
            let (read, written) = (usage.prompt_tokens as f64, usage.completion_tokens as f64);
            self.cost += (read * prices.input + written * prices.output) / 1e6;
        }
    }
}

/// The account that the models of a run share, for its records.
#[derive(Debug, Clone)]
pub struct Ledger(pub Arc<Mutex<Spending>>);

impl Meter for Ledger {
    fn spent(&self) -> Usage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).usage
    }
}

/// A model with a budget around it. Calls in flight when the budget runs out are still paid for: at most as many as run
/// at once.
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
    /// A budget around a model. Several models of a run share `spent`.
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

    /// An answer that breaks off, or that nobody reads to its end, costs what the endpoint told until then. Some endpoints tell it
    /// at the end alone.
    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        self.check()?;
        let mut bill = Bill { sink, told: Usage::default(), metered: self };
        let response = self.model.stream(request, &mut bill).await?;
        bill.told = response.usage;
        drop(bill);
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).calls += 1;
        Ok(response)
    }
}

/// Notes what a stream costs, and charges it when the stream is over, in whatever way: its future may be dropped.
struct Bill<'a> {
    sink: &'a mut dyn DeltaSink,
    told: Usage,
    metered: &'a Metered,
}

impl DeltaSink for Bill<'_> {
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        if let ModelDelta::Usage(usage) = &delta {
            self.told = *usage;
        }
        self.sink.delta(delta)
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let mut spent = self.metered.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.add(self.told, self.metered.prices);
    }
}
