//! A reward with a fixed behaviour: a value, a failure, or not applicable.

use crate::identity::{about, identity};
use async_trait::async_trait;
use clawhost_core::{
    Context, Episode, Failure, FailureKind, PluginIdentity, Reward, RewardDescription, RewardScope, RewardSource,
    ScoreCard, Scoring, Verdict, code,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

enum Manner {
    Fixed(f64),
    BySeed,
    Share,
    Broken,
    /// Fails until the flag is set, then gives this value.
    Down(Arc<AtomicBool>, f64),
    /// Fails because the budget is spent.
    Spent,
    /// Is not applicable.
    Silent,
}

/// A reward with a fixed behaviour.
pub struct Judge {
    /// Number of calls.
    pub asked: Arc<AtomicU64>,
    identity: PluginIdentity,
    description: RewardDescription,
    manner: Manner,
}

impl Judge {
    fn new(name: &str, manner: Manner) -> Self {
        let description = RewardDescription {
            about: about(name),
            minimum: 0.0,
            maximum: 1.0,
            source: RewardSource::Outcome,
            scope: RewardScope::Each,
        };
        Self { asked: Arc::default(), identity: identity(name), description, manner }
    }

    /// Gives this value for every episode.
    pub fn giving(value: f64) -> Self {
        Self::new("fixed", Manner::Fixed(value))
    }

    /// Gives 0 or 1, depending on the policy's seed.
    pub fn by_seed() -> Self {
        Self::new("by-seed", Manner::BySeed)
    }

    /// Fails until `mended` is set, then gives this value.
    pub fn down(mended: Arc<AtomicBool>, value: f64) -> Self {
        Self::new("down", Manner::Down(mended, value))
    }

    /// Judges whole groups. Each episode gets 1 divided by the size of its group.
    pub fn of_groups() -> Self {
        let mut judge = Self::new("of-groups", Manner::Share);
        judge.description.scope = RewardScope::Group;
        judge
    }

    /// Sets the source.
    #[must_use]
    pub fn from(mut self, source: RewardSource) -> Self {
        self.description.source = source;
        self
    }

    /// Sets the name, and with it the digest.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.identity = identity(name);
        self
    }

    /// Fails because the budget is spent.
    pub fn spent() -> Self {
        Self::new("spent", Manner::Spent)
    }

    /// A reward with this name that is never applicable.
    pub fn silent(name: &str) -> Self {
        Self::new(name, Manner::Silent)
    }

    /// Always fails.
    pub fn broken() -> Self {
        Self::new("broken", Manner::Broken)
    }
}

#[async_trait]
impl Reward for Judge {
    fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    fn description(&self) -> &RewardDescription {
        &self.description
    }

    fn judge(&self) -> Option<String> {
        None
    }

    async fn score(&self, _: &Context, group: &[Arc<Episode>]) -> Scoring {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let card = |value| Verdict::Scored(ScoreCard::plain(value));
        let verdicts = match self.manner {
            Manner::Fixed(value) => Ok(group.iter().map(|_| card(value)).collect()),
            Manner::BySeed => Ok(group.iter().map(|episode| card((episode.policy.seed % 2) as f64)).collect()),
            Manner::Share => Ok(group.iter().map(|_| card(1.0 / group.len() as f64)).collect()),
            Manner::Down(ref mended, value) if mended.load(Ordering::Relaxed) => {
                Ok(group.iter().map(|_| card(value)).collect())
            }
            Manner::Down(..) => Err(Failure::new(FailureKind::Llm, code::UNAVAILABLE, "the judge is down")),
            Manner::Silent => Ok(group.iter().map(|_| Verdict::NotApplicable("no opinion".into())).collect()),
            Manner::Spent => Err(Failure::new(FailureKind::Llm, code::BUDGET, "the budget is spent: 10 of 10 tokens")),
            Manner::Broken => Err(Failure::new(FailureKind::Trap, code::UNREACHABLE, "broken in `score`")),
        };
        Scoring { verdicts, log: vec![], journal: vec![], fuel: None }
    }
}
