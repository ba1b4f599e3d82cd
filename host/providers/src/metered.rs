//! Budgets: a run's spending in tokens and money is limited by the operator.

use crate::EndpointTeacher;
use async_trait::async_trait;
use clawhost_core::{
    DeltaSink, IgnoredRequest, Llm, LlmIdentity, Meter, ModelDelta, ModelError, ModelRequest, ModelResponse,
    TaughtToken, Teacher, Usage, estimated_tokens,
};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

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
    /// The cost of tokens in millionths of the currency, rounded up: a whole number, so that sums are exact.
    pub fn micros(self, usage: Usage) -> u64 {
        // Millionths for a million tokens are whole for every price that providers name.
        let price = |per_million: f64| (per_million * 1e6).round() as u128;
        let sum = u128::from(usage.prompt_tokens) * price(self.input)
            + u128::from(usage.completion_tokens) * price(self.output);
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    /// The cost of tokens, in the currency of the prices.
    pub fn of(self, usage: Usage) -> f64 {
        (usage.prompt_tokens as f64 * self.input + usage.completion_tokens as f64 * self.output) / 1e6
    }
}

/// What models spend together.
#[derive(Debug, Default)]
pub struct Account {
    spending: Mutex<Spending>,
    /// A request has ended, so others may fit into the budget.
    ended: Notify,
}

impl Account {
    /// The spending so far.
    pub fn spent(&self) -> Spending {
        *self.spending()
    }

    /// Adds tokens that were paid for before.
    pub fn add(&self, usage: Usage, prices: Option<Prices>) {
        self.spending().add(usage, prices);
    }

    fn spending(&self) -> MutexGuard<'_, Spending> {
        self.spending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The spending of all models of a run, for its records.
#[derive(Debug, Clone)]
pub struct Ledger(pub Arc<Account>);

impl Meter for Ledger {
    fn spent(&self) -> Usage {
        self.0.spent().usage
    }
}

/// A model with a budget.
///
/// A request in flight counts by an estimate of what it reads, at least one token, until its answer says what it costs. A request
/// that does not fit beside those in flight waits for them. So the budget can be exceeded by the answers in flight, and by nothing
/// else.
pub struct Metered {
    model: Arc<dyn Llm>,
    meter: Metering,
}

/// A teacher with a budget, in the same way.
#[derive(Debug)]
pub struct MeteredTeacher {
    teacher: EndpointTeacher,
    meter: Metering,
}

/// A budget, and what is spent of it.
#[derive(Debug)]
struct Metering {
    budget: Budget,
    prices: Option<Prices>,
    account: Arc<Account>,
}

impl std::fmt::Debug for Metered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metered").field("model", &self.model.identity()).field("budget", &self.meter.budget).finish()
    }
}

impl Metered {
    /// Wraps a model with a budget. Models that share an account share the budget.
    pub fn new(model: Arc<dyn Llm>, budget: Budget, prices: Option<Prices>, account: Arc<Account>) -> Self {
        Self { model, meter: Metering { budget, prices, account } }
    }
}

impl Metering {
    /// Whether the budget allows a request with so many tokens in flight.
    fn allows(&self, spent: &Spending, in_flight: u64) -> Result<(), ModelError> {
        let tokens = spent.usage.tokens().saturating_add(in_flight);
        if let Some(limit) = self.budget.tokens.filter(|limit| tokens >= *limit) {
            return Err(ModelError::Budget(format!("{tokens} of {limit} tokens")));
        }
        let reading = Usage { prompt_tokens: in_flight, ..Usage::default() };
        let cost = spent.cost + self.prices.map_or(0.0, |prices| prices.of(reading));
        if let Some(limit) = self.budget.cost.filter(|limit| cost >= *limit) {
            return Err(ModelError::Budget(format!("{cost:.4} of {limit} spent")));
        }
        Ok(())
    }

    /// Counts a request that reads so many tokens as in flight as soon as the budget allows it.
    async fn admit(&self, prompt_tokens: u64) -> Result<Bill<'_>, ModelError> {
        let read = Usage { prompt_tokens, ..Usage::default() };
        loop {
            let mut ended = std::pin::pin!(self.account.ended.notified());
            // From here on no end is missed.
            ended.as_mut().enable();
            {
                let mut spent = self.account.spending();
                self.allows(&spent, 0)?;
                if self.allows(&spent, spent.in_flight).is_ok() {
                    spent.in_flight = spent.in_flight.saturating_add(read.tokens());
                    let (account, prices, reported) = (&*self.account, self.prices, Usage::default());
                    return Ok(Bill { account, prices, read, reported, written: 0, is_paid: false });
                }
            }
            ended.await;
        }
    }
}

