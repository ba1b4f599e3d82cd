//! What a learning run came to.

use crate::harness::{EvolutionReport, GateReport, Reflections};
use crate::weights::{Best, WarmStartReport};
use clawhost_core::{Digest, Usage};
use clawhost_learn::gate::Decision;
use clawhost_learn::harness::{Counts, EntryRow};
use clawhost_learn::{LayerOutcome, Measurements};
use clawhost_play::{FailureCount, Interval, StopReason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Mean {
    /// Of the values of every task; none for fewer than two tasks.
    pub(crate) fn of(values: BTreeMap<String, Vec<f64>>) -> Option<Self> {
        let groups: Vec<Vec<f64>> = values.into_values().collect();
        match clawhost_play::mean_interval(&groups) {
            (Some(mean), Some(Interval { low, high })) => Some(Self { mean, low, high }),
            _ => None,
        }
    }

    /// With an interval that ends where rewards do: no mean lies beyond.
    pub(crate) fn within(self, range: Option<(f64, f64)>) -> Self {
        let Some((least, most)) = range else { return self };
        Self { low: self.low.max(least), high: self.high.min(most), ..self }
    }

    /// Never surer than to within one pair that falls out the other way: differences that happen to be all alike have no variance.
    pub(crate) fn widened(self, pairs: u64) -> Self {
        /// Of a normal distribution: 97.5 %.
        const QUANTILE: f64 = 1.959_964;
        let floor = QUANTILE * 2.0 / pairs.max(1) as f64;
        let wider = |half: f64| (half.powi(2) + floor.powi(2)).sqrt();
        Self {
            mean: self.mean,
            low: self.mean - wider(self.mean - self.low),
            high: self.mean + wider(self.high - self.mean),
        }
    }
}

/// Pairs that could not be compared, by the member that was not scored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The first: as it was.
    pub before: u64,
    /// The second: as it would be.
    pub after: u64,
    /// Both.
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

    /// All of them.
    pub fn all(&self) -> u64 {
        self.before + self.after + self.both
    }

    /// Whether one side lacks more than the other by more than three standard errors: then what is left of the pairs says little,
    /// for whoever fails where it would have lost seems to win.
    pub fn is_lopsided(&self) -> bool {
        let (before, after) = (self.before as f64, self.after as f64);
        (before - after).abs() > 3.0 * (before + after).sqrt()
    }

    /// Whether it is the second that lacks more.
    pub fn second_fails_more(&self) -> bool {
        self.after > self.before && self.is_lopsided()
    }
}

/// How the training episodes of an iteration were spread. Shares are over groups as they came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RolloutMeasures {
    /// The chance that one of k tries earns the best reward there is, by k.
    pub pass_at: BTreeMap<u64, f64>,
    /// Share of comparable groups whose rewards do not differ; none: no group can be compared.
    pub zero_variance_share: Option<f64>,
    /// Groups that were played in the place of others.
    pub refilled_groups: u64,
    /// Tasks that are passed over now; none: no task ever is.
    pub tasks_passed_over: Option<u64>,
}

/// What the harness did in an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HarnessIteration {
    /// Proposals of reflectors.
    pub proposals: u64,
    /// What reflectors were asked for it.
    pub reflections: Reflections,
    /// What the gate said, if it was asked.
    pub gate: Option<GateReport>,
}

/// What weights did in an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightsIteration {
    /// How its episodes were spread.
    pub rollout: RolloutMeasures,
    /// Why rewards carry no signal, and what helps.
    pub signal: Option<String>,
    /// Mean reward of the validation tasks, if they were played.
    pub validation: Option<f64>,
}

/// What is particular to a layer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerDetails {
    /// Nothing beside the measurements.
    #[default]
    None,
    /// A playbook of lessons.
    Harness(Box<HarnessIteration>),
    /// Weights of a model.
    Weights(Box<WeightsIteration>),
}

/// What one layer did in an iteration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerIteration {
    /// The layer.
    pub layer: String,
    /// What it measured.
    pub measurements: Measurements,
    /// What happened, in words.
    pub events: Vec<String>,
    /// What is particular to it.
    pub details: LayerDetails,
}

impl LayerIteration {
    /// What the transaction made of a layer, without what is particular to it. A measurement that is not finite is an event: no
    /// report could hold it as a number.
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

/// What one iteration came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IterationReport {
    /// From 1.
    pub iteration: u64,
    /// Mean reward of its training episodes as they came; none: nothing was scored.
    pub reward: Option<f64>,
    /// Episodes that taught something.
    pub episodes: u64,
    /// Episodes that failed, or were not scored.
    pub removed: u64,
    /// Of its episodes, those whose verdicts were revised after they were recorded.
    pub revised: u64,
    /// Whether its batch was learned from; else why not.
    pub learned: Result<(), String>,
    /// What every layer did, in order.
    pub layers: Vec<LayerIteration>,
    /// Names the state of the layers after it.
    pub state: Digest,
    /// What models have cost so far.
    pub usage: Usage,
}

