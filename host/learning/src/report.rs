//! Reports of a learning run.

use crate::harness::{EvolutionReport, GateReport, Reflections};
use crate::parts::{PartEvaluation, PartReward};
use crate::weights::{RolloutMeasures, WeightsIteration, WeightsReport};
use clawhost_core::{Digest, Usage};
use clawhost_learn::budget::BudgetPlan;
use clawhost_learn::gate::Decision;
use clawhost_learn::harness::{Counts, EntryRow};
use clawhost_learn::{LayerOutcome, Measurements};
use clawhost_play::{FailureCount, Interval, StopReason, TriesMeasure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Mean {
    /// Mean over tasks, clustered by task; `None` for fewer than two tasks.
    pub(crate) fn of(values: BTreeMap<String, Vec<f64>>) -> Option<Self> {
        let groups: Vec<Vec<f64>> = values.into_values().collect();
        match clawhost_play::mean_interval(&groups) {
            (Some(mean), Some(Interval { low, high })) => Some(Self { mean, low, high }),
            _ => None,
        }
    }

    /// With the interval limited to the range of rewards.
    pub(crate) fn within(self, range: Option<(f64, f64)>) -> Self {
        self.with(self.interval().within(range))
    }

    /// With the interval widened by [`Interval::widened`].
    pub(crate) fn widened(self, pairs: u64) -> Self {
        self.with(self.interval().widened(self.mean, pairs))
    }

    fn interval(self) -> Interval {
        Interval { low: self.low, high: self.high }
    }

    fn with(self, Interval { low, high }: Interval) -> Self {
        Self { mean: self.mean, low, high }
    }
}

/// Pairs of which a member has no score, by the member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Only the first member (before).
    pub before: u64,
    /// Only the second member (after).
    pub after: u64,
    /// Both members.
    pub both: u64,
}

impl Missing {
    pub(crate) fn add(&mut self, before: bool, after: bool) {
        match (before, after) {
            (true, true) => self.both += 1,
            (true, false) => self.before += 1,
            (false, _) => self.after += 1,
        }
    }

    /// All pairs of which a member has no score.
    pub fn all(&self) -> u64 {
        self.before + self.after + self.both
    }

    /// Whether one side lacks more scores than the other by more than three standard errors. Then the remaining pairs are
    /// biased: a side that fails where it would lose seems to win.
    pub fn is_lopsided(&self) -> bool {
        let (before, after) = (self.before as f64, self.after as f64);
        (before - after).abs() > 3.0 * (before + after).sqrt()
    }

    /// Whether the second side lacks more.
    pub fn second_fails_more(&self) -> bool {
        self.after > self.before && self.is_lopsided()
    }
}

/// Harness details of an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HarnessIteration {
    /// Number of proposals.
    pub proposals: u64,
    /// The calls of reflectors for them.
    pub reflections: Reflections,
    /// The gate's report, if a session took place.
    pub gate: Option<GateReport>,
}

/// Details that are specific to a layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerDetails {
    /// No details.
    #[default]
    None,
    /// The harness: a playbook of lessons.
    Harness(Box<HarnessIteration>),
    /// The weights of a model.
    Weights(Box<WeightsIteration>),
}

/// One layer in an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerIteration {
    /// Name of the layer.
    pub layer: String,
    /// Its measurements.
    pub measurements: Measurements,
    /// Notable events, as text.
    pub events: Vec<String>,
    /// Details specific to the layer.
    pub details: LayerDetails,
}

impl LayerIteration {
    /// The outcome of the transaction for a layer, without details. A measurement that is not finite becomes an event,
    /// because JSON cannot represent it as a number.
    pub fn of(layer: &str, outcome: LayerOutcome) -> Self {
        let (measured, mut events) = match outcome {
            LayerOutcome::Stepped(forward, step) => {
                let mut measured = forward.metrics;
                measured.merge(step.metrics);
                (measured, step.events)
            }
            LayerOutcome::LeftOut(why) => (Measurements::default(), vec![why.to_string()]),
            LayerOutcome::RolledBack => Default::default(),
        };
        let odd = measured.iter().filter(|(_, value)| !value.is_finite());
        events.extend(odd.map(|(metric, value)| format!("{} is {value}", metric.name())));
        let measurements = measured.iter().filter(|(_, value)| value.is_finite()).collect();
        Self { layer: layer.to_owned(), measurements, events, details: LayerDetails::None }
    }
}

