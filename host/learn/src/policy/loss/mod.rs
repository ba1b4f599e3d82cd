//! Losses: from new log-probs to a loss and its gradient, one micro-batch at a time.
//!
//! A [`StepBatch`] is one optimiser step. It contains everything except the new log-probs, so the denominator does not
//! depend on the micro-batch. Losses and gradients of the micro-batches of a step add up; [`super::Metrics::merge`] merges
//! their metrics.

mod distillation;
mod divergence;
mod importance;
mod labelled;
mod policy;
mod preference;
mod supervised;
mod surrogate;

pub use distillation::Distillation;
pub use importance::TruncatedImportance;
pub use labelled::{LabelledReply, LabelledSettings, LabelledStep, mismatched_divergence};
pub use policy::PolicyStep;
pub use preference::{Pair, PreferenceStep, Reply};
pub use supervised::SupervisedStep;
pub use surrogate::Surrogate;

use super::metrics::Metrics;
use super::sample::check_logprobs;
use crate::LearnError;
use std::collections::BTreeSet;

/// New log-probs of one sequence of the step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evaluation<'a> {
    /// Index of the sequence in the step.
    pub sequence: usize,
    /// Log-probs of all tokens, trained or not.
    pub new: &'a [f64],
    /// Entropy of each token's distribution, nats, if computed; used only for metrics.
    pub entropy: Option<&'a [f64]>,
    /// For each token, the log-probs of the tokens that the teacher named at its position ([`super::Recorded::likely`]). Empty: of none.
    pub likely: &'a [Vec<f64>],
}

/// The contribution of a micro-batch to its step.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its loss; the losses of a step add up.
    pub loss: f64,
    /// `dLoss/dnew` for each evaluation, in the given order; 0 where the mask is false.
    pub gradients: Vec<Vec<f64>>,
    /// `dLoss/dlikely` for each evaluation, as [`Evaluation::likely`]. Empty: the loss depends on none of them.
    pub likely: Vec<Vec<Vec<f64>>>,
    /// Its metrics.
    pub metrics: Metrics,
}

/// One optimiser step.
pub trait StepBatch {
    /// Number of sequences.
    fn sequences(&self) -> usize;

    /// A sequence's name for messages and its mask; `None` if the index is out of range.
    fn sequence(&self, sequence: usize) -> Option<(String, &[bool])>;

    /// Loss, gradients and metrics of a micro-batch: any of the step's sequences, in any order. Over all micro-batches each
    /// sequence must occur once.
    ///
    /// # Errors
    ///
    /// [`LearnError::Sequence`]: a sequence is unknown, repeated, or has another number of tokens. [`LearnError::LogProb`]:
    /// an invalid log-prob. [`LearnError::Objective`]: the result is not finite.
    fn loss(&self, micro_batch: &[Evaluation<'_>]) -> Result<Outcome, LearnError>;
}

/// Checks that a micro-batch matches its step.
fn check(step: &dyn StepBatch, micro_batch: &[Evaluation<'_>]) -> Result<(), LearnError> {
    let mut seen = BTreeSet::new();
    for evaluation in micro_batch {
        let number = evaluation.sequence;
        let refuse = |what: String| Err(LearnError::Sequence { sequence: number.to_string(), what });
        let Some((name, mask)) = step.sequence(number) else {
            return refuse(format!("the step has sequences 0 to {}", step.sequences().saturating_sub(1)));
        };
        if !seen.insert(number) {
            return refuse("occurs twice in the micro-batch and would count twice".into());
        }
        check_logprobs(&name, "new", evaluation.new, mask.len())?;
        if let Some(entropy) = evaluation.entropy
            && (entropy.len() != mask.len() || entropy.iter().any(|number| !number.is_finite()))
        {
            return refuse(format!("entropy is not one finite number for each of {} tokens", mask.len()));
        }
        for likely in evaluation.likely {
            check_logprobs(&name, "new", likely, likely.len())?;
        }
    }
    Ok(())
}

/// Extreme inputs (rewards of 1e308) overflow although each is finite. They are caught here, before they reach the weights.
fn finite(outcome: Outcome) -> Result<Outcome, LearnError> {
    let slopes = outcome.gradients.iter().flatten().chain(outcome.likely.iter().flatten().flatten());
    if outcome.loss.is_finite() && slopes.copied().all(f64::is_finite) {
        return Ok(outcome);
    }
    let what = format!("the loss is {} or a gradient is not finite: rewards or log-probs are too large", outcome.loss);
    Err(LearnError::Objective(what))
}

/// The numbers where the mask is true.
fn trained<'a>(numbers: &'a [f64], mask: &'a [bool]) -> impl Iterator<Item = f64> + 'a {
    numbers.iter().zip(mask).filter(|(_, trained)| **trained).map(|(number, _)| *number)
}

fn note_entropy(metrics: &mut Metrics, evaluation: &Evaluation<'_>, mask: &[bool]) {
    if let Some(entropy) = evaluation.entropy {
        trained(entropy, mask).for_each(|nats| metrics.entropy.note(nats));
    }
}
