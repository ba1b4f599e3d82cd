//! The reward port: scores recorded episodes.

use crate::{About, Context, Episode, Failure, Grants, JournalEntry, PluginIdentity, Verdict};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What a verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardScope {
    /// A single episode.
    Each,
    /// The whole group.
    Group,
}

/// Source of a judgement, most reliable first: the first source with a result decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardSource {
    /// A person.
    User,
    /// The result: state of the world, reference answer, passing tests.
    #[default]
    Outcome,
    /// Observations on the way: tool results, format of answers.
    Execution,
    /// The opinion of a model.
    Judge,
}

impl RewardSource {
    /// All sources, most reliable first.
    pub const ALL: [Self; 4] = [Self::User, Self::Outcome, Self::Execution, Self::Judge];

    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Outcome => "outcome",
            Self::Execution => "execution",
            Self::Judge => "judge",
        }
    }
}

/// Description of a reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardDescription {
    /// For people.
    pub about: About,
    /// Smallest value, -1 or more.
    pub minimum: f64,
    /// Largest value, 1 or less.
    pub maximum: f64,
    /// Source of its judgement.
    pub source: RewardSource,
    /// Scope of its verdicts.
    pub scope: RewardScope,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Scoring {
    /// One verdict per episode, in order. A failure of the call fails every verdict.
    pub verdicts: Result<Vec<Verdict>, Failure>,
    /// Log lines.
    pub log: Vec<String>,
    /// Model answers to the reward, for replays.
    pub journal: Vec<JournalEntry>,
    /// Fuel of the call, the start of its instance included. `None`: the reward is no component, or did not end in time.
    pub fuel: Option<u64>,
}

/// Scores recorded episodes.
#[async_trait]
pub trait Reward: Send + Sync {
    /// Identity of the plugin.
    fn identity(&self) -> &PluginIdentity;
    /// Description.
    fn description(&self) -> &RewardDescription;
    /// The model that it may use, if one was granted.
    fn judge(&self) -> Option<String>;
    /// Its grants.
    fn grants(&self) -> Grants {
        Grants::default()
    }
    /// Scores these episodes together, in a new instance.
    async fn score(&self, context: &Context, group: &[std::sync::Arc<Episode>]) -> Scoring;
    /// Scores them again, with model answers from the journal.
    async fn score_again(
        &self,
        context: &Context,
        group: &[std::sync::Arc<Episode>],
        journal: std::sync::Arc<[JournalEntry]>,
    ) -> Scoring {
        // A reward without model calls needs no journal.
        let _ = journal;
        self.score(context, group).await
    }
}