/// Report of one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IterationReport {
    /// Number of the iteration, from 1.
    pub iteration: u64,
    /// Mean reward of its training episodes as they were played; `None` if none was scored.
    pub reward: Option<f64>,
    /// The same by part of a mixture; empty: there is one environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartReward>,
    /// Scored episodes in the batch.
    pub episodes: u64,
    /// Failed and unscored episodes.
    pub removed: u64,
    /// Episodes whose verdicts were revised after recording.
    pub revised: u64,
    /// `Ok` if a layer learned from the batch, otherwise the reason.
    pub learned: Result<(), String>,
    /// Every layer, in order.
    pub layers: Vec<LayerIteration>,
    /// Digest of the layers' state after the iteration.
    pub state: Digest,
    /// Model usage so far.
    pub usage: Usage,
}

impl IterationReport {
    /// The harness part, if the harness learns.
    pub fn harness(&self) -> Option<(&LayerIteration, &HarnessIteration)> {
        self.layers.iter().find_map(|layer| match &layer.details {
            LayerDetails::Harness(details) => Some((layer, details.as_ref())),
            _ => None,
        })
    }

    /// The weights part, if weights learn.
    pub fn weights(&self) -> Option<(&LayerIteration, &WeightsIteration)> {
        self.layers.iter().find_map(|layer| match &layer.details {
            LayerDetails::Weights(details) => Some((layer, details.as_ref())),
            _ => None,
        })
    }

    /// The gate's report, if a session took place.
    pub fn gate(&self) -> Option<&GateReport> {
        self.harness().and_then(|(_, harness)| harness.gate.as_ref())
    }

    /// All numbers by their names in files and charts: `LAYER.NAME`, and statistics of training and validation episodes.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut named = BTreeMap::new();
        for layer in &self.layers {
            let measured = layer.measurements.iter();
            named.extend(measured.map(|(metric, value)| (format!("{}.{}", layer.layer, metric.name()), value)));
        }
        let of_part = |one: &PartReward| Some((format!("train.reward.{}", one.part), one.reward?));
        named.extend(self.parts.iter().filter_map(of_part));
        if let Some((_, weights)) = self.weights() {
            let RolloutMeasures { pass_at, zero_variance_share, refilled_groups, tasks_passed_over, .. } =
                &weights.rollout;
            let RolloutMeasures { rewards, repetition, .. } = &weights.rollout;
            named.extend(rewards.iter().map(|(name, share)| (format!("train.reward.{name}"), *share)));
            named.extend(repetition.map(|share| ("train.repetition".to_owned(), share)));
            named.insert("train.suspicions".to_owned(), weights.suspicions.len() as f64);
            named.extend(pass_at.iter().map(|(k, value)| (format!("train.pass@{k}"), *value)));
            named.extend(zero_variance_share.map(|share| ("train.zero_variance_share".to_owned(), share)));
            named.insert("train.refilled_groups".to_owned(), *refilled_groups as f64);
            named.extend(tasks_passed_over.map(|tasks| ("train.tasks_passed_over".to_owned(), tasks as f64)));
            named.extend(weights.validation.map(|reward| ("val.reward".to_owned(), reward)));
        }
        named
    }

    /// As a JSON document without usage, which differs after an interruption.
    pub fn published(&self) -> serde_json::Value {
        let mut document = serde_json::json!({
            "iteration": self.iteration, "reward": self.reward, "episodes": self.episodes, "removed": self.removed, "revised": self.revised,
            "learned": self.learned, "metrics": self.metrics(), "state": self.state,
            "events": self.layers.iter().flat_map(|layer| &layer.events).collect::<Vec<_>>(),
        });
        if let Some(document) = document.as_object_mut() {
            if !self.parts.is_empty() {
                document.insert("parts".to_owned(), serde_json::json!(self.parts));
            }
            if let Some((_, harness)) = self.harness() {
                document.insert("proposals".to_owned(), harness.proposals.into());
                document.insert("reflections".to_owned(), serde_json::json!(harness.reflections));
                document.insert("gate".to_owned(), serde_json::json!(harness.gate));
            }
            if let Some((_, weights)) = self.weights() {
                document.insert("signal".to_owned(), serde_json::json!(weights.signal));
                document.insert("fall".to_owned(), serde_json::json!(weights.fall));
                document.insert("suspicions".to_owned(), serde_json::json!(weights.suspicions));
            }
        }
        document
    }
}