impl IterationReport {
    /// What the harness did, where it learns.
    pub fn harness(&self) -> Option<(&LayerIteration, &HarnessIteration)> {
        self.layers.iter().find_map(|layer| match &layer.details {
            LayerDetails::Harness(details) => Some((layer, details.as_ref())),
            _ => None,
        })
    }

    /// What weights did, where they learn.
    pub fn weights(&self) -> Option<(&LayerIteration, &WeightsIteration)> {
        self.layers.iter().find_map(|layer| match &layer.details {
            LayerDetails::Weights(details) => Some((layer, details.as_ref())),
            _ => None,
        })
    }

    /// What the gate said, if it was asked.
    pub fn gate(&self) -> Option<&GateReport> {
        self.harness().and_then(|(_, harness)| harness.gate.as_ref())
    }

    /// Every number by a name that files and charts use: `LAYER.NAME`, and what was measured over training and validation
    /// episodes.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut named = BTreeMap::new();
        for layer in &self.layers {
            let measured = layer.measurements.iter();
            named.extend(measured.map(|(metric, value)| (format!("{}.{}", layer.layer, metric.name()), value)));
        }
        if let Some((_, weights)) = self.weights() {
            let RolloutMeasures { pass_at, zero_variance_share, refilled_groups, tasks_passed_over } = &weights.rollout;
            named.extend(pass_at.iter().map(|(k, value)| (format!("train.pass@{k}"), *value)));
            named.extend(zero_variance_share.map(|share| ("train.zero_variance_share".to_owned(), share)));
            named.insert("train.refilled_groups".to_owned(), *refilled_groups as f64);
            named.extend(tasks_passed_over.map(|tasks| ("train.tasks_passed_over".to_owned(), tasks as f64)));
            named.extend(weights.validation.map(|reward| ("val.reward".to_owned(), reward)));
        }
        named
    }

    /// As a document for machines, without what was paid: that differs where a run was interrupted.
    pub fn published(&self) -> serde_json::Value {
        let mut document = serde_json::json!({
            "iteration": self.iteration, "reward": self.reward, "episodes": self.episodes, "removed": self.removed, "revised": self.revised,
            "learned": self.learned, "metrics": self.metrics(), "state": self.state,
            "events": self.layers.iter().flat_map(|layer| &layer.events).collect::<Vec<_>>(),
        });
        if let Some(document) = document.as_object_mut() {
            if let Some((_, harness)) = self.harness() {
                document.insert("proposals".to_owned(), harness.proposals.into());
                document.insert("reflections".to_owned(), serde_json::json!(harness.reflections));
                document.insert("gate".to_owned(), serde_json::json!(harness.gate));
            }
            if let Some((_, weights)) = self.weights() {
                document.insert("signal".to_owned(), serde_json::json!(weights.signal));
            }
        }
        document
    }
}

/// What some layers achieve together, beside the configuration in which none of them has learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmReport {
    /// The layers that act as they are now; the others act as they did before the first reward.
    pub layers: Vec<String>,
    /// Mean reward.
    pub mean: Option<Mean>,
    /// Difference from the configuration in which no layer has learned, task by task.
    pub lift: Option<Mean>,
    /// Pairs of the two that could not be compared.
    pub missing: Missing,
}

/// Before against after, on tasks that neither taught nor decided anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The split, and which half of it.
    pub split: String,
    /// Pairs that were scored.
    pub pairs: u64,
    /// Tasks that they are about.
    pub tasks: u64,
    /// Pairs that were not scored.
    pub missing: Missing,
    /// As it was.
    pub before: Option<Mean>,
    /// As it is now.
    pub after: Option<Mean>,
    /// The difference, pair by pair.
    pub lift: Option<Mean>,
    /// Each layer alone, and all together, on the same tasks with the same seeds. Empty where one layer learns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<ArmReport>,
}

/// In a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The test lift is above 0, with its whole interval.
    Improved,
    /// The interval of the test lift holds 0.
    NoSignificantChange,
    /// It is below 0.
    Worse,
    /// There were not enough scored pairs to say.
    NotMeasured,
}

impl Outcome {
    /// In words.
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
    /// What it says.
    pub fn outcome(&self) -> Outcome {
        match &self.lift {
            _ if self.missing.is_lopsided() => Outcome::NotMeasured,
            Some(lift) if lift.low > 0.0 => Outcome::Improved,
            Some(lift) if lift.high < 0.0 => Outcome::Worse,
            Some(_) => Outcome::NoSignificantChange,
            None => Outcome::NotMeasured,
        }
    }
}

/// What the harness came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HarnessReport {
    /// The playbook's name.
    pub name: String,
    /// Every entry.
    pub entries: Vec<EntryRow>,
    /// What happened to proposals.
    pub proposals: Counts,
    /// What came of asking reflectors.
    pub reflections: Reflections,
    /// What came of evolving a section, where that was asked for.
    pub evolution: Option<EvolutionReport>,
    /// Names what the playbook holds now.
    pub playbook: Digest,
}

impl HarnessReport {
    /// Whether an evolved section passed the gate.
    pub fn evolved(&self) -> bool {
        let gate = self.evolution.as_ref().and_then(|evolution| evolution.gate.as_ref());
        gate.is_some_and(|gate| gate.decision == Decision::Promote)
    }
}

