//! Advantages: how much better a trajectory was than the others of its group. Pure functions of rewards.

use super::single::{Single, single_advantages};
use serde::{Deserialize, Serialize};

/// A group has no variance if its largest and smallest reward differ by less than this.
pub const ZERO_VARIANCE: f64 = 1e-6;

/// Added to the standard deviation, so that tiny differences are not amplified (as in TRL).
pub(super) const STANDARD_DEVIATION_FLOOR: f64 = 1e-4;

/// The baseline that a reward is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advantage {
    /// `(r - mean) / (std + 1e-4)` over the group, with the sample standard deviation (GRPO: Shao et al. 2024).
    Standardised,
    /// `r - mean` over the group: no rescaling by difficulty (Dr. GRPO: Liu et al. 2025).
    Centred,
    /// `r - mean of the other members`: a baseline that does not depend on the own reward (RLOO: Ahmadian et al. 2024).
    LeaveOneOut,
    /// Against the other trajectories of the same task class in the whole batch, with one normalisation of all
    /// ([`super::single_advantages`]): for trajectories that were played once and have no group. The task of a
    /// [`super::TrajectoryGroup`] is the class.
    Single,
}

/// How truncated episodes are used. Their reward is usually a 0 that no reward function assigned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// They are excluded from the loss, from its denominator, and from the baseline of their group.
    #[default]
    Mask,
    /// They are used like other episodes.
    Keep,
    /// They are used, with their reward reduced by this amount (0 or more).
    Penalty(f64),
}

/// The advantages of a group, or why it has none.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupAdvantages {
    /// One per reward.
    Advantages(Vec<f64>),
    /// Fewer than two rewards, so there is no baseline.
    TooFew,
    /// The rewards differ by less than [`ZERO_VARIANCE`].
    ZeroVariance,
}

/// The advantages of the scored members of a group.
pub fn group_advantages(rule: Advantage, rewards: &[f64]) -> GroupAdvantages {
    let count = rewards.len() as f64;
    if rewards.len() < 2 {
        return GroupAdvantages::TooFew;
    }
    if !varies(rewards) {
        return GroupAdvantages::ZeroVariance;
    }
    let mean = mean(rewards);
    let scale = match rule {
        Advantage::Standardised => 1.0 / (standard_deviation(rewards) + STANDARD_DEVIATION_FLOOR),
        Advantage::Centred => 1.0,
        // Equals r - (sum - r)/(n - 1).
        Advantage::LeaveOneOut => count / (count - 1.0),
        // Groups are not compared with each other here: a group of its own is a class.
        Advantage::Single => {
            return single_advantages(
                &rewards.iter().map(|reward| Single { class: "", reward: *reward }).collect::<Vec<_>>(),
            );
        }
    };
    GroupAdvantages::Advantages(rewards.iter().map(|reward| (reward - mean) * scale).collect())
}

/// Whether the rewards differ.
pub(super) fn varies(rewards: &[f64]) -> bool {
    let (low, high) = rewards
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), reward| (low.min(*reward), high.max(*reward)));
    high - low >= ZERO_VARIANCE
}

/// The mean; 0 for an empty slice.
pub(super) fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() { 0.0 } else { numbers.iter().sum::<f64>() / numbers.len() as f64 }
}

/// The sample standard deviation (n - 1); 0 for fewer than two numbers.
pub(super) fn standard_deviation(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let mean = mean(numbers);
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (squares / (numbers.len() as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: &[f64], expect: &[f64]) {
        assert_eq!(got.len(), expect.len());
        got.iter().zip(expect).for_each(|(got, expect)| assert!((got - expect).abs() < 5e-7, "{got} is not {expect}"));
    }

    fn advantages(rule: Advantage, rewards: &[f64]) -> Vec<f64> {
        match group_advantages(rule, rewards) {
            GroupAdvantages::Advantages(advantages) => advantages,
            none => panic!("{none:?}"),
        }
    }

    #[test]
    fn advantages_equal_the_published_formulas() {
        let check = |rule, rewards: &[f64], expect: &[f64]| close(&advantages(rule, rewards), expect);
        check(Advantage::Standardised, &[1.0, 0.0], &[0.707_007, -0.707_007]);
        check(Advantage::Standardised, &[0.25, 0.75], &[-0.706_907, 0.706_907]);
        check(Advantage::Centred, &[1.0, 0.0], &[0.5, -0.5]);
        check(Advantage::LeaveOneOut, &[1.0, 0.0, 0.5], &[0.75, -0.75, 0.0]);
    }

    #[test]
    fn leave_one_out_compares_with_the_mean_of_the_others() {
        let rewards = [0.3, -0.2, 0.9, 0.4];
        let sum: f64 = rewards.iter().sum();
        let expect: Vec<f64> = rewards.iter().map(|reward| reward - (sum - reward) / 3.0).collect();
        close(&advantages(Advantage::LeaveOneOut, &rewards), &expect);
    }

    #[test]
    fn standardisation_uses_the_sample_deviation_plus_a_floor() {
        // The sample deviation of 0, 1 and 2 is 1, not sqrt(2/3).
        close(&advantages(Advantage::Standardised, &[0.0, 1.0, 2.0]), &[-1.0 / 1.0001, 0.0, 1.0 / 1.0001]);
    }

    #[test]
    fn groups_without_variance_or_of_one_member_have_no_advantages() {
        let check = |rewards: &[f64], expect| assert_eq!(group_advantages(Advantage::Standardised, rewards), expect);
        check(&[], GroupAdvantages::TooFew);
        check(&[1.0], GroupAdvantages::TooFew);
        check(&[1.0, 1.0], GroupAdvantages::ZeroVariance);
        check(&[0.5, 0.5 + 9e-7], GroupAdvantages::ZeroVariance);
        assert!(matches!(group_advantages(Advantage::Centred, &[0.5, 0.5 + 2e-6]), GroupAdvantages::Advantages(_)));
    }
}
