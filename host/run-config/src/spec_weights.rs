//! The settings of the weights layer.

use crate::folder::is_endpoint;
use clawhost_core::{Attributes, Digest};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The settings of the weights layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsSpec {
    /// The loss.
    pub objective: String,
    /// The teacher, for distillation alone: a folder, or an endpoint ([`WeightsSpec::teacher_endpoint`]).
    #[serde(default)]
    pub teacher: Option<String>,
    /// Most likely tokens of the teacher that are compared at every position. 0: the drawn token alone.
    #[serde(default)]
    pub teacher_top: u8,
    /// What answers are credited with.
    #[serde(default)]
    pub credit: CreditUnit,
    /// Weight of what turns are credited with, beside that of their episode.
    #[serde(default = "full_weight")]
    pub credit_weight: f64,
    /// Passes over the episodes of an iteration.
    pub epochs: u32,
    /// Most steps of a pass.
    pub minibatches: u32,
    /// Highest learning rate.
    pub rate: f64,
    /// Steps until the rate is at its highest.
    pub warmup: u64,
    /// The optimiser.
    pub optimizer: Optimizer,
    /// The adapter that learns. `None`: all weights learn.
    pub adapter: Option<AdapterSpec>,
    /// The treatment of truncated episodes.
    pub truncated: Truncated,
    /// Weight of the divergence from the initial model.
    pub kl: f64,
    /// Attempts per iteration to replace groups without reward variance.
    pub refills: u32,
    /// Whether tasks are skipped whose groups are all correct or all wrong.
    pub difficulty_filter: bool,
    /// Iterations between two evaluations on validation tasks. 0: none.
    pub evaluate_every: u64,
    /// Episodes of such an evaluation.
    pub evaluate_episodes: u64,
    /// Options under which the environment demonstrates, sorted. Empty: no demonstrations.
    pub demonstrations: Attributes,
    /// Mean reward at which demonstrations end.
    pub demonstrations_until: f64,
    /// Largest number of steps of demonstrations.
    pub demonstrations_steps: u64,
    /// Episodes per iteration that are written as text.
    pub completions: u32,
    /// The output folder. `None`: in the data folder.
    pub out: Option<String>,
    /// The digest of the initial weights. The program sets it when the model is opened.
    #[serde(default)]
    pub before: Option<Digest>,
}

impl WeightsSpec {
    /// The teacher, if it is asked over the network: `openai:MODEL@ADDRESS`.
    pub fn teacher_endpoint(&self) -> Option<&str> {
        self.teacher.as_deref().filter(|teacher| is_endpoint(teacher))
    }
}

/// What answers are credited with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CreditUnit {
    /// The reward of their episode.
    #[default]
    Episode,
    /// Besides, what followed their turn.
    Turn,
    /// Besides, what rewards say of their turn.
    Judge,
}

/// The weight in documents that have none.
fn full_weight() -> f64 {
    1.0
}

impl CreditUnit {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Episode => "episode",
            Self::Turn => "turn",
            Self::Judge => "judge",
        }
    }
}

/// The optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Muon for the matrices inside the blocks, AdamW for the other weights.
    Muon,
    /// AdamW for all weights.
    AdamW,
}

impl Optimizer {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Muon => "muon",
            Self::AdamW => "adamw",
        }
    }
}

/// An adapter (LoRA).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterSpec {
    /// Its rank.
    pub rank: u32,
    /// Its output is scaled by alpha / rank.
    pub alpha: f64,
    /// Projections that have an adapter, in the order of a block. Empty: all seven.
    pub targets: Vec<String>,
}

/// The treatment of truncated episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Truncated {
    /// They count like others.
    Keep,
    /// They are left out of learning.
    Mask,
    /// Their reward is reduced by this value, 0 to 2.
    Penalty(f64),
}

impl Truncated {
    /// The expectation in a message.
    pub(crate) const EXPECTED: &str = "keep, mask, or penalty=P with P from 0 to 2";
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Mask => f.write_str("mask"),
            Self::Penalty(penalty) => write!(f, "penalty={penalty}"),
        }
    }
}

impl FromStr for Truncated {
    /// The expected format.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("penalty=").map(str::parse::<f64>)) {
            ("keep", _) => Ok(Self::Keep),
            ("mask", _) => Ok(Self::Mask),
            (_, Some(Ok(penalty))) if (0.0..=2.0).contains(&penalty) => Ok(Self::Penalty(penalty)),
            _ => Err(Self::EXPECTED),
        }
    }
}

impl From<Truncated> for String {
    fn from(truncated: Truncated) -> Self {
        truncated.to_string()
    }
}

impl TryFrom<String> for Truncated {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_episodes_are_kept_masked_or_penalised() {
        let check = |text: &str, expect: Option<Truncated>| assert_eq!(text.parse().ok(), expect, "{text}");
        check("keep", Some(Truncated::Keep));
        check("mask", Some(Truncated::Mask));
        check("penalty=0.5", Some(Truncated::Penalty(0.5)));
        check("penalty=2", Some(Truncated::Penalty(2.0)));
        for odd in ["penalty=-1", "penalty=2.1", "penalty=NaN", "penalty", "drop", ""] {
            check(odd, None);
        }
    }
}
