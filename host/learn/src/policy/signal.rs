//! Is there anything to learn from? Rewards that never differ inside a group move no weight, however long one trains.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Iterations that are looked at together: one alone may have bad luck.
const ITERATIONS: usize = 5;

/// With fewer groups that vary than this most of the work is for nothing.
const LEAST_VARIANCE_SHARE: f64 = 0.10;

/// Mean rewards outside have too few episodes that differ from the rest.
const LOWEST_MEAN: f64 = 0.02;
/// See [`LOWEST_MEAN`].
const HIGHEST_MEAN: f64 = 0.98;

/// What an iteration showed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IterationSignal {
    /// Groups of two or more scored members.
    pub groups: u64,
    /// Those of them whose rewards differ.
    pub varied: u64,
    /// Mean sampled reward, as a share: 0 is the least that is possible, 1 the most.
    pub mean_reward: f64,
}

/// Watches for [`NoSignal`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SignalMonitor {
    last: VecDeque<IterationSignal>,
}

/// Why nothing can be learned; the words name the remedy.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoSignal {
    /// Hardly anything succeeds.
    #[error(
        "no learning signal: over 5 iterations rewards came to {0:.3} of what is possible, hardly anything succeeds; learn from demonstrations before, or from more of them, or take easier tasks"
    )]
    AllFail(f64),
    /// Hardly anything fails.
    #[error(
        "no learning signal: over 5 iterations rewards came to {0:.3} of what is possible, hardly anything fails; take harder tasks, there is little left to learn here"
    )]
    AllSucceed(f64),
    /// Rewards in a group are equal.
    #[error(
        "no learning signal: rewards differ in {0:.3} of the groups over 5 iterations; make groups larger, take tasks that are solved now and then, or learn from demonstrations before, or from more of them"
    )]
    NoVariance(f64),
}

impl SignalMonitor {
    /// Notes an iteration, and says if the last five together have no signal. Iterations without groups count for nothing.
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
    fn five_iterations_without_signal_are_told_with_the_remedy() {
        let check = |iteration, expect: &str| {
            let told = after(&[iteration; 5]).unwrap();
            assert!(told.contains(expect), "{told}");
            assert_eq!(after(&[iteration; 4]), None, "four are too few");
        };
        check((10, 5, 0.019), "learn from demonstrations before, or from more of them, or take easier tasks");
        check((10, 5, 0.981), "take harder tasks");
        check((100, 9, 0.5), "rewards differ in 0.090 of the groups over 5 iterations; make groups larger");
    }

    #[test]
    fn at_the_limits_there_is_signal_and_a_good_iteration_among_bad_ones_counts() {
        for iteration in [(10, 5, 0.02), (10, 5, 0.98), (10, 1, 0.5)] {
            assert_eq!(after(&[iteration; 5]), None, "{iteration:?}");
        }
        let (bad, good) = ((10, 0, 0.5), (10, 6, 0.5));
        assert_eq!(after(&[bad, bad, good, bad, bad]), None);
        assert!(after(&[good, bad, bad, bad, bad, bad]).is_some(), "only the last five count");
        assert_eq!(after(&[bad, bad, bad, bad, (0, 0, 0.0)]), None, "without groups it is no iteration");
    }
}
