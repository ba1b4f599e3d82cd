//! How far two judges of the same episodes agree: by ranks, by passing and failing, in the mean, and for parts of the episodes; and
//! where they disagree most.
//!
//! Arithmetic on pairs of answers alone. Episodes of one task are not independent, so every interval has the task as its unit. No episode
//! is dropped silently: those without two scores are counted by what each judge answered.

mod bootstrap;
mod disagreement;
mod passing;
mod ranks;

pub use bootstrap::{RESAMPLES, TASKS_NEEDED};
pub use disagreement::{DISAGREEMENTS, Disagreement};
pub use passing::{Confusion, Passing};

use crate::interval::{Interval, mean_interval};
use bootstrap::interval;
use clawhost_core::{EpisodeId, RunId};
use ranks::{Levels, kendall, spearman};
use serde::Serialize;
use std::collections::BTreeMap;

/// A value of each judge: of the first, A, and of the second, B.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sides<T> {
    /// That of the first judge.
    pub a: T,
    /// That of the second judge.
    pub b: T,
}

/// What a judge says about an episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// A score.
    Scored(f64),
    /// It found that it does not apply.
    NotApplicable,
    /// It failed.
    Failed,
    /// It was not asked, or its answer is not known.
    Missing,
}

impl Answer {
    /// The score, if there is one.
    pub fn score(self) -> Option<f64> {
        match self {
            Self::Scored(score) => Some(score),
            Self::NotApplicable | Self::Failed | Self::Missing => None,
        }
    }
}

/// What the episodes of a slice have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SliceKind {
    /// The run that recorded them.
    Run,
    /// The policy's model.
    Policy,
    /// The environment and the split of its tasks; for sessions of an agent its name and `live`.
    Tasks,
    /// The source that decides the own reward of the episode, as [`clawhost_core::RewardSource`] names it, without verdicts of the first
    /// judge; `none` if no source does.
    Source,
}

/// An episode with the answers of both judges.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedPair {
    /// The run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// The task, for people.
    pub task: String,
    /// The unit of intervals: episodes with equal texts are of one task.
    pub unit: String,
    /// The slices that it belongs to, at most one of each kind.
    pub slices: Vec<(SliceKind, String)>,
    /// What the judges say.
    pub answers: Sides<Answer>,
}

/// Why a measure has no value or no interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lacking {
    /// No value: fewer than two episodes have a score of both.
    TooFewEpisodes,
    /// No value: the first judge says the same about every episode.
    AIsConstant,
    /// No value: the second judge does.
    BIsConstant,
    /// No value: both do.
    BothAreConstant,
    /// No interval: there are fewer than [`TASKS_NEEDED`] tasks.
    TooFewTasks,
    /// No interval: too many resamples have no value, because a judge says the same about all of their episodes.
    RarelyVaries,
    /// No interval: all resamples give the same value, so they do not show how far it may be off.
    NoSpread,
}

/// A measure with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measure {
    /// The value. `None`: it is not defined, as `lacking` says.
    pub value: Option<f64>,
    /// Its 95 % interval. `None`: there is no value, or `lacking` says why.
    pub interval: Option<Interval>,
    /// Why there is no value, or no interval.
    pub lacking: Option<Lacking>,
}

impl Measure {
    fn without(lacking: Lacking) -> Self {
        Self { value: None, interval: None, lacking: Some(lacking) }
    }

    fn of(value: f64, interval: Result<Interval, Lacking>) -> Self {
        Self { value: Some(value), interval: interval.ok(), lacking: interval.err() }
    }

    /// The mean of clustered values within a range, with Student's t over clusters. The interval is never narrower than the effect of one
    /// value at the other end of -1 to 1: see [`Interval::widened`].
    fn mean(clusters: &[Vec<f64>], range: (f64, f64)) -> Self {
        let count: usize = clusters.iter().map(Vec::len).sum();
        match mean_interval(clusters) {
            (Some(mean), Some(interval)) => {
                let wide = interval.widened(mean, count as u64).within(Some(range));
                Self { value: Some(mean), interval: Some(wide), lacking: None }
            }
            (Some(mean), None) => Self { value: Some(mean), interval: None, lacking: Some(Lacking::TooFewTasks) },
            (None, _) => Self::without(Lacking::TooFewEpisodes),
        }
    }
}

/// Numbers of answers of a judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AnswerCounts {
    /// Scores.
    pub scored: u64,
    /// It found that it does not apply.
    pub not_applicable: u64,
    /// It failed.
    pub failed: u64,
    /// It was not asked, or its answer is not known.
    pub missing: u64,
}

impl AnswerCounts {
    fn add(&mut self, answer: Answer) {
        *match answer {
            Answer::Scored(_) => &mut self.scored,
            Answer::NotApplicable => &mut self.not_applicable,
            Answer::Failed => &mut self.failed,
            Answer::Missing => &mut self.missing,
        } += 1;
    }
}

/// Which episodes have scores. The first four numbers add up to all episodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Episodes with a score of both: all measures are about these.
    pub both: u64,
    /// Episodes with a score of the first judge only.
    pub only_a: u64,
    /// Episodes with a score of the second judge only.
    pub only_b: u64,
    /// Episodes with no score.
    pub neither: u64,
    /// Different tasks among the episodes with a score of both.
    pub tasks: u64,
    /// The answers of each judge.
    pub answers: Sides<AnswerCounts>,
}

