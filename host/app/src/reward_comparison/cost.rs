//! What judging costs. Verdicts have records of the answers of models, with tokens. Time and fuel are not recorded, so they are those of
//! the calls that were made now.

use crate::compare::money;
use async_trait::async_trait;
use clawhost_core::{
    Context, Digest, Episode, Grants, JournalEntry, PluginIdentity, Reward, RewardDescription, RewardRecord, Scoring,
    Usage,
};
use clawhost_run_config::Price;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a judge cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct JudgeCost {
    /// Verdicts that were compared or counted, those that existed included.
    pub verdicts: u64,
    /// Calls that gave them: one for each verdict, or one for each group.
    pub calls: u64,
    /// Requests to models in these calls.
    pub requests: u64,
    /// Tokens that models read.
    pub prompt_tokens: u64,
    /// Tokens that models generated.
    pub completion_tokens: u64,
    /// Their price. `None`: no price is known.
    pub money: Option<f64>,
    /// The calls that were made now. `None`: every verdict existed, or nothing is asked.
    pub measured: Option<MeasuredCalls>,
}

/// Calls of a reward that were measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredCalls {
    /// Their number.
    pub calls: u64,
    /// Their time in seconds, the waiting for models and for other calls included. Calls overlap.
    pub seconds: f64,
    /// Their fuel. `None`: that of a call is unknown.
    pub fuel: Option<u64>,
}

/// What the verdicts of a judge used.
#[derive(Default)]
pub(super) struct Used {
    verdicts: u64,
    /// Verdicts about one episode alone.
    alone: u64,
    groups: BTreeSet<Digest>,
    requests: u64,
    usage: Usage,
}

impl Used {
    pub(super) fn add(&mut self, record: &RewardRecord) {
        self.verdicts += 1;
        match record.group_digest {
            None => self.alone += 1,
            Some(group) => drop(self.groups.insert(group)),
        }
        for answer in record.journal.iter().filter_map(JournalEntry::answer) {
            self.requests += 1;
            if let Ok(response) = answer {
                self.usage.prompt_tokens += response.usage.prompt_tokens;
                self.usage.completion_tokens += response.usage.completion_tokens;
            }
        }
    }

    pub(super) fn cost(&self, metered: Option<&Arc<Meter>>, price: Option<Price>) -> JudgeCost {
        JudgeCost {
            verdicts: self.verdicts,
            calls: self.alone + self.groups.len() as u64,
            requests: self.requests,
            prompt_tokens: self.usage.prompt_tokens,
            completion_tokens: self.usage.completion_tokens,
            money: money(price, self.usage).filter(|_| self.requests > 0),
            measured: metered.and_then(|meter| meter.read()),
        }
    }
}

/// Adds up the calls of a reward.
#[derive(Default)]
pub(super) struct Meter {
    calls: AtomicU64,
    micros: AtomicU64,
    /// `None`: that of a call was unknown.
    fuel: Mutex<Option<u64>>,
}

impl Meter {
    fn new() -> Self {
        Self { fuel: Mutex::new(Some(0)), ..Self::default() }
    }

    fn add(&self, began: Instant, used: Option<u64>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        let mut fuel = self.fuel.lock().unwrap_or_else(PoisonError::into_inner);
        *fuel = fuel.zip(used).map(|(sum, used)| sum.saturating_add(used));
    }

    fn read(&self) -> Option<MeasuredCalls> {
        let calls = self.calls.load(Ordering::Relaxed);
        let seconds = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        let fuel = *self.fuel.lock().unwrap_or_else(PoisonError::into_inner);
        (calls > 0).then_some(MeasuredCalls { calls, seconds, fuel })
    }
}

/// A reward whose calls are measured.
pub(super) struct Metered {
    reward: Arc<dyn Reward>,
    meter: Arc<Meter>,
}

impl Metered {
    /// The same reward, and what its calls cost.
    pub(super) fn of(reward: Arc<dyn Reward>) -> (Arc<dyn Reward>, Arc<Meter>) {
        let meter = Arc::new(Meter::new());
        (Arc::new(Self { reward, meter: meter.clone() }), meter)
    }
}

#[async_trait]
impl Reward for Metered {
    fn identity(&self) -> &PluginIdentity {
        self.reward.identity()
    }

    fn description(&self) -> &RewardDescription {
        self.reward.description()
    }

    fn judge(&self) -> Option<String> {
        self.reward.judge()
    }

    fn grants(&self) -> Grants {
        self.reward.grants()
    }

    async fn score(&self, context: &Context, group: &[Arc<Episode>]) -> Scoring {
        let began = Instant::now();
        let scoring = self.reward.score(context, group).await;
        self.meter.add(began, scoring.fuel);
        scoring
    }

    async fn score_again(&self, context: &Context, group: &[Arc<Episode>], journal: Arc<[JournalEntry]>) -> Scoring {
        self.reward.score_again(context, group, journal).await
    }
}
