//! The difference of two runs in mean reward: pair by pair where they share tasks and seeds, between their means otherwise.

use crate::interval::{ClusteredMean, Interval, mean_interval, t_quantile};
use serde::Serialize;
use std::collections::BTreeMap;

/// Two runs are compared pair by pair if they share at least this share of the tasks and seeds of the smaller one. Pairs of a
/// small overlap would leave most of both runs unused.
const SHARED: f64 = 0.5;

/// Mean rewards by task and environment seed. `None`: no episode of that task and seed was scored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cells(BTreeMap<(String, u64), Option<f64>>);

/// How two runs were compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "design", rename_all = "snake_case")]
pub enum Design {
    /// Pairs of equal task and seed; Student's t over tasks.
    Paired {
        /// Pairs that both scored.
        pairs: u64,
        /// Different tasks among the pairs.
        tasks: u64,
        /// Tasks and seeds that both played, and only the second scored.
        missing_first: u64,
        /// Tasks and seeds that both played, and only the first scored.
        missing_second: u64,
    },
    /// The means of both, each with its variance over tasks; Welch's t.
    Unpaired {
        /// Tasks that the first scored.
        tasks_first: u64,
        /// Tasks that the second scored.
        tasks_second: u64,
    },
}

/// A difference in mean reward.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Contrast {
    /// How the runs were compared.
    #[serde(flatten)]
    pub design: Design,
    /// The second run's mean minus the first run's.
    pub mean: f64,
    /// Its 95 % interval. `None`: fewer than two tasks.
    pub interval: Option<Interval>,
}

impl Cells {
    /// Averages the scored episodes of each task and seed. Each item is a task, an environment seed, and the reward, if the
    /// episode was scored.
    pub fn of<'a>(episodes: impl IntoIterator<Item = (&'a str, u64, Option<f64>)>) -> Self {
        let mut sums: BTreeMap<(String, u64), (f64, u64)> = BTreeMap::new();
        for (task, seed, reward) in episodes {
            let (sum, count) = sums.entry((task.to_owned(), seed)).or_default();
            if let Some(reward) = reward {
                *sum += reward;
                *count += 1;
            }
        }
        let mean = |(cell, (sum, count)): (_, (f64, u64))| (cell, (count > 0).then(|| sum / count as f64));
        Self(sums.into_iter().map(mean).collect())
    }

    /// Values less those of `other`, for the tasks and seeds that both have. `None` where one has no value.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let both = self.0.iter().filter_map(|(cell, value)| Some((cell.clone(), (*value, *other.0.get(cell)?))));
        Self(both.map(|(cell, (value, less))| (cell, value.zip(less).map(|(value, less)| value - less))).collect())
    }

    /// Values, clustered by task.
    fn by_task(&self) -> Vec<Vec<f64>> {
        let mut tasks: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for ((task, _), value) in &self.0 {
            tasks.entry(task).or_default().extend(value);
        }
        tasks.into_values().collect()
    }

    /// The mean over tasks and seeds, and its 95 % interval with the task as the unit. No mean without a value, no interval for
    /// fewer than two tasks.
    pub fn mean(&self) -> (Option<f64>, Option<Interval>) {
        mean_interval(&self.by_task())
    }

    /// Number of tasks and seeds with a value.
    fn scored(&self) -> u64 {
        self.0.values().flatten().count() as u64
    }
}

/// The difference of `second` from `first`. With `may_pair`, equal ids and seeds mean equal tasks. `None`: one of them has no
/// value.
///
/// Tasks are the unit of the interval, however many seeds and episodes they have: paired by Student's t over tasks, else by Welch's t
/// with the Welch-Satterthwaite degrees of freedom, rounded down. The interval is never narrower than the effect of one pair with the
/// opposite result. If unpaired runs play some of the same tasks, their means vary together, and the interval is too wide rather than
/// too narrow.
pub fn contrast(first: &Cells, second: &Cells, may_pair: bool) -> Option<Contrast> {
    let smaller = first.scored().min(second.scored());
    if smaller == 0 {
        return None;
    }
    let differences = second.minus(first);
    let pairs = differences.scored();
    if may_pair && pairs as f64 >= SHARED * smaller as f64 {
        return paired(first, second, &differences, pairs);
    }
    unpaired(first, second, smaller)
}

fn paired(first: &Cells, second: &Cells, differences: &Cells, pairs: u64) -> Option<Contrast> {
    let found = ClusteredMean::of(&differences.by_task())?;
    let lacks = |one: &Cells, other: &Cells| {
        let lacking = differences.0.keys().filter(|cell| {
            let has = |cells: &Cells| cells.0.get(*cell).is_some_and(Option::is_some);
            !has(one) && has(other)
        });
        lacking.count() as u64
    };
    Some(Contrast {
        design: Design::Paired {
            pairs,
            tasks: found.clusters as u64,
            missing_first: lacks(first, second),
            missing_second: lacks(second, first),
        },
        mean: found.mean,
        interval: found.interval().map(|interval| interval.widened(found.mean, pairs)),
    })
}

fn unpaired(first: &Cells, second: &Cells, smaller: u64) -> Option<Contrast> {
    let (one, other) = (ClusteredMean::of(&first.by_task())?, ClusteredMean::of(&second.by_task())?);
    let mean = other.mean - one.mean;
    let interval = one.variance.zip(other.variance).map(|(a, b)| {
        let degrees = |variance: f64, clusters: usize| variance.powi(2) / (clusters as f64 - 1.0);
        let below = degrees(a, one.clusters) + degrees(b, other.clusters);
        // Without any variance the degrees do not matter.
        let degrees = if below > 0.0 { ((a + b).powi(2) / below).floor().max(1.0) as usize } else { 1 };
        let half = t_quantile(degrees) * (a + b).sqrt();
        Interval { low: mean - half, high: mean + half }.widened(mean, smaller)
    });
    let design = Design::Unpaired { tasks_first: one.clusters as u64, tasks_second: other.clusters as u64 };
    Some(Contrast { design, mean, interval })
}

#[cfg(test)]
#[path = "contrast_tests.rs"]
mod tests;
