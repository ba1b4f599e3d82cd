//! Budgets: a run's spending in tokens and money is limited by the operator.

use async_trait::async_trait;
use clawhost_core::{
    DeltaSink, IgnoredRequest, Llm, LlmIdentity, Meter, ModelDelta, ModelError, ModelRequest, ModelResponse, Usage,
    estimated_tokens,
};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Calls whose endpoint reported no usage, so that it was estimated.
    pub estimated: u64,
    /// Money; 0 if prices are unknown.
    pub cost: f64,
    /// Estimated tokens that the requests in flight read. They count until their answers say what they cost.
    in_flight: u64,
}

impl Spending {
    /// Adds tokens at these prices.
    pub fn add(&mut self, usage: Usage, prices: Option<Prices>) {
        self.usage += usage;
        self.cost += prices.map_or(0.0, |prices| prices.of(usage));
    }
}

impl Prices {
    /// The cost of tokens.
    fn of(self, usage: Usage) -> f64 {
        (usage.prompt_tokens as f64 * self.input + usage.completion_tokens as f64 * self.output) / 1e6
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

/// A model with a budget. A request in flight counts by an estimate of what it reads, at least one token, until its answer says
/// what it costs. So the budget can be exceeded by the answers in flight, and by nothing else.
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

    fn spent(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a request if the budget is not spent, and counts it as in flight.
    fn admit(&self, request: &ModelRequest) -> Result<Bill<'_>, ModelError> {
        let reading = |prompt_tokens| Usage { prompt_tokens, ..Usage::default() };
        let read = reading(estimated_tokens(request.bytes()));
        let mut spent = self.spent();
        let tokens = spent.usage.tokens().saturating_add(spent.in_flight);
        if let Some(limit) = self.budget.tokens.filter(|limit| tokens >= *limit) {
            return Err(ModelError::Budget(format!("{tokens} of {limit} tokens")));
        }
        let cost = spent.cost + self.prices.map_or(0.0, |prices| prices.of(reading(spent.in_flight)));
        if let Some(limit) = self.budget.cost.filter(|limit| cost >= *limit) {
            return Err(ModelError::Budget(format!("{cost:.4} of {limit} spent")));
        }
        spent.in_flight = spent.in_flight.saturating_add(read.tokens());
        Ok(Bill { metered: self, read, reported: Usage::default(), written: 0, is_paid: false })
    }
}

#[async_trait]
impl Llm for Metered {
    fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut bill = self.admit(request)?;
        let response = self.model.complete(request).await?;
        bill.pay(&response);
        Ok(response)
    }

    /// An answer that is interrupted, or not read to its end, costs the usage that the endpoint reported until then. Some
    /// endpoints report it only at the end: then what was read and written so far is estimated.
    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let mut bill = self.admit(request)?;
        let response = self.model.stream(request, &mut Counting { sink, bill: &mut bill }).await?;
        bill.pay(&response);
        Ok(response)
    }
}

/// What one request costs. Charged when it is dropped, because the future of a request may be dropped.
struct Bill<'a> {
    metered: &'a Metered,
    /// An estimate of what the model reads.
    read: Usage,
    /// What the endpoint reported so far.
    reported: Usage,
    /// Bytes of the answer so far.
    written: usize,
    is_paid: bool,
}

impl Bill<'_> {
    /// The answer is complete.
    fn pay(&mut self, response: &ModelResponse) {
        self.is_paid = true;
        let mut spent = self.metered.spent();
        spent.add(response.usage, self.metered.prices);
        spent.calls += 1;
        spent.estimated += u64::from(response.ignored.contains(&IgnoredRequest::Usage));
    }

    /// The cost of an answer that is not complete.
    fn interrupted(&self) -> Usage {
        match (self.reported.tokens(), self.written) {
            (0, 0) => Usage::default(),
            (0, written) => Usage { completion_tokens: estimated_tokens(written), ..self.read },
            _ => self.reported,
        }
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let mut spent = self.metered.spent();
        spent.in_flight = spent.in_flight.saturating_sub(self.read.tokens());
        if !self.is_paid {
            spent.add(self.interrupted(), self.metered.prices);
        }
    }
}

/// Counts what of an answer has come.
struct Counting<'a, 'b> {
    sink: &'a mut dyn DeltaSink,
    bill: &'a mut Bill<'b>,
}

impl DeltaSink for Counting<'_, '_> {
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        match &delta {
            ModelDelta::Usage(usage) => self.bill.reported = *usage,
            ModelDelta::Text(text) => self.bill.written += text.len(),
            ModelDelta::ToolCall { arguments, .. } => self.bill.written += arguments.len(),
            ModelDelta::Logprobs(_) => {}
        }
        self.sink.delta(delta)
    }
}
