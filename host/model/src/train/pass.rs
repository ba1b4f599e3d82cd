//! A pass over the sequences of an optimiser step: from their scores to accumulated gradients.

use super::{Sequence, TokenScores, Trainer};
use crate::LocalModelError;
use crate::device::ComputeDevice;
use clawhost_learn::LearnError;
use clawhost_learn::policy::{Evaluation, Metrics, StepBatch};
use std::iter::repeat_with;

/// Errors of both sides of a step.
enum StepError {
    Learn(LearnError),
    Model(LocalModelError),
}

impl From<LearnError> for StepError {
    fn from(error: LearnError) -> Self {
        Self::Learn(error)
    }
}

impl From<LocalModelError> for StepError {
    fn from(error: LocalModelError) -> Self {
        Self::Model(error)
    }
}

impl From<StepError> for LearnError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Learn(error) => error,
            StepError::Model(error) => refused(error),
        }
    }
}

/// The error of a model as one of its layer.
pub(crate) fn refused(error: LocalModelError) -> LearnError {
    if matches!(error, LocalModelError::Interrupted) {
        return LearnError::Interrupted;
    }
    LearnError::Layer { layer: "weights".into(), why: error.to_string() }
}

/// The scores of several sequences, concatenated.
pub(crate) fn joined(scores: &[TokenScores]) -> TokenScores {
    let mut all = TokenScores::default();
    for one in scores {
        all.logprobs.extend(&one.logprobs);
        all.entropies.extend(&one.entropies);
        all.beside.extend(one.beside.iter().cloned());
    }
    all
}

/// Derivatives in the order of targets: that of each token, followed by those of the tokens beside it.
fn interleaved(own: Vec<f64>, mut beside: Vec<Vec<f64>>) -> Vec<f64> {
    if beside.is_empty() {
        return own;
    }
    beside.resize(own.len(), Vec::new());
    own.into_iter().zip(beside).flat_map(|(own, beside)| std::iter::once(own).chain(beside)).collect()
}

/// Accumulates the gradients of a step, micro-batch by micro-batch. `units` has the sequences of each unit, which stays in one
/// micro-batch; `columns` divides the scores of a unit into the `each` columns that the step knows as its sequences, in order.
/// Returns the loss and the metrics of the step.
///
/// # Errors
/// The loss refuses a micro-batch, or the device failed. Nothing is accumulated.
pub(crate) fn accumulate(
    (trainer, device): (&mut Trainer, &ComputeDevice),
    step: &(dyn StepBatch + Sync),
    units: &[&[Sequence]],
    each: usize,
    columns: &(dyn Fn(usize, &[TokenScores]) -> Vec<TokenScores> + Sync),
) -> Result<(f64, Metrics), LearnError> {
    let loss = |first: usize, scores: &[Vec<TokenScores>]| {
        let all: Vec<TokenScores> = (first..).zip(scores).flat_map(|(unit, scores)| columns(unit, scores)).collect();
        let evaluations: Vec<Evaluation<'_>> = (first * each..)
            .zip(&all)
            .map(|(sequence, scores)| Evaluation {
                sequence,
                new: &scores.logprobs,
                entropy: Some(&scores.entropies),
                likely: &scores.beside,
            })
            .collect();
        let outcome = step.loss(&evaluations)?;
        let beside = outcome.likely.into_iter().chain(repeat_with(Vec::new));
        let gradients: Vec<Vec<f64>> =
            outcome.gradients.into_iter().zip(beside).map(|(own, beside)| interleaved(own, beside)).collect();
        let gradients = gradients.chunks(each.max(1)).map(<[Vec<f64>]>::concat).collect();
        Ok::<_, StepError>((gradients, (outcome.loss, outcome.metrics)))
    };
    let told = device.guarded(|| trainer.accumulate(units, &loss)).map_err(refused)??;
    let (mut loss, mut metrics) = (0.0, Metrics::default());
    for (part, found) in told {
        loss += part;
        metrics.merge(&found);
    }
    Ok((loss, metrics))
}
