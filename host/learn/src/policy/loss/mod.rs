//! Losses: from new log-probs to a loss and its gradient, one micro-batch at a time.
//!
//! A [`StepBatch`] is one optimiser step. It knows everything but the new log-probs, so what a micro-batch is divided by does
//! not depend on the micro-batch. Losses and gradients of the micro-batches of a step add up; [`super::Metrics::merge`]
//! puts their metrics together.

mod distillation;
mod divergence;
mod importance;
mod policy;
mod preference;
mod supervised;
mod surrogate;

pub use distillation::{Distillation, Teacher, reveals};
pub use importance::TruncatedImportance;
pub use policy::PolicyStep;
pub use preference::{Pair, PreferenceStep, Reply};
pub use supervised::SupervisedStep;
pub use surrogate::Surrogate;

use super::metrics::Metrics;
use super::sample::check_logprobs;
use crate::LearnError;
use std::collections::BTreeSet;

/// New log-probs of one sequence of the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation<'a> {
    /// Its number in the step.
    pub sequence: usize,
    /// Of every token, trained or not.
    pub new: &'a [f64],
    /// Entropy of the distribution each token was drawn from, nats, if it was computed; only for the metrics.
    pub entropy: Option<&'a [f64]>,
}

/// What a micro-batch contributes to its step.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its part of the loss: those of a step add up.
    pub loss: f64,
    /// `dLoss/dnew`, for each evaluation in the order handed over; 0 where the mask is false.
    pub gradients: Vec<Vec<f64>>,
    /// What it showed.
    pub metrics: Metrics,
}

/// One optimiser step.
pub trait StepBatch {
    /// Number of its sequences.
    fn sequences(&self) -> usize;

    /// How a sequence is called in messages, and which of its tokens are trained on. None: there is no such sequence.
    fn sequence(&self, sequence: usize) -> Option<(String, &[bool])>;

    /// Loss, gradients and metrics of a micro-batch: any of the step's sequences, in any order. Over all micro-batches each
    /// sequence is handed over once.
    ///
    /// # Errors
    ///
    /// [`LearnError::Sequence`] for a sequence that is not there, stands twice, or has another number of tokens;
    /// [`LearnError::LogProb`] for what is no log-prob; [`LearnError::Objective`] if a result overflows.
    fn loss(&self, micro_batch: &[Evaluation<'_>]) -> Result<Outcome, LearnError>;
}

/// Refuses a micro-batch that does not fit its step.
fn check(step: &dyn StepBatch, micro_batch: &[Evaluation<'_>]) -> Result<(), LearnError> {
    let mut seen = BTreeSet::new();
    for evaluation in micro_batch {
        let number = evaluation.sequence;
        let refuse = |what: String| Err(LearnError::Sequence { sequence: number.to_string(), what });
        let Some((name, mask)) = step.sequence(number) else {
            return refuse(format!("the step has sequences 0 to {}", step.sequences().saturating_sub(1)));
        };
        if !seen.insert(number) {
            return refuse("stands twice in the micro-batch and would count twice".into());
        }
        check_logprobs(&name, "new", evaluation.new, mask.len())?;
        if let Some(entropy) = evaluation.entropy
            && (entropy.len() != mask.len() || entropy.iter().any(|number| !number.is_finite()))
        {
            return refuse(format!("entropy is not one finite number for each of {} tokens", mask.len()));
        }
    }
    Ok(())
}

/// Numbers out of all range (rewards of 1e308) overflow although each is finite: that ends here, not in the weights.
fn finite(outcome: Outcome) -> Result<Outcome, LearnError> {
    if outcome.loss.is_finite() && outcome.gradients.iter().flatten().all(|slope| slope.is_finite()) {
        return Ok(outcome);
    }
    let what =
        format!("the loss is {} or a gradient is not finite: rewards or log-probs are out of all range", outcome.loss);
    Err(LearnError::Objective(what))
}

/// The numbers of trained tokens.
fn trained<'a>(numbers: &'a [f64], mask: &'a [bool]) -> impl Iterator<Item = f64> + 'a {
    numbers.iter().zip(mask).filter(|(_, trained)| **trained).map(|(number, _)| *number)
}

fn note_entropy(metrics: &mut Metrics, evaluation: &Evaluation<'_>, mask: &[bool]) {
    if let Some(entropy) = evaluation.entropy {
        trained(entropy, mask).for_each(|nats| metrics.entropy.note(nats));
    }
}
