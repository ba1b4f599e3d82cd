//! The record of a decision, and its outcome. Together they are the log that routers learn from and are evaluated by.

use super::features::Features;
use super::likeness::{REQUEST_BUCKETS, WORD_BUCKETS};
use super::plugin::AskedPlugin;
use super::settings::RewardRange;
use super::table::{ACTIONS, Action};
use crate::LearnError;
use clawhost_core::{Digest, PROPENSITY_ROUNDING};
use serde::{Deserialize, Serialize};

/// Version of the record.
pub const DECISION_FORMAT: u32 = 1;
/// Most units of use in one outcome: more is a mistake of measuring.
const MOST_UNITS: f64 = 1e9;

/// An action that could have been chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The action.
    #[serde(flatten)]
    pub action: Action,
    /// Its probability, 0 to 1.
    pub propensity: f64,
}

/// One decision, made at the start of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// [`DECISION_FORMAT`].
    pub format: u32,
    /// The session.
    pub session: String,
    /// Seconds of the caller's clock.
    pub time: u64,
    /// Version of the router that decided.
    pub version: u64,
    /// Identity of its parameters ([`super::Router::identity`], or [`super::Router::identity_with`] a plugin).
    pub parameters: Digest,
    /// What it knew about the request.
    pub features: Features,
    /// Buckets of the request's words, for [`super::Likeness`]; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<u16>,
    /// All actions with their propensities.
    pub choices: Vec<Choice>,
    /// Index of the chosen one.
    pub chosen: usize,
    /// The plugin that was asked. `None`: the router itself decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<AskedPlugin>,
}

impl Decision {
    /// The chosen action.
    ///
    /// # Errors
    /// See [`Decision::check`]: a record that was read may be of another format, or damaged.
    pub fn action(&self) -> Result<&Action, LearnError> {
        self.check().map(|choice| &choice.action)
    }

    /// Checks a record; returns the chosen action and its propensity.
    ///
    /// # Errors
    /// Another format, features that are not finite, or propensities that are none.
    pub fn check(&self) -> Result<&Choice, LearnError> {
        if self.format != DECISION_FORMAT {
            return Err(LearnError::DecisionFormat { found: self.format, expected: DECISION_FORMAT });
        }
        let refuse = |what: &str| LearnError::Router(format!("the decision of session {}: {what}", self.session));
        self.features.check()?;
        if self.words.len() > REQUEST_BUCKETS || self.words.iter().any(|bucket| *bucket >= WORD_BUCKETS) {
            return Err(refuse("word buckets out of range"));
        }
        if self.choices.len() > ACTIONS {
            return Err(refuse("too many actions"));
        }
        let sum: f64 = self.choices.iter().map(|choice| choice.propensity).sum();
        let in_range = self.choices.iter().all(|choice| (0.0..=1.0).contains(&choice.propensity));
        if !in_range || (sum - 1.0).abs() > PROPENSITY_ROUNDING {
            return Err(refuse("propensities that do not add up to 1"));
        }
        let chosen = self.choices.get(self.chosen).filter(|choice| choice.propensity > 0.0);
        chosen.ok_or_else(|| refuse("a chosen action that could not be chosen"))
    }
}

/// What came of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Reward of the session, after its escalation if there was one.
    pub reward: f64,
    /// Units used of the first and of the second model; the second is 0 if nothing was escalated.
    pub units: [f64; 2],
}

impl Outcome {
    pub(super) fn check(&self, rewards: RewardRange) -> Result<(), LearnError> {
        let RewardRange { low, high } = rewards;
        if !(low..=high).contains(&self.reward) {
            return Err(LearnError::Router(format!("a reward of {}; this router's are {low} to {high}", self.reward)));
        }
        match self.units.into_iter().find(|units| !(0.0..=MOST_UNITS).contains(units)) {
            Some(odd) => Err(LearnError::Router(format!("{odd} units of use; 0 to {MOST_UNITS}"))),
            None => Ok(()),
        }
    }
}

/// A decision with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logged {
    /// The decision.
    pub decision: Decision,
    /// Its outcome.
    pub outcome: Outcome,
}
