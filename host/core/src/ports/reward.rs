//! Rewards: what judges recorded episodes.

use crate::{About, Context, Episode, Failure, Grants, JournalEntry, PluginIdentity, Verdict};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What a verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardScope {
    /// On its episode alone.
    Each,
    /// On the whole group.
    Group,
}

/// Where a judgement comes from, the most reliable first: of several sources the first that has something to say decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardSource {
    /// A person said so.
    User,
    /// What was reached: the state of the world, a gold answer, tests that pass.
    #[default]
    Outcome,
    /// What was seen on the way: tool results, the form of answers.
    Execution,
    /// The opinion of a model.
    Judge,
}

impl RewardSource {
    /// All of them, the most reliable first.
    pub const ALL: [Self; 4] = [Self::User, Self::Outcome, Self::Execution, Self::Judge];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Outcome => "outcome",
            Self::Execution => "execution",
            Self::Judge => "judge",
        }
    }
}

/// What a reward is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardDescription {
    /// For people.
    pub about: About,
    /// Least value, -1 or more.
    pub minimum: f64,
    /// Greatest value, 1 or less.
    pub maximum: f64,
    /// Where its judgement comes from.
    pub source: RewardSource,
    /// What a verdict depends on.
    pub scope: RewardScope,
}

/// What came of asking a reward.
#[derive(Debug, Clone, PartialEq)]
pub struct Scoring {
    /// One verdict per episode, in order. A failure of the call fails every verdict.
    pub verdicts: Result<Vec<Verdict>, Failure>,
    /// What the reward logged.
    pub log: Vec<String>,
    /// Answers of models, kept so that the verdicts can be replayed.
    pub journal: Vec<JournalEntry>,
}

/// Judges recorded episodes.
#[async_trait]
pub trait Reward: Send + Sync {
    /// Which plugin this is.
    fn identity(&self) -> &PluginIdentity;
    /// What it is.
    fn description(&self) -> &RewardDescription;
    /// The model it may ask, where one was granted.
    fn judge(&self) -> Option<String>;
    /// What it is allowed beyond computing and logging.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Judges these episodes together, in an instance of its own.
    async fn score(&self, context: &Context, group: &[std::sync::Arc<Episode>]) -> Scoring;
    /// Judges them as it did before: what it asked a model then is answered from the journal.
    async fn score_again(
        &self,
        context: &Context,
        group: &[std::sync::Arc<Episode>],
        journal: std::sync::Arc<[JournalEntry]>,
    ) -> Scoring {
        // A reward that asked nobody needs no answers.
        let _ = journal;
        self.score(context, group).await
    }
}