/// The measures of a slice: of episodes that have something in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SliceAgreement {
    /// What they have in common.
    pub by: SliceKind,
    /// Its value.
    pub value: String,
    /// Who passes and fails them.
    pub passing: Passing,
}

/// How far two judges agree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Which episodes have scores.
    pub coverage: Coverage,
    /// Spearman's rank correlation with mid-ranks for ties (Kendall and Gibbons, Rank Correlation Methods, 1990, chapter 3). Its interval
    /// is that of the bootstrap, as for the next one.
    pub spearman: Measure,
    /// Kendall's tau-b (the same, chapter 3).
    pub kendall: Measure,
    /// The mean score of the first judge minus that of the second, with Student's t over tasks.
    pub difference: Measure,
    /// A score passes if it is this or more.
    pub thresholds: Sides<f64>,
    /// Who passes and fails.
    pub passing: Passing,
    /// The same for every slice, by kind; of a kind the slice with most episodes first.
    pub slices: Vec<SliceAgreement>,
    /// The episodes whose ranks differ most, one for each task.
    pub disagreements: Vec<Disagreement>,
}

/// How two judges are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparing {
    /// A score passes if it is this or more.
    pub thresholds: Sides<f64>,
    /// The most disagreements that are listed.
    pub disagreements: usize,
}

/// An episode with two scores.
struct Scored<'a> {
    pair: &'a JudgedPair,
    /// Its task, as a number.
    unit: usize,
    scores: Sides<f64>,
}

/// Compares two judges. Equal pairs in equal order give equal results.
pub fn agreement(pairs: &[JudgedPair], how: &Comparing) -> Agreement {
    let mut coverage = Coverage::default();
    let mut units: BTreeMap<&str, usize> = BTreeMap::new();
    let mut scored: Vec<Scored<'_>> = Vec::new();
    for pair in pairs {
        let Sides { a, b } = pair.answers;
        coverage.answers.a.add(a);
        coverage.answers.b.add(b);
        match (a.score(), b.score()) {
            (Some(a), Some(b)) => {
                let next = units.len();
                let unit = *units.entry(&pair.unit).or_insert(next);
                scored.push(Scored { pair, unit, scores: Sides { a, b } });
            }
            (Some(_), None) => coverage.only_a += 1,
            (None, Some(_)) => coverage.only_b += 1,
            (None, None) => coverage.neither += 1,
        }
    }
    coverage.both = scored.len() as u64;
    coverage.tasks = units.len() as u64;
    let levels = Sides {
        a: Levels::of(scored.iter().map(|one| one.scores.a)),
        b: Levels::of(scored.iter().map(|one| one.scores.b)),
    };
    let of_units: Vec<usize> = scored.iter().map(|one| one.unit).collect();
    Agreement {
        coverage,
        spearman: by_ranks(&levels, &of_units, units.len(), spearman),
        kendall: by_ranks(&levels, &of_units, units.len(), kendall),
        difference: difference(&scored, units.len()),
        thresholds: how.thresholds,
        passing: Passing::of(scored.iter(), how.thresholds),
        slices: slices(&scored, how.thresholds),
        disagreements: disagreement::largest(&scored, &levels, how.disagreements),
    }
}

/// A rank correlation of all episodes, with its bootstrap over tasks.
fn by_ranks(
    levels: &Sides<Levels>,
    of_units: &[usize],
    units: usize,
    correlation: fn(&Sides<Levels>, &[u32]) -> Option<f64>,
) -> Measure {
    if of_units.len() < 2 {
        return Measure::without(Lacking::TooFewEpisodes);
    }
    let once = vec![1; of_units.len()];
    let Some(value) = correlation(levels, &once) else {
        return Measure::without(match (levels.a.count() < 2, levels.b.count() < 2) {
            (true, true) => Lacking::BothAreConstant,
            (true, false) => Lacking::AIsConstant,
            _ => Lacking::BIsConstant,
        });
    };
    let mut times = once;
    let resampled = interval(units, |drawn| {
        times.iter_mut().zip(of_units).for_each(|(times, unit)| *times = drawn.get(*unit).copied().unwrap_or(0));
        correlation(levels, &times)
    });
    Measure::of(value, resampled)
}

fn difference(scored: &[Scored<'_>], units: usize) -> Measure {
    let mut clusters = vec![Vec::new(); units];
    for one in scored {
        if let Some(cluster) = clusters.get_mut(one.unit) {
            cluster.push(one.scores.a - one.scores.b);
        }
    }
    // Rewards lie between -1 and 1.
    Measure::mean(&clusters, (-2.0, 2.0))
}

fn slices(scored: &[Scored<'_>], thresholds: Sides<f64>) -> Vec<SliceAgreement> {
    let mut found: BTreeMap<(SliceKind, &str), Vec<&Scored<'_>>> = BTreeMap::new();
    for one in scored {
        for (kind, value) in &one.pair.slices {
            found.entry((*kind, value)).or_default().push(one);
        }
    }
    let mut all: Vec<SliceAgreement> = found
        .into_iter()
        .map(|((by, value), episodes)| SliceAgreement {
            by,
            value: value.to_owned(),
            passing: Passing::of(episodes.into_iter(), thresholds),
        })
        .collect();
    // Stable: equal sizes stay in the order of their names.
    all.sort_by_key(|one| (one.by, std::cmp::Reverse(one.passing.confusion.episodes())));
    all
}

#[cfg(test)]
mod tests;
