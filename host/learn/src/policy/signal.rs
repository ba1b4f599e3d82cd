//! Detects training without a learning signal: rewards that do not differ within groups give no gradient.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of iterations that are evaluated together, to average out chance.
const ITERATIONS: usize = 5;

/// Smallest share of groups with variance. Below it most episodes are wasted.
const LEAST_VARIANCE_SHARE: f64 = 0.10;

/// Below this mean reward too few episodes differ from the rest.
const LOWEST_MEAN: f64 = 0.02;
/// Above this mean reward too few episodes differ from the rest.
const HIGHEST_MEAN: f64 = 0.98;

/// Statistics of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IterationSignal {
    /// Groups of two or more scored members.
    pub groups: u64,
    /// Those of them whose rewards differ.
    pub varied: u64,
    /// Mean reward, scaled to 0 (smallest possible) to 1 (largest possible).
    pub mean_reward: f64,
}

/// Watches iterations for [`NoSignal`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SignalMonitor {
    last: VecDeque<IterationSignal>,
}

/// Why there is no learning signal, with the remedy.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoSignal {
    /// Almost all episodes fail.
    #[error(
        "no learning signal: the mean reward of the last 5 iterations is {0:.3} of the possible range, so almost all episodes fail; start from demonstrations, use more of them, or take easier tasks"
    )]
    AllFail(f64),
    /// Almost all episodes succeed.
    #[error(
        "no learning signal: the mean reward of the last 5 iterations is {0:.3} of the possible range, so almost all episodes succeed; take harder tasks, there is little left to learn here"
    )]
    AllSucceed(f64),
    /// Rewards within groups are equal.
    #[error(
        "no learning signal: rewards differ in {0:.3} of the groups of the last 5 iterations; use larger groups, take tasks that are sometimes solved, start from demonstrations, or use more of them"
    )]
    NoVariance(f64),
}

impl SignalMonitor {
    /// Notes an iteration. Returns a reason if the last five together have no signal. Iterations without groups are ignored.
    pub fn note(&mut self, iteration: IterationSignal) -> Option<NoSignal> {
        if iteration.groups == 0 {
            return None;
        }
        if self.last.len() == ITERATIONS {
            self.last.pop_front();
        }
        self.last.push_back(iteration);
        if self.last.len() < ITERATIONS {
            return None;
        }
        let sum = |number: fn(&IterationSignal) -> f64| self.last.iter().map(number).sum::<f64>();
        let groups = sum(|iteration| iteration.groups as f64);
        let mean = sum(|iteration| iteration.mean_reward * iteration.groups as f64) / groups;
        let varied = sum(|iteration| iteration.varied as f64) / groups;
        if mean < LOWEST_MEAN {
            Some(NoSignal::AllFail(mean))
        } else if mean > HIGHEST_MEAN {
            Some(NoSignal::AllSucceed(mean))
        } else if varied < LEAST_VARIANCE_SHARE {
            Some(NoSignal::NoVariance(varied))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(iterations: &[(u64, u64, f64)]) -> Option<String> {
        let mut monitor = SignalMonitor::default();
        let verdicts = iterations
            .iter()
            .map(|(groups, varied, mean_reward)| (*groups, *varied, *mean_reward))
            .map(|(groups, varied, mean_reward)| monitor.note(IterationSignal { groups, varied, mean_reward }));
        verdicts.last().flatten().map(|reason| reason.to_string())
    }

    #[test]
    fn five_iterations_without_signal_are_reported_with_the_remedy() {
        let check = |iteration, expect: &str| {
            let reported = after(&[iteration; 5]).unwrap();
            assert!(reported.contains(expect), "{reported}");
            assert_eq!(after(&[iteration; 4]), None, "four are too few");
        };
        check((10, 5, 0.019), "start from demonstrations, use more of them, or take easier tasks");
        check((10, 5, 0.981), "take harder tasks");
        check((100, 9, 0.5), "rewards differ in 0.090 of the groups of the last 5 iterations; use larger groups");
    }

    #[test]
    fn limits_are_exclusive_and_one_good_iteration_suffices() {
        for iteration in [(10, 5, 0.02), (10, 5, 0.98), (10, 1, 0.5)] {
            assert_eq!(after(&[iteration; 5]), None, "{iteration:?}");
        }
        let (bad, good) = ((10, 0, 0.5), (10, 6, 0.5));
        assert_eq!(after(&[bad, bad, good, bad, bad]), None);
        assert!(after(&[good, bad, bad, bad, bad, bad]).is_some(), "only the last five count");
        assert_eq!(after(&[bad, bad, bad, bad, (0, 0, 0.0)]), None, "iterations without groups are ignored");
    }
}
