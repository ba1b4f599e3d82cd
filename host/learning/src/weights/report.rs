//! What weights report of an iteration, and of the run.

use super::{Best, WarmStartReport};
use clawhost_learn::policy::{Suspicion, Watched};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Statistics of an iteration's training episodes. Shares are over groups as they were played.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RolloutMeasures {
    /// Estimated probability that one of k tries has the best possible reward, by k.
    pub pass_at: BTreeMap<u64, f64>,
    /// Share of groups without reward variance; `None` if no group has two scored members.
    pub zero_variance_share: Option<f64>,
    /// Number of groups played as replacements.
    pub refilled_groups: u64,
    /// Number of tasks skipped by the difficulty filter; `None` without a filter.
    pub tasks_passed_over: Option<u64>,
    /// Mean of each reward as a share of its range, by name; empty if there is only one.
    #[serde(default)]
    pub rewards: BTreeMap<String, f64>,
    /// Mean share of repeated n-grams in the answers of an episode; `None` if all answers are too short.
    #[serde(default)]
    pub repetition: Option<f64>,
}

/// Weights details of an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightsIteration {
    /// Statistics of the training episodes.
    pub rollout: RolloutMeasures,
    /// Warning that rewards carry no signal, with the remedy.
    pub signal: Option<String>,
    /// Warning that the reward fell, with the remedy.
    #[serde(default)]
    pub fall: Option<String>,
    /// Signs of reward hacking.
    #[serde(default)]
    pub suspicions: Vec<Suspicion>,
    /// Mean reward of the validation tasks, if they were played.
    pub validation: Option<f64>,
}

/// The subject of a warning. A warning is repeated only if an iteration without it came between.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WarningSubject {
    /// Rewards carry no signal.
    Signal,
    /// The reward fell.
    Fall,
    /// This moved against the reward.
    Hacking(Watched),
}

impl WeightsIteration {
    /// The warnings of the iteration, as text.
    pub fn warnings(&self) -> Vec<(WarningSubject, String)> {
        let signal = self.signal.iter().map(|why| (WarningSubject::Signal, why.clone()));
        let fall = self.fall.iter().map(|why| (WarningSubject::Fall, why.clone()));
        let suspicions =
            self.suspicions.iter().map(|one| (WarningSubject::Hacking(one.watched.clone()), one.to_string()));
        signal.chain(fall).chain(suspicions).collect()
    }
}

/// Report of the weights.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WeightsReport {
    /// Report of the warm start, if one was planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<WarmStartReport>,
    /// Mean validation reward of the starting weights: before the first reward, after demonstrations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
    /// Mean reward of the last validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<f64>,
    /// The best weights by validation reward, if validation took place. The starting weights are among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
}
