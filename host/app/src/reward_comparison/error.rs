//! Why two judges cannot be compared.

use super::RewardComparison;
use clawhost_core::{Hint, counted};

/// Two judges cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComparisonError {
    /// Another number of rewards than one.
    #[error("{given} rewards are given; one reward is compared with one other judge")]
    OneReward {
        /// How many.
        given: usize,
    },
    /// Both judges are one component with equal options.
    #[error(
        "both rewards are {reward}, the same component with equal options: they agree in everything; change an option, or name another reward"
    )]
    SameReward {
        /// The reward.
        reward: String,
    },
    /// No episode has a score of both.
    #[error("no episode has a score of both: of {}, {a} scored {scored_a} and {b} scored {scored_b}{}", counted(*episodes, "complete episode"), because(failure.as_deref()))]
    NothingInCommon {
        /// The first judge.
        a: String,
        /// The second judge.
        b: String,
        /// Complete episodes.
        episodes: u64,
        /// Those with a score of the first judge.
        scored_a: u64,
        /// Those with a score of the second judge.
        scored_b: u64,
        /// The first failure.
        failure: Option<String>,
    },
}

fn because(failure: Option<&str>) -> String {
    failure
        .map(|failure| format!("; it failed first with: {}", clawhost_core::escaped(failure, 500)))
        .unwrap_or_default()
}

impl ComparisonError {
    pub(super) fn nothing_in_common(compared: &RewardComparison) -> Self {
        let coverage = &compared.agreement.coverage;
        let failure =
            compared.runs.iter().flat_map(|run| &run.report.rewards).find_map(|reward| reward.failure.clone());
        Self::NothingInCommon {
            a: compared.a.judge.name().to_owned(),
            b: compared.b.judge.name().to_owned(),
            episodes: coverage.both + coverage.only_a + coverage.only_b + coverage.neither,
            scored_a: coverage.answers.a.scored,
            scored_b: coverage.answers.b.scored,
            failure,
        }
    }

    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OneReward { .. } => "one_reward",
            Self::SameReward { .. } => "same_reward",
            Self::NothingInCommon { .. } => "nothing_in_common",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::NothingInCommon { .. } => {
                vec![Hint::command("runs list", "shows the runs: name some that both can judge")]
            }
            Self::OneReward { .. } | Self::SameReward { .. } => Vec::new(),
        }
    }
}