/// Rewards of some layers together, compared with the configuration in which no layer has learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmReport {
    /// The layers in their current state; the others act in their state before the first reward.
    pub layers: Vec<String>,
    /// Mean reward.
    pub mean: Option<Mean>,
    /// Mean difference from the configuration in which no layer has learned, over tasks.
    pub lift: Option<Mean>,
    /// Mean difference of all layers together from this arm, over tasks.
    #[serde(default)]
    pub behind: Option<Mean>,
    /// Pairs of the two that could not be compared.
    pub missing: Missing,
}

/// What a layer contributes to the reward, on the test tasks. The arms are a full factorial design: each set of layers plays every task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerEffect {
    /// The layer.
    pub layer: String,
    /// Mean difference with and without the layer, over all sets of the other layers: the main effect.
    pub mean: Option<Mean>,
    /// Mean difference of all layers from all others.
    pub added_last: Option<Mean>,
    /// The verdict on the main effect.
    pub outcome: Outcome,
}

/// Before and after, on tasks that neither trained nor decided anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The split, and which half of it.
    pub split: String,
    /// Number of scored pairs.
    pub pairs: u64,
    /// Number of different tasks among them.
    pub tasks: u64,
    /// Test tasks that earlier runs of the playbook had tested, because the split has no others.
    #[serde(default)]
    pub reused: u64,
    /// Pairs that were not scored.
    pub missing: Missing,
    /// Mean reward before learning.
    pub before: Option<Mean>,
    /// Mean reward after learning.
    pub after: Option<Mean>,
    /// Mean difference, pair by pair.
    pub lift: Option<Mean>,
    /// The parts of a mixture, in order; empty: there is one environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartEvaluation>,
    /// Every set of layers, on the same tasks with the same seeds. Empty if only one layer learns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<ArmReport>,
    /// What each layer contributes. Empty if only one layer learns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<LayerEffect>,
    /// What several tries of each side give. `None`: each side plays a task and seed once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<SideTries>,
}

/// What several tries of each side give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideTries {
    /// Before.
    pub before: Vec<TriesMeasure>,
    /// After.
    pub after: Vec<TriesMeasure>,
}

/// Numbers of played episodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedEpisodes {
    /// In training, with those that failed.
    pub train: u64,
    /// In the gate, two for each pair.
    pub gate: u64,
    /// In the test, which decides nothing.
    pub test: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The interval of the test lift is above 0.
    Improved,
    /// The interval of the test lift contains 0.
    NoSignificantChange,
    /// The interval of the test lift is below 0.
    Worse,
    /// Too few scored pairs for a conclusion.
    NotMeasured,
}

impl Outcome {
    /// What a mean difference shows by its interval.
    pub(crate) fn of(difference: Option<&Mean>) -> Self {
        match difference {
            Some(mean) if mean.low > 0.0 => Self::Improved,
            Some(mean) if mean.high < 0.0 => Self::Worse,
            Some(_) => Self::NoSignificantChange,
            None => Self::NotMeasured,
        }
    }

