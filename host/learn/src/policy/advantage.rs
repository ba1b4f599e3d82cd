//! Advantages: how much better a trajectory or a turn was than expected. Pure functions of rewards.

use crate::LearnError;
use serde::{Deserialize, Serialize};

/// A group has no variance if its largest and smallest reward differ by less than this.
pub const ZERO_VARIANCE: f64 = 1e-6;

/// Added to the standard deviation, so that tiny differences are not amplified (as in TRL).
const STANDARD_DEVIATION_FLOOR: f64 = 1e-4;

/// Added to the standard deviation when advantages are whitened (as in TRL).
const WHITENING_FLOOR: f64 = 1e-8;

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
    /// Generalised advantage estimation per turn; the group is not used.
    Generalised(GeneralisedAdvantage),
}

/// Generalised advantage estimation (Schulman et al. 2016) over the turns of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GeneralisedAdvantage {
    /// Discount per turn, 0 to 1.
    pub gamma: f64,
    /// Bias-variance trade-off, 0 to 1: 0 relies on values, 1 on rewards only.
    pub lambda: f64,
    /// Normalises the advantages of all trained tokens of an experience to mean 0 and standard deviation 1. Without it and
    /// without values, rewards in 0 to 1 would increase the probability of every action.
    pub whiten: bool,
}

impl Default for GeneralisedAdvantage {
    fn default() -> Self {
        Self { gamma: 1.0, lambda: 0.95, whiten: true }
    }
}

impl GeneralisedAdvantage {
    /// The advantage of each turn: `A_k = d_k + gamma lambda A_(k+1)`, `d_k = r_k + gamma V_(k+1) - V_k`. The value after
    /// the last turn is 0; missing values are 0.
    pub fn of(&self, rewards: &[f64], values: &[f64]) -> Vec<f64> {
        let mut values: Vec<f64> = values.to_vec();
        values.resize(rewards.len(), 0.0);
        let (mut next_value, mut next) = (0.0, 0.0);
        let mut advantages = Vec::with_capacity(rewards.len());
        for (reward, value) in rewards.iter().zip(&values).rev() {
            next = reward + self.gamma * next_value - value + self.gamma * self.lambda * next;
            next_value = *value;
            advantages.push(next);
        }
        advantages.reverse();
        advantages
    }

    pub(super) fn check(&self) -> Result<(), LearnError> {
        for (name, value) in [("gamma", self.gamma), ("lambda", self.lambda)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(LearnError::Objective(format!("{name} is {value}; expected 0 to 1")));
            }
        }
        Ok(())
    }
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

/// The advantages of the scored members of a group. [`Advantage::Generalised`] returns the rewards unchanged.
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
        Advantage::Generalised(_) => return GroupAdvantages::Advantages(rewards.to_vec()),
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

/// Normalises the numbers with a true mask to mean 0 and standard deviation 1; sets the others to 0.
pub(super) fn whiten(columns: &mut [(Vec<f64>, &[bool])]) {
    let trained: Vec<f64> = columns
        .iter()
        .flat_map(|(numbers, mask)| {
            numbers.iter().zip(*mask).filter(|(_, trained)| **trained).map(|(number, _)| *number)
        })
        .collect();
    let (mean, scale) = (mean(&trained), 1.0 / (standard_deviation(&trained) + WHITENING_FLOOR));
    for (numbers, mask) in columns {
        numbers.iter_mut().zip(*mask).for_each(|(number, trained)| {
            *number = if *trained { (*number - mean) * scale } else { 0.0 };
        });
    }
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

    #[test]
    fn generalised_estimation_equals_hand_computed_values() {
        let check = |gamma, lambda, rewards: &[f64], values: &[f64], expect: &[f64]| {
            close(&GeneralisedAdvantage { gamma, lambda, whiten: false }.of(rewards, values), expect);
        };
        // Without values, an early turn gets a discounted share of the last reward.
        check(1.0, 0.95, &[0.0, 0.0, 1.0], &[], &[0.9025, 0.95, 1.0]);
        // lambda 1: the return minus the value.
        check(0.9, 1.0, &[1.0, 2.0], &[0.5, 0.25], &[1.0 + 0.9 * 2.0 - 0.5, 1.75]);
        // lambda 0: the one-step temporal difference.
        check(0.9, 0.0, &[1.0, 2.0], &[0.5, 0.25], &[1.0 + 0.9 * 0.25 - 0.5, 1.75]);
        check(1.0, 0.95, &[], &[], &[]);
    }

    #[test]
    fn whitening_uses_trained_tokens_only() {
        let mask = [true, false, true];
        let mut columns = vec![(vec![1.0, 100.0, 3.0], mask.as_slice()), (vec![2.0], &[true][..])];
        whiten(&mut columns);
        close(&columns[0].0, &[-1.0, 0.0, 1.0]);
        close(&columns[1].0, &[0.0]);
    }
}
