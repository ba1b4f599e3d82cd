//! A live session, and the scale of its reward.

use super::propensity::Propensity;
use crate::{DRAWN_ENTRIES, EntryId, LearnError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most features of a session. A prediction costs the cube of their number.
pub const MOST_FEATURES: usize = 16;
/// Largest size of a feature. The regression's penalty is for features of about 1; sums of much larger squares lose the others to rounding.
pub const LARGEST_FEATURE: f64 = 1e3;

/// The scale of rewards: the smallest and the largest reward that can occur, within -1 to 1. It is part of the estimate, because how much a
/// biased sample can mislead depends on it ([`super::OddsRatio`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// 0 to 1.
    Unit,
    /// -1 to 1.
    Signed,
}

impl Scale {
    /// The smallest reward.
    pub fn low(self) -> f64 {
        match self {
            Self::Unit => 0.0,
            Self::Signed => -1.0,
        }
    }

    /// The largest reward minus the smallest one.
    pub fn range(self) -> f64 {
        match self {
            Self::Unit => 1.0,
            Self::Signed => 2.0,
        }
    }

    /// The reward in the middle.
    pub(super) fn middle(self) -> f64 {
        self.low() + self.range() / 2.0
    }

    /// Whether a reward is on the scale.
    pub fn contains(self, reward: f64) -> bool {
        (self.low()..=1.0).contains(&reward)
    }
}

/// What was drawn for an entry in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryDraw {
    /// The entry. It passed retrieval and fitted the budget, decided before the draw.
    pub entry: EntryId,
    /// Whether the session was shown it.
    pub shown: bool,
    /// The probability of being shown it.
    pub propensity: Propensity,
}

/// A session for which entries were drawn, with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawnSession {
    /// The user, as a number that stands for no one: a digest of the name, for example. Sessions of one user are not independent.
    pub user: u64,
    /// Class of the task, known before the draw.
    pub class: String,
    /// What was known before the draw: equally many numbers in every session, at most [`MOST_FEATURES`], each of about 1 in size and at most
    /// [`LARGEST_FEATURE`]. Where entries are drawn per user, nothing that happened after the user's first session may be in here.
    pub features: Vec<f64>,
    /// The entries that were drawn for, each once, at most [`DRAWN_ENTRIES`], independently of each other.
    pub draws: Vec<EntryDraw>,
    /// The reward; `None` if there was no feedback by its deadline.
    pub reward: Option<f64>,
}

/// What a session says, apart from its draws.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) user: u64,
    pub(super) class: &'a str,
    pub(super) features: &'a [f64],
    pub(super) reward: Option<f64>,
}

impl Observed<'_> {
    /// Checks features and reward.
    pub(super) fn check(&self, features: usize, scale: Scale) -> Result<(), LearnError> {
        let wrong = |what: String| Err(LearnError::Live(what));
        if self.features.len() != features {
            return wrong(format!("a session has {} features, the others {features}", self.features.len()));
        }
        let usable = |value: &f64| value.abs() <= LARGEST_FEATURE;
        if let Some(value) = self.features.iter().find(|value| !usable(value)) {
            return wrong(format!("a feature is {value}; features are numbers of at most {LARGEST_FEATURE} in size"));
        }
        match self.reward {
            Some(reward) if !scale.contains(reward) => {
                wrong(format!("a reward is {reward}; rewards are from {} to 1", scale.low()))
            }
            _ => Ok(()),
        }
    }
}

impl DrawnSession {
    pub(super) fn observed(&self) -> Observed<'_> {
        Observed { user: self.user, class: &self.class, features: &self.features, reward: self.reward }
    }

    /// Checks the draws.
    pub(super) fn check_draws(&self) -> Result<(), LearnError> {
        let entries: BTreeSet<&EntryId> = self.draws.iter().map(|draw| &draw.entry).collect();
        match self.draws.len() {
            count if count > DRAWN_ENTRIES => {
                Err(LearnError::Live(format!("a session has {count} draws; it has at most {DRAWN_ENTRIES}")))
            }
            count if count > entries.len() => Err(LearnError::Live("a session has two draws of one entry".into())),
            _ => Ok(()),
        }
    }
}