    /// As text.
    pub fn words(self) -> &'static str {
        match self {
            Self::Improved => "improved",
            Self::NoSignificantChange => "no significant change",
            Self::Worse => "worse",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Evaluation {
    /// The result.
    pub fn outcome(&self) -> Outcome {
        match self.missing.is_lopsided() {
            true => Outcome::NotMeasured,
            false => Outcome::of(self.lift.as_ref()),
        }
    }
}

/// Report of the harness.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HarnessReport {
    /// Name of the playbook.
    pub name: String,
    /// All entries.
    pub entries: Vec<EntryRow>,
    /// Counts of proposals.
    pub proposals: Counts,
    /// Calls of reflectors.
    pub reflections: Reflections,
    /// Report of the evolution, if one was planned.
    pub evolution: Option<EvolutionReport>,
    /// The division of the budget, if the run has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetPlan>,
    /// What training and gate cost, in the unit of the run's allowance. `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<f64>,
    /// Digest of the deployed playbook.
    pub playbook: Digest,
}

impl HarnessReport {
    /// Whether an evolved section passed the gate.
    pub fn evolved(&self) -> bool {
        let gate = self.evolution.as_ref().and_then(|evolution| evolution.gate.as_ref());
        gate.is_some_and(|gate| gate.decision == Decision::Promote)
    }
}

/// Report of a layer.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerReport {
    /// The harness.
    Harness(Box<HarnessReport>),
    /// The weights of a model.
    Weights(Box<WeightsReport>),
    /// Another layer, by name.
    Other(String),
}

impl LayerReport {
    fn name(&self) -> &str {
        match self {
            Self::Harness(_) => "harness",
            Self::Weights(_) => "weights",
            Self::Other(name) => name,
        }
    }
}

/// Report of a learning run. Equal plans give equal reports.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnReport {
    /// The result.
    pub outcome: Outcome,
    /// The evaluation, if it was planned and completed.
    pub evaluation: Option<Evaluation>,
    /// All iterations.
    pub iterations: Vec<IterationReport>,
    /// Iterations of the plan that are done, with those that a turn did without.
    pub reached: u64,
    /// Number of iterations in which a layer learned.
    pub learned: u64,
    /// All layers, in order.
    pub layers: Vec<LayerReport>,
    /// Why the run ended early.
    pub stopped: Option<StopReason>,
    /// Failures of the phase that ended it.
    pub failures: Vec<FailureCount>,
    /// Model usage.
    pub usage: Usage,
    /// One digest of the content of all episodes, which equal runs share.
    pub content_root: Digest,
}

impl LearnReport {
    /// The harness part, if the harness learns.
    pub fn harness(&self) -> Option<&HarnessReport> {
        self.layers.iter().find_map(|layer| match layer {
            LayerReport::Harness(report) => Some(report.as_ref()),
            _ => None,
        })
    }

    /// The weights part, if weights learn.
    pub fn weights(&self) -> Option<&WeightsReport> {
        self.layers.iter().find_map(|layer| match layer {
            LayerReport::Weights(report) => Some(report.as_ref()),
            _ => None,
        })
    }

    /// The layers that may have caused the lift. An evolution is listed if its result was deployed.
    pub fn layer_names(&self) -> Vec<String> {
        let evolved = self.harness().is_some_and(HarnessReport::evolved).then(|| "evolution".to_owned());
        self.layers.iter().map(|layer| layer.name().to_owned()).chain(evolved).collect()
    }

    /// The summary in the store.
    pub fn summary(&self) -> serde_json::Value {
        let harness = self.harness();
        serde_json::json!({
            "content_root": self.content_root,
            "outcome": self.outcome, "evaluation": self.evaluation, "learned": self.learned,
            "iterations": self.iterations.len(), "stopped": self.stopped,
            "evolution": harness.and_then(|harness| harness.evolution.as_ref()),
            "playbook": harness.map(|harness| harness.playbook),
            "reflections": harness.map(|harness| &harness.reflections),
            "proposals": harness.map(|harness| &harness.proposals),
            "reward_mean": self.iterations.last().and_then(|last| last.reward),
        })
    }