#[async_trait]
impl Llm for Metered {
    fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut bill = self.meter.admit(estimated_tokens(request.bytes())).await?;
        let answered = self.model.complete(request).await;
        match &answered {
            Ok(response) => bill.pay(response),
            Err(error) => bill.failed(error),
        }
        answered
    }

    /// An answer that is interrupted, or not read to its end, costs the usage that the endpoint reported until then. Some
    /// endpoints report it only at the end: then what was read and written so far is estimated.
    async fn stream(&self, request: &ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        let mut bill = self.meter.admit(estimated_tokens(request.bytes())).await?;
        let answered = self.model.stream(request, &mut Counting { sink, bill: &mut bill }).await;
        match &answered {
            Ok(response) => bill.pay(response),
            Err(error) => bill.failed(error),
        }
        answered
    }
}

impl MeteredTeacher {
    /// Wraps a teacher with a budget. Models that share an account share the budget.
    pub fn new(teacher: EndpointTeacher, budget: Budget, prices: Option<Prices>, account: Arc<Account>) -> Self {
        Self { teacher, meter: Metering { budget, prices, account } }
    }

    /// Compares the texts of some tokens with those of the model that learns, and asks once for so many likely tokens.
    ///
    /// # Errors
    /// Those of the check, or the budget is spent.
    pub async fn check(&self, likely: u8) -> Result<(), ModelError> {
        let probe = self.teacher.probe();
        let requests = 1 + usize::from(likely > 0);
        self.paid(probe.len() * requests, self.teacher.check(&probe, likely)).await
    }

    /// Pays for reading so many tokens, which is all that scoring them costs.
    async fn paid<T>(
        &self,
        tokens: usize,
        answer: impl Future<Output = Result<T, ModelError>>,
    ) -> Result<T, ModelError> {
        let mut bill = self.meter.admit(tokens as u64).await?;
        let answered = answer.await;
        match &answered {
            Ok(_) => bill.settle(bill.read, false),
            Err(error) => bill.failed(error),
        }
        answered
    }
}

#[async_trait]
impl Teacher for MeteredTeacher {
    async fn teach(&self, tokens: &[u32], temperature: f32, likely: u8) -> Result<Vec<TaughtToken>, ModelError> {
        self.paid(tokens.len(), self.teacher.teach(tokens, temperature, likely)).await
    }
}

/// What one request costs. Charged when it is dropped, because the future of a request may be dropped.
struct Bill<'a> {
    account: &'a Account,
    prices: Option<Prices>,
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
        self.settle(response.usage, response.ignored.contains(&IgnoredRequest::Usage));
    }

    fn settle(&mut self, usage: Usage, is_estimated: bool) {
        self.is_paid = true;
        let mut spent = self.account.spending();
        spent.add(usage, self.prices);
        spent.calls += 1;
        spent.estimated += u64::from(is_estimated);
    }

    /// The answer cannot be used. The endpoint may have worked for it, so what it read is charged if nothing is known.
    fn failed(&mut self, error: &ModelError) {
        let may_have_worked = matches!(error, ModelError::InvalidResponse(_) | ModelError::Unavailable(_));
        self.written = self.written.max(usize::from(may_have_worked));
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
        let mut spent = self.account.spending();
        spent.in_flight = spent.in_flight.saturating_sub(self.read.tokens());
        if !self.is_paid {
            spent.add(self.interrupted(), self.prices);
        }
        drop(spent);
        self.account.ended.notify_waiters();
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
            ModelDelta::Text(text) | ModelDelta::Reasoning(text) => self.bill.written += text.len(),
            ModelDelta::ToolCall { arguments, .. } => self.bill.written += arguments.len(),
            ModelDelta::Logprobs(_) => {}
        }
        self.sink.delta(delta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_counted_in_whole_millionths_rounded_up() {
        let check = |input: f64, output: f64, tokens: (u64, u64), expect: u64| {
            let usage = Usage { prompt_tokens: tokens.0, completion_tokens: tokens.1, ..Usage::default() };
            assert_eq!(Prices { input, output }.micros(usage), expect, "{input} {output} {tokens:?}");
        };
        check(3.0, 15.0, (10, 2), 60);
        check(0.1, 0.4, (1, 0), 1);
        check(0.1, 0.4, (10, 0), 1);
        check(0.1, 0.4, (11, 0), 2);
        check(0.0, 0.0, (u64::MAX, u64::MAX), 0);
    }
}
