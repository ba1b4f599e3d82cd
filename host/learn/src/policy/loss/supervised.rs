//! Supervised training: increases the likelihood of given replies.

use super::{Evaluation, Outcome, StepBatch, check, finite, note_entropy, trained};
use crate::LearnError;
use crate::policy::aggregate::{Aggregation, Denominator};
use crate::policy::metrics::Metrics;

/// One optimiser step over given replies: `-new`, the mean over all trained tokens of the step.
#[derive(Debug, Clone)]
pub struct SupervisedStep {
    masks: Vec<Vec<bool>>,
    denominator: Denominator,
}

impl SupervisedStep {
    /// Built from the mask of every sequence of the step: false for the prompt, true for the reply *and its end-of-sequence
    /// token*. Without the latter the policy does not learn to stop.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`]: no token is trained.
    pub fn new(masks: Vec<Vec<bool>>) -> Result<Self, LearnError> {
        let lengths = masks.iter().map(|mask| mask.iter().filter(|trained| **trained).count());
        let denominator = Denominator::of(Aggregation::Token, lengths)?;
        Ok(Self { masks, denominator })
    }
}

impl StepBatch for SupervisedStep {
    fn sequences(&self) -> usize {
        self.masks.len()
    }

    fn sequence(&self, sequence: usize) -> Option<(String, &[bool])> {
        Some((sequence.to_string(), self.masks.get(sequence)?))
    }

    fn loss(&self, micro_batch: &[Evaluation<'_>]) -> Result<Outcome, LearnError> {
        check(self, micro_batch)?;
        let mut metrics = Metrics::default();
        let (mut loss, mut gradients) = (0.0, Vec::with_capacity(micro_batch.len()));
        for evaluation in micro_batch {
            let Some(mask) = self.masks.get(evaluation.sequence) else { continue };
            // With token aggregation the weight is equal in all sequences.
            let weight = self.denominator.weight(mask.len());
            loss -= weight * trained(evaluation.new, mask).sum::<f64>();
            gradients.push(mask.iter().map(|trained| if *trained { -weight } else { 0.0 }).collect());
            note_entropy(&mut metrics, evaluation, mask);
        }
        finite(Outcome { loss, gradients, likely: Vec::new(), metrics })
    }
}