    /// The numbers of played episodes, by purpose.
    pub fn episodes(&self) -> PlayedEpisodes {
        let train = self.iterations.iter().map(|one| one.episodes + one.removed).sum();
        let gate = self.iterations.iter().filter_map(IterationReport::gate).map(|gate| gate.episodes).sum();
        let test = self.evaluation.as_ref().map_or(0, |evaluation| {
            let Missing { before, after, both } = evaluation.missing;
            // Without arms of their own, there is one before and one after.
            let arms = 1 + evaluation.arms.len().max(1) as u64;
            (evaluation.pairs + before + after + both) * arms
        });
        PlayedEpisodes { train, gate, test }
    }

    /// As a JSON document without usage, which differs after an interruption.
    pub fn published(&self) -> serde_json::Value {
        let mut document = serde_json::json!({
            "content_root": self.content_root,
            "outcome": self.outcome, "evaluation": self.evaluation, "learned": self.learned,
            "iterations": self.iterations.iter().map(IterationReport::published).collect::<Vec<_>>(),
            "layers": self.layer_names(), "stopped": self.stopped, "failures": self.failures,
        });
        if let Some(document) = document.as_object_mut() {
            let parts =
                [self.harness().map(|one| serde_json::json!(one)), self.weights().map(|one| serde_json::json!(one))];
            for part in parts.into_iter().flatten() {
                if let serde_json::Value::Object(part) = part {
                    document.extend(part.into_iter().filter(|(name, _)| name != "name"));
                }
            }
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(before: u64, after: u64) -> Missing {
        Missing { before, after, both: 50 }
    }

    #[test]
    fn missing_scores_are_lopsided_beyond_three_standard_errors() {
        for (before, after, lopsided) in [(0, 0, false), (0, 9, false), (0, 10, true), (10, 0, true), (40, 60, false)] {
            assert_eq!(missing(before, after).is_lopsided(), lopsided, "{before} {after}");
            assert_eq!(missing(before, after).second_fails_more(), lopsided && after > before);
        }
    }

    #[test]
    fn intervals_are_clustered_by_task_and_never_degenerate() {
        let alike = |tasks: u64, times: usize| {
            Mean::of((0..tasks).map(|task| (task.to_string(), vec![f64::from((task % 2) as u32); times])).collect())
        };
        assert_eq!(alike(1, 100), None, "one task has no variance");
        let width = |mean: Option<Mean>| mean.map_or(f64::NAN, |mean| mean.high - mean.low);
        assert!((width(alike(8, 1)) - width(alike(8, 50))).abs() < 1e-12, "repetitions of a task add no precision");
        let sure = Mean { mean: 1.0, low: 1.0, high: 1.0 };
        assert!(sure.widened(3).low < 0.0, "three pairs are too few");
        assert!(sure.widened(200).low > 0.9);
    }

    #[test]
    fn intervals_are_limited_to_the_reward_range() {
        let mean = Mean { mean: 0.9, low: 0.75, high: 1.05 };
        assert_eq!(mean.within(Some((0.0, 1.0))), Mean { high: 1.0, ..mean });
        assert_eq!(mean.within(Some((0.8, 2.0))), Mean { low: 0.8, ..mean });
        assert_eq!(mean.within(None), mean);
    }

    #[test]
    fn lopsided_failures_are_not_measured() {
        let mean = Some(Mean { mean: 0.5, low: 0.4, high: 0.6 });
        let found = |missing| Evaluation {
            split: "test".into(),
            parts: Vec::new(),
            pairs: 100,
            tasks: 100,
            missing,
            before: mean,
            after: mean,
            lift: mean,
            arms: Vec::new(),
            effects: Vec::new(),
            reused: 0,
            tries: None,
        };
        assert_eq!(found(missing(1, 2)).outcome(), Outcome::Improved);
        assert_eq!(found(missing(0, 30)).outcome(), Outcome::NotMeasured);
    }
}
