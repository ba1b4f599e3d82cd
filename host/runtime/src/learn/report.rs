//! What a learning run came to.

use super::evolve::EvolutionReport;
use super::gate::GateReport;
use super::reflect::Reflections;
use super::weights::{Best, WarmStartReport};
use crate::interval::Interval;
use crate::report::{FailureCount, StopReason};
use clawhost_core::{Digest, Usage};
use clawhost_learn::harness::{Counts, EntryRow};
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
        match crate::interval::mean_interval(&groups) {
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

/// What one iteration came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IterationReport {
    /// From 1.
    pub iteration: u64,
    /// Mean reward of its training episodes; none: nothing was scored.
    pub reward: Option<f64>,
    /// Episodes that taught something.
    pub episodes: u64,
    /// Episodes that failed, or were not scored.
    pub removed: u64,
    /// Whether its batch was learned from; else why not.
    pub learned: Result<(), String>,
    /// Proposals of reflectors.
    pub proposals: u64,
    /// What reflectors were asked for it.
    pub reflections: Reflections,
    /// Numbers of the layers: `LAYER.NAME`.
    pub metrics: BTreeMap<String, f64>,
    /// What happened, in words.
    pub events: Vec<String>,
    /// What the gate said, if it was asked.
    pub gate: Option<GateReport>,
    /// Why rewards say nothing any more, and what helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Names the state of the layers after it.
    pub state: Digest,
    /// What models have cost so far.
    pub usage: Usage,
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

/// What a learning run came to. Equal plans give equal reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearnReport {
    /// In a word.
    pub outcome: Outcome,
    /// The proof, where it was asked for and came to its end.
    pub evaluation: Option<Evaluation>,
    /// What came of evolving a section, where that was asked for.
    pub evolution: Option<EvolutionReport>,
    /// What came of learning from demonstrations first, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<WarmStartReport>,
    /// The best weights, by the validation tasks, where these were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// Every iteration.
    pub iterations: Vec<IterationReport>,
    /// Every entry.
    pub entries: Vec<EntryRow>,
    /// What happened to proposals.
    pub proposals: Counts,
    /// What came of asking reflectors.
    pub reflections: Reflections,
    /// Batches that were learned from, of all.
    pub learned: u64,
    /// Who can claim the lift, together: the harness, and the evolution of which something was deployed.
    pub layers: Vec<String>,
    /// What the playbook says now.
    pub playbook: Digest,
    /// Why it ended early.
    pub stopped: Option<StopReason>,
    /// What failed in the phase that ended it.
    pub failures: Vec<FailureCount>,
    /// What models have cost.
    pub usage: Usage,
}

impl LearnReport {
    /// What the store keeps of it.
    pub fn summary(&self) -> serde_json::Value {
        serde_json::json!({
            "outcome": self.outcome, "evaluation": self.evaluation, "learned": self.learned,
            "iterations": self.iterations.len(), "evolution": self.evolution, "playbook": self.playbook, "stopped": self.stopped,
            "reflections": self.reflections, "proposals": self.proposals,
            "reward_mean": self.iterations.last().and_then(|last| last.reward),
        })
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
        };
        assert_eq!(found(missing(1, 2)).outcome(), Outcome::Improved);
        assert_eq!(found(missing(0, 30)).outcome(), Outcome::NotMeasured);
    }
}