/// What weights came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WeightsReport {
    /// What came of learning from demonstrations first, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<WarmStartReport>,
    /// The best weights, by the validation tasks, where these were played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
}

/// What a layer came to.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerReport {
    /// A playbook of lessons.
    Harness(Box<HarnessReport>),
    /// Weights of a model.
    Weights(Box<WeightsReport>),
    /// Another layer, by its name.
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

/// What a learning run came to. Equal plans give equal reports.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnReport {
    /// In a word.
    pub outcome: Outcome,
    /// The proof, where it was asked for and came to its end.
    pub evaluation: Option<Evaluation>,
    /// Every iteration.
    pub iterations: Vec<IterationReport>,
    /// Iterations that were learned from.
    pub learned: u64,
    /// What every layer came to, in order.
    pub layers: Vec<LayerReport>,
    /// Why it ended early.
    pub stopped: Option<StopReason>,
    /// What failed in the phase that ended it.
    pub failures: Vec<FailureCount>,
    /// What models have cost.
    pub usage: Usage,
}

impl LearnReport {
    /// What the harness came to, where it learns.
    pub fn harness(&self) -> Option<&HarnessReport> {
        self.layers.iter().find_map(|layer| match layer {
            LayerReport::Harness(report) => Some(report.as_ref()),
            _ => None,
        })
    }

    /// What weights came to, where they learn.
    pub fn weights(&self) -> Option<&WeightsReport> {
        self.layers.iter().find_map(|layer| match layer {
            LayerReport::Weights(report) => Some(report.as_ref()),
            _ => None,
        })
    }

    /// The layers that the lift may come from. An evolution counts beside its harness if its result was deployed.
    pub fn layer_names(&self) -> Vec<String> {
        let evolved = self.harness().is_some_and(HarnessReport::evolved).then(|| "evolution".to_owned());
        self.layers.iter().map(|layer| layer.name().to_owned()).chain(evolved).collect()
    }

    /// What the store keeps of it.
    pub fn summary(&self) -> serde_json::Value {
        let harness = self.harness();
        serde_json::json!({
            "outcome": self.outcome, "evaluation": self.evaluation, "learned": self.learned,
            "iterations": self.iterations.len(), "stopped": self.stopped,
            "evolution": harness.and_then(|harness| harness.evolution.as_ref()),
            "playbook": harness.map(|harness| harness.playbook),
            "reflections": harness.map(|harness| &harness.reflections),
            "proposals": harness.map(|harness| &harness.proposals),
            "reward_mean": self.iterations.last().and_then(|last| last.reward),
        })
    }

    /// As a document for machines, without what was paid: that differs where a run was interrupted.
    pub fn published(&self) -> serde_json::Value {
        let mut document = serde_json::json!({
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
    fn three_standard_errors_tell_chance_from_failing_more_often() {
        for (before, after, lopsided) in [(0, 0, false), (0, 9, false), (0, 10, true), (10, 0, true), (40, 60, false)] {
            assert_eq!(missing(before, after).is_lopsided(), lopsided, "{before} {after}");
            assert_eq!(missing(before, after).second_fails_more(), lopsided && after > before);
        }
    }

    #[test]
    fn tasks_are_the_unit_and_differences_that_are_all_alike_make_nobody_sure() {
        let alike = |tasks: u64, times: usize| {
            Mean::of((0..tasks).map(|task| (task.to_string(), vec![f64::from((task % 2) as u32); times])).collect())
        };
        assert_eq!(alike(1, 100), None, "one task tells nothing about others");
        let width = |mean: Option<Mean>| mean.map_or(f64::NAN, |mean| mean.high - mean.low);
        assert!((width(alike(8, 1)) - width(alike(8, 50))).abs() < 1e-12, "playing them again adds no certainty");
        let sure = Mean { mean: 1.0, low: 1.0, high: 1.0 };
        assert!(sure.widened(3).low < 0.0, "three pairs show nothing");
        assert!(sure.widened(200).low > 0.9);
    }

    #[test]
    fn a_mean_lies_where_rewards_do() {
        let mean = Mean { mean: 0.9, low: 0.75, high: 1.05 };
        assert_eq!(mean.within(Some((0.0, 1.0))), Mean { high: 1.0, ..mean });
        assert_eq!(mean.within(Some((0.8, 2.0))), Mean { low: 0.8, ..mean });
        assert_eq!(mean.within(None), mean);
    }

    #[test]
    fn lopsided_failures_measure_nothing() {
        let mean = Some(Mean { mean: 0.5, low: 0.4, high: 0.6 });
        let found = |missing| Evaluation {
            split: "test".into(),
            pairs: 100,
            tasks: 100,
            missing,
            before: mean,
            after: mean,
            lift: mean,
            arms: Vec::new(),
        };
        assert_eq!(found(missing(1, 2)).outcome(), Outcome::Improved);
        assert_eq!(found(missing(0, 30)).outcome(), Outcome::NotMeasured);
    }
}
