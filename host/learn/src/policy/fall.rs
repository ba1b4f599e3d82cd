//! Detects a fall: training made the policy worse than it was.
//!
//! The mean reward of the last iterations is compared with that of the first iteration, which the starting weights played,
//! and with the best earlier iterations, by a test of two proportions. A task is one observation: members of its group share
//! it. A mean m of rewards between 0 and 1 has a variance of at most `m (1 - m)` per task, so the test needs no estimate of
//! the variance and holds from few tasks on.

use super::signal::IterationSignal;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of iterations that are evaluated together, to average out chance.
const ITERATIONS: usize = 5;

/// Standard errors by which the reward must have fallen. Every iteration looks at the same data again, and the best of many
/// windows is lucky: with this many, at most 1 % of runs of 100 iterations without a fall are reported (simulated in the tests).
const ERRORS: f64 = 4.5;

/// Smallest fall worth reporting, as a share of the possible range.
const LEAST: f64 = 0.05;

/// A mean reward over some tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Level {
    /// Between 0 and 1.
    mean: f64,
    /// Number of tasks.
    tasks: f64,
    /// The last iteration in it, from 1.
    until: u64,
}

impl Level {
    fn of<'a>(iterations: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let tasks: f64 = iterations.clone().map(|one| one.tasks).sum();
        let sum: f64 = iterations.clone().map(|one| one.mean * one.tasks).sum();
        let until = iterations.map(|one| one.until).max()?;
        (tasks > 0.0).then(|| Self { mean: sum / tasks, tasks, until })
    }

    /// Whether `later` is clearly lower.
    fn fell_to(&self, later: &Self) -> bool {
        let mean = (self.mean * self.tasks + later.mean * later.tasks) / (self.tasks + later.tasks);
        let error = (mean * (1.0 - mean) * (1.0 / self.tasks + 1.0 / later.tasks)).max(0.0).sqrt();
        let fall = self.mean - later.mean;
        fall >= LEAST && fall >= ERRORS * error
    }
}

/// Watches iterations for a [`Fall`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FallMonitor {
    /// Iterations so far, including those without groups.
    iterations: u64,
    first: Option<Level>,
    best: Option<Level>,
    /// The last ten iterations: five to judge, and five that may be the best so far.
    last: VecDeque<Level>,
}

/// The policy has become worse. Rewards are shares of the possible range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "the mean reward fell from {from:.3} of the possible range ({}) to {to:.3} (the last 5 iterations): learning made the policy worse; keep the best weights, and begin again with a lower rate, fewer epochs, or a divergence from the model as it was opened",
    self.when()
)]
pub struct Fall {
    /// The earlier mean reward.
    pub from: f64,
    /// The iteration with which its measurement ended, from 1. 1: the starting weights.
    pub at: u64,
    /// The mean reward of the last iterations.
    pub to: f64,
}

impl Fall {
    fn when(&self) -> String {
        match self.at {
            1 => "of the starting weights".to_owned(),
            at => format!("iterations {} to {at}", at.saturating_sub(ITERATIONS as u64 - 1)),
        }
    }
}

