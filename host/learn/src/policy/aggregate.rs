//! How losses of tokens become one loss.
//!
//! The denominator is a property of the whole optimiser step. Taken per micro-batch it would give a token in a short micro-batch
//! more weight than one in a long one, so the result would depend on how much memory there is. So a [`Denominator`] is
//! made once, of the whole step, and every micro-batch takes its weights from it.

use crate::LearnError;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How losses of tokens become one loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Mean over all trained tokens of the step: long trajectories weigh more (DAPO: Yu et al. 2025).
    Token,
    /// Mean over each sequence's tokens, then over sequences: tokens of long trajectories weigh less (GRPO: Shao et al. 2024).
    #[serde(rename = "seq")]
    Sequence,
    /// Sum over tokens, divided by the number of sequences and by a constant: no token's weight depends on any length (Dr. GRPO:
    /// Liu et al. 2025).
    Constant {
        /// Usually the most tokens a trajectory may have.
        length: NonZeroU32,
    },
    /// Sum over tokens.
    Sum,
}

/// What losses of one optimiser step are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Denominator {
    aggregation: Aggregation,
    sequences: f64,
    tokens: f64,
}

impl Denominator {
    /// From the number of trained tokens of *every* sequence of the step. Sequences without any do not count.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`] if no token is trained.
    pub fn of(aggregation: Aggregation, whole_step: impl IntoIterator<Item = usize>) -> Result<Self, LearnError> {
        let (sequences, tokens) = whole_step
            .into_iter()
            .filter(|tokens| *tokens > 0)
            .fold((0_usize, 0_usize), |(sequences, sum), tokens| (sequences + 1, sum + tokens));
        if tokens == 0 {
            let what =
                "the step has no trained token: every group was dropped, or every mask is empty; play more groups";
            return Err(LearnError::Objective(what.into()));
        }
        Ok(Self { aggregation, sequences: sequences as f64, tokens: tokens as f64 })
    }

    /// What each trained token of a sequence with so many of them weighs, over 0.
    pub fn weight(&self, trained_tokens: usize) -> f64 {
        match self.aggregation {
            Aggregation::Token => 1.0 / self.tokens,
            Aggregation::Sequence => 1.0 / (self.sequences * trained_tokens.max(1) as f64),
            Aggregation::Constant { length } => 1.0 / (self.sequences * f64::from(length.get())),
            Aggregation::Sum => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_weighs_what_its_aggregation_says() {
        let check = |aggregation, expect: [f64; 2]| {
            let denominator = Denominator::of(aggregation, [3, 1, 0]).unwrap();
            let got = [denominator.weight(3), denominator.weight(1)];
            assert!(
                got.iter().zip(expect).all(|(got, expect)| (got - expect).abs() < 1e-15),
                "{aggregation:?}: {got:?}"
            );
        };
        check(Aggregation::Token, [0.25, 0.25]);
        check(Aggregation::Sequence, [1.0 / 6.0, 0.5]);
        check(Aggregation::Constant { length: NonZeroU32::new(8).unwrap() }, [1.0 / 16.0, 1.0 / 16.0]);
        check(Aggregation::Sum, [1.0, 1.0]);
    }

    #[test]
    fn a_step_without_a_trained_token_is_refused() {
        for step in [vec![], vec![0, 0]] {
            let error = Denominator::of(Aggregation::Token, step).unwrap_err().to_string();
            assert!(error.contains("no trained token"), "{error}");
        }
    }
}
