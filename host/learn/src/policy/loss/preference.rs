//! Direct preference optimisation (Rafailov et al. 2023).

use super::{Evaluation, Outcome, StepBatch, check, finite, note_entropy, trained};
use crate::LearnError;
use crate::policy::metrics::Metrics;
use crate::policy::sample::check_logprobs;

/// A reply with its log-probs under the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    reference: f64,
    mask: Vec<bool>,
}

impl Reply {
    /// Built from the reference's log-probs of all tokens, and the mask of the reply (including its end-of-sequence token).
    ///
    /// # Errors
    ///
    /// [`LearnError::Sequence`] and [`LearnError::LogProb`], as for a trajectory of this name.
    pub fn new(sequence: &str, reference: &[f64], mask: Vec<bool>) -> Result<Self, LearnError> {
        check_logprobs(sequence, "reference", reference, mask.len())?;
        if !mask.contains(&true) {
            let what = "no token of the reply is in its mask".into();
            return Err(LearnError::Sequence { sequence: sequence.to_owned(), what });
        }
        Ok(Self { reference: trained(reference, &mask).sum(), mask })
    }

    /// Log-prob of the reply minus that under the reference, nats.
    pub(super) fn gain(&self, new: &[f64]) -> f64 {
        trained(new, &self.mask).sum::<f64>() - self.reference
    }

    pub(super) fn mask(&self) -> &[bool] {
        &self.mask
    }
}

/// Two replies to one prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The preferred reply.
    pub chosen: Reply,
    /// The other reply.
    pub rejected: Reply,
}

/// One optimiser step over pairs: the mean of `-log sigmoid(beta ((w - w_reference) - (l - l_reference)))`, where w and l
/// are *sums* of log-probs over the chosen and the rejected reply. Pair n has sequences 2n (chosen) and 2n + 1 (rejected).
#[derive(Debug, Clone)]
pub struct PreferenceStep {
    beta: f64,
    pairs: Vec<Pair>,
}

impl PreferenceStep {
    /// Built from all pairs of the step.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`]: there is no pair, or `beta` is not greater than 0.
    pub fn new(beta: f64, pairs: Vec<Pair>) -> Result<Self, LearnError> {
        if !(beta.is_finite() && beta > 0.0) {
            return Err(LearnError::Objective(format!("beta is {beta}; expected more than 0")));
        }
        if pairs.is_empty() {
            return Err(LearnError::Objective("the step has no pair".into()));
        }
        Ok(Self { beta, pairs })
    }

    fn reply(&self, sequence: usize) -> Option<&Reply> {
        let pair = self.pairs.get(sequence / 2)?;
        Some(if sequence.is_multiple_of(2) { &pair.chosen } else { &pair.rejected })
    }

    fn gain(&self, evaluation: &Evaluation<'_>) -> f64 {
        self.reply(evaluation.sequence).map_or(0.0, |reply| reply.gain(evaluation.new))
    }
}

impl StepBatch for PreferenceStep {
    fn sequences(&self) -> usize {
        2 * self.pairs.len()
    }

    fn sequence(&self, sequence: usize) -> Option<(String, &[bool])> {
        Some((sequence.to_string(), &self.reply(sequence)?.mask))
    }

    /// See [`StepBatch::loss`]. Both replies of a pair must be in the same micro-batch.
    fn loss(&self, micro_batch: &[Evaluation<'_>]) -> Result<Outcome, LearnError> {
        check(self, micro_batch)?;
        let mut metrics = Metrics::default();
        let weight = 1.0 / self.pairs.len() as f64;
        let (mut loss, mut gradients) = (0.0, Vec::with_capacity(micro_batch.len()));
        for evaluation in micro_batch {
            let partner = evaluation.sequence ^ 1;
            let Some(other) = micro_batch.iter().find(|other| other.sequence == partner) else {
                let what = format!("the other reply of its pair, sequence {partner}, is in another micro-batch");
                return Err(LearnError::Sequence { sequence: evaluation.sequence.to_string(), what });
            };
            let is_chosen = evaluation.sequence < partner;
            let difference = self.gain(evaluation) - self.gain(other);
            let margin = self.beta * if is_chosen { difference } else { -difference };
            // -log sigmoid(m) = ln(1 + exp(-m)), computed without overflow for either sign.
            let decay = (-margin.abs()).exp();
            if is_chosen {
                loss += weight * ((-margin).max(0.0) + decay.ln_1p());
                metrics.preference_accuracy.note(f64::from(u8::from(margin > 0.0)));
                metrics.preference_margin.note(margin);
            }
            let doubt = if margin > 0.0 { decay / (1.0 + decay) } else { 1.0 / (1.0 + decay) };
            let slope = weight * self.beta * if is_chosen { -doubt } else { doubt };
            let mask = self.reply(evaluation.sequence).map_or(&[][..], |reply| &reply.mask);
            gradients.push(mask.iter().map(|trained| if *trained { slope } else { 0.0 }).collect());
            note_entropy(&mut metrics, evaluation, mask);
        }
        finite(Outcome { loss, gradients, likely: Vec::new(), metrics })
    }
}