impl FallMonitor {
    /// Notes an iteration. Returns the fall, if the last five are clearly lower than earlier ones. Iterations without groups
    /// are ignored.
    pub fn note(&mut self, iteration: IterationSignal) -> Option<Fall> {
        self.iterations += 1;
        if iteration.groups == 0 {
            return None;
        }
        let level = Level { mean: iteration.mean_reward, tasks: iteration.groups as f64, until: self.iterations };
        self.first.get_or_insert(level);
        if self.last.len() == 2 * ITERATIONS {
            self.last.pop_front();
        }
        self.last.push_back(level);
        let judged = self.last.len().saturating_sub(ITERATIONS);
        if let (true, Some(earlier)) = (judged == ITERATIONS, Level::of(self.last.iter().take(judged)))
            && self.best.is_none_or(|best| earlier.mean > best.mean)
        {
            self.best = Some(earlier);
        }
        let now = Level::of(self.last.iter().skip(judged)).filter(|_| judged > 0)?;
        let earlier = [self.first, self.best].into_iter().flatten().filter(|earlier| earlier.fell_to(&now));
        let highest = earlier.max_by(|one, other| one.mean.total_cmp(&other.mean))?;
        Some(Fall { from: highest.mean, at: highest.until, to: now.mean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The reported falls after iterations of so many groups with these mean rewards.
    fn falls(groups: u64, rewards: impl IntoIterator<Item = f64>) -> Vec<Option<Fall>> {
        let mut monitor = FallMonitor::default();
        rewards
            .into_iter()
            .map(|mean_reward| monitor.note(IterationSignal { groups, varied: groups, mean_reward }))
            .collect()
    }

    #[test]
    fn a_fall_from_the_start_or_from_the_best_iterations_is_told_as_a_fall() {
        let check = |groups, rewards: &[f64], expect: &str| {
            let told = falls(groups, rewards.iter().copied()).pop().flatten().map(|fall| fall.to_string());
            assert!(told.as_deref().is_some_and(|told| told.contains(expect)), "{told:?}");
        };
        check(
            16,
            &[0.45, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0],
            "fell from 0.450 of the possible range (of the starting weights)",
        );
        let rising = [0.2, 0.2, 0.3, 0.3, 0.4, 0.7, 0.7, 0.7, 0.7, 0.7];
        check(32, &[&rising[..], &[0.3; 5]].concat(), "(iterations 6 to 10) to 0.300 (the last 5 iterations)");
    }

    #[test]
    fn a_reward_that_was_always_low_or_that_rises_is_no_fall() {
        let check = |rewards: &[f64]| {
            assert!(falls(32, rewards.iter().copied()).iter().all(Option::is_none), "{rewards:?}");
        };
        check(&[0.0; 30]);
        check(&[1.0; 30]);
        check(&(0..30).map(|place| f64::from(place) / 30.0).collect::<Vec<_>>());
        check(&[0.45, 0.0, 0.0, 0.0, 0.0]); // Only the first five: nothing to compare with.
    }

    #[test]
    fn iterations_without_groups_are_ignored_and_counted() {
        let mut monitor = FallMonitor::default();
        let mut note = |groups, mean_reward| monitor.note(IterationSignal { groups, varied: groups, mean_reward });
        (0..5).for_each(|_| assert_eq!(note(0, 0.0), None));
        (0..5).for_each(|_| assert_eq!(note(32, 0.8), None));
        let falls: Vec<Option<Fall>> = (0..5).map(|_| note(32, 0.2)).collect();
        assert_eq!(falls[4].map(|fall| fall.at), Some(10), "iterations 6 to 10");
    }

    /// Means of tasks that are either always or never solved: the largest variance that is possible.
    fn drawn(random: &mut Random, groups: u64, solved: f64) -> f64 {
        (0..groups).filter(|_| random.uniform() < solved).count() as f64 / groups as f64
    }

    #[test]
    fn chance_is_rarely_reported_and_a_fall_almost_always() {
        const RUNS: u64 = 1000;
        const LENGTH: usize = 100;
        let share = |groups, seed: u64, level: &dyn Fn(usize) -> f64| {
            let fell = |run: &u64| {
                let mut random = Random(seed ^ run.wrapping_mul(0x9e37_79b9));
                let means: Vec<f64> = (0..LENGTH).map(|place| drawn(&mut random, groups, level(place))).collect();
                falls(groups, means).iter().any(Option::is_some)
            };
            (0..RUNS).filter(fell).count() as f64 / RUNS as f64
        };
        for (groups, level) in [(8, 0.05), (8, 0.5), (8, 0.9), (32, 0.1), (32, 0.5), (64, 0.95)] {
            let found = share(groups, 40_411, &|_| level);
            assert!(found <= 0.01, "{groups} groups at {level}: {found}");
            let rising = share(groups, 52_007, &|place| level * (0.5 + 0.5 * place as f64 / LENGTH as f64));
            assert!(rising <= 0.01, "{groups} groups rising to {level}: {rising}");
        }
        let collapse = |place| if place < 20 { 0.5 } else { 0.0 };
        assert!(share(8, 611, &collapse) >= 0.95, "a collapse, with few groups");
        let decline = |place| if place < 20 { 0.8 } else { 0.5 };
        assert!(share(32, 712, &decline) >= 0.95, "a decline");
    }
}
