//! Aggregation of token losses.
//!
//! The denominator is a property of the whole optimiser step. Computed per micro-batch, it would give tokens in small
//! micro-batches more weight, and the result would depend on the available memory. A [`Denominator`] is therefore computed
//! once per step, and every micro-batch takes its weights from it.

use crate::LearnError;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How token losses are aggregated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Mean over all trained tokens of the step: every token has equal weight (DAPO: Yu et al. 2025).
    Token,
    /// Mean over each sequence's tokens, then over sequences: every sequence has equal weight (GRPO: Shao et al. 2024).
    #[serde(rename = "seq")]
    Sequence,
    /// Sum over tokens, divided by the number of sequences times a constant: the weight of a token does not depend on any
    /// sequence length (Dr. GRPO: Liu et al. 2025).
    Constant {
        /// Usually the largest number of tokens of a trajectory.
        length: NonZeroU32,
    },
    /// Sum over tokens.
    Sum,
}

/// The denominator of the losses of one optimiser step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Denominator {
    aggregation: Aggregation,
    sequences: f64,
    tokens: f64,
}

impl Denominator {
    /// Computes it from the number of trained tokens of *every* sequence of the step. Sequences without trained tokens do
    /// not count.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`]: the step has no trained token.
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

    /// The weight of each trained token of a sequence with `trained_tokens` of them; greater than 0.
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
    fn token_weights_follow_the_aggregation() {
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
    fn a_step_without_trained_tokens_is_an_error() {
        for step in [vec![], vec![0, 0]] {
            let error = Denominator::of(Aggregation::Token, step).unwrap_err().to_string();
            assert!(error.contains("no trained token"), "{error}");
        }
    }
}
