//! Learning from replies that are labelled as desirable or not: KTO (Ethayarajh et al. 2024, "KTO: Model alignment as prospect
//! theoretic optimization").
//!
//! With `r`, the log-prob of a reply minus that under the reference (sums over its tokens, nats), and z, the divergence of the
//! policy from the reference, the loss of a reply is
//!
//! ```text
//! desirable:    w_desirable   (1 - sigmoid(beta (r - z)))
//! undesirable:  w_undesirable (1 - sigmoid(beta (z - r)))
//! ```
//!
//! z is estimated from *mismatched* pairs of the batch: prompts with the reply of another example. It has no gradient.

use super::{Evaluation, Outcome, Reply, StepBatch, check, finite, note_entropy};
use crate::LearnError;
use crate::policy::metrics::Metrics;
use serde::{Deserialize, Serialize};

/// The settings of the loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LabelledSettings {
    /// Strength of the reference constraint; greater than 0.
    pub beta: f64,
    /// Weight of desirable replies; greater than 0. With unequal numbers of both, weights times numbers should be in 1 : 1 to
    /// 4 : 3 (section 4.2 there).
    pub desirable: f64,
    /// Weight of undesirable replies; greater than 0.
    pub undesirable: f64,
}

/// A reply with its label.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledReply {
    /// The reply.
    pub reply: Reply,
    /// Whether it is desirable.
    pub is_desirable: bool,
}

/// One optimiser step over labelled replies: the mean of their losses.
#[derive(Debug, Clone)]
pub struct LabelledStep {
    settings: LabelledSettings,
    replies: Vec<LabelledReply>,
    divergence: f64,
}

/// The estimated divergence of the policy from the reference, nats: the mean over mismatched replies of the log-prob minus that
/// under the reference, and 0 if the mean is negative or there are none.
pub fn mismatched_divergence(gains: &[f64]) -> f64 {
    crate::policy::advantage::mean(gains).max(0.0)
}

impl LabelledStep {
    /// Built from all replies of the step, and from the [`mismatched_divergence`] of its batch.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`]: there is no reply, a setting is not greater than 0, or the divergence is negative or not finite.
    pub fn new(settings: LabelledSettings, replies: Vec<LabelledReply>, divergence: f64) -> Result<Self, LearnError> {
        let refuse = |what: String| Err(LearnError::Objective(what));
        let LabelledSettings { beta, desirable, undesirable } = settings;
        for (name, value) in [
            ("beta", beta),
            ("the weight of desirable replies", desirable),
            ("the weight of undesirable replies", undesirable),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return refuse(format!("{name} is {value}; expected more than 0"));
            }
        }
        if !(divergence.is_finite() && divergence >= 0.0) {
            return refuse(format!("the divergence from the reference is {divergence}; expected 0 or more"));
        }
        if replies.is_empty() {
            return refuse("the step has no reply".into());
        }
        Ok(Self { settings, replies, divergence })
    }
}

impl StepBatch for LabelledStep {
    fn sequences(&self) -> usize {
        self.replies.len()
    }

    fn sequence(&self, sequence: usize) -> Option<(String, &[bool])> {
        Some((sequence.to_string(), self.replies.get(sequence)?.reply.mask()))
    }

    fn loss(&self, micro_batch: &[Evaluation<'_>]) -> Result<Outcome, LearnError> {
        check(self, micro_batch)?;
        let LabelledSettings { beta, desirable, undesirable } = self.settings;
        let mut metrics = Metrics::default();
        let share = 1.0 / self.replies.len() as f64;
        let (mut loss, mut gradients) = (0.0, Vec::with_capacity(micro_batch.len()));
        for evaluation in micro_batch {
            let Some(LabelledReply { reply, is_desirable }) = self.replies.get(evaluation.sequence) else { continue };
            let (sign, weight) = if *is_desirable { (1.0, desirable) } else { (-1.0, undesirable) };
            let margin = sign * beta * (reply.gain(evaluation.new) - self.divergence);
            // 1 - sigmoid(m) = 1 / (1 + exp(m)), computed without overflow for either sign.
            let decay = (-margin.abs()).exp();
            let doubt = if margin > 0.0 { decay / (1.0 + decay) } else { 1.0 / (1.0 + decay) };
            loss += share * weight * doubt;
            let slope = -share * weight * sign * beta * doubt * (1.0 - doubt);
            metrics.preference_accuracy.note(f64::from(u8::from(margin > 0.0)));
            metrics.preference_margin.note(margin);
            gradients.push(reply.mask().iter().map(|trained| if *trained { slope } else { 0.0 }).collect());
            note_entropy(&mut metrics, evaluation, reply.mask());
        }
        finite(Outcome { loss, gradients, likely: Vec::new(), metrics })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: LabelledSettings = LabelledSettings { beta: 0.1, desirable: 1.0, undesirable: 1.5 };

    fn reply(reference: &[f64], is_desirable: bool) -> LabelledReply {
        LabelledReply { reply: Reply::new("r", reference, vec![true; reference.len()]).unwrap(), is_desirable }
    }

    fn evaluations<'a>(new: &[&'a [f64]]) -> Vec<Evaluation<'a>> {
        (0..).zip(new).map(|(sequence, new)| Evaluation { sequence, new, ..Evaluation::default() }).collect()
    }

    #[test]
    fn the_loss_of_labelled_replies_equals_the_reference() {
        // Computed by an independent script (float64): see the formula at the top.
        let replies = vec![reply(&[-0.3, -1.5, -0.6], true), reply(&[-0.5, -0.5], false)];
        let step = LabelledStep::new(SETTINGS, replies, mismatched_divergence(&[0.7, -0.1])).unwrap();
        let outcome = step.loss(&evaluations(&[&[-0.1, -2.0, -0.5], &[-1.0, -0.3]])).unwrap();
        let close = |got: f64, expect: f64| assert!((got - expect).abs() < 5e-10, "{got} is not {expect}");
        close(outcome.loss, 0.620_002_072_028);
        for slope in &outcome.gradients[0] {
            close(*slope, -0.012_492_190_754);
        }
        for slope in &outcome.gradients[1] {
            close(*slope, 0.018_733_135_120);
        }
        let measured = outcome.metrics.named().by_name();
        assert_eq!(measured["preference_accuracy"], 0.5, "the desirable reply gained less than the divergence");
    }

    #[test]
    fn a_gradient_is_the_derivative_of_the_loss() {
        let replies = vec![reply(&[-1.0, -0.4], true), reply(&[-2.0], false)];
        let step = LabelledStep::new(SETTINGS, replies, 0.2).unwrap();
        let loss = |first: f64, other: f64| step.loss(&evaluations(&[&[first, -0.6], &[other]])).unwrap();
        let (at, by) = (loss(-0.3, -1.1), 1e-5);
        let slope = |high: Outcome, low: Outcome| (high.loss - low.loss) / (2.0 * by);
        let first = slope(loss(-0.3 + by, -1.1), loss(-0.3 - by, -1.1));
        let other = slope(loss(-0.3, -1.1 + by), loss(-0.3, -1.1 - by));
        assert!((first - at.gradients[0][0]).abs() < 1e-9 && (other - at.gradients[1][0]).abs() < 1e-9);
        assert!(at.gradients[0][0] < 0.0 && at.gradients[1][0] > 0.0);
        let parts: f64 = [0, 1]
            .map(|one| step.loss(&evaluations(&[&[-0.3, -0.6], &[-1.1]])[one..=one]).unwrap().loss)
            .into_iter()
            .sum();
        assert!((parts - at.loss).abs() < 1e-12, "micro-batches add up");
    }

    #[test]
    fn the_divergence_is_never_negative() {
        let check = |gains: &[f64], expect: f64| assert_eq!(mismatched_divergence(gains), expect);
        check(&[], 0.0);
        check(&[-1.0, 0.5], 0.0);
        check(&[1.0, 2.0], 1.5);
    }

    #[test]
    fn invalid_labelled_steps_are_refused_and_nothing_overflows() {
        let check = |settings: LabelledSettings, replies: Vec<LabelledReply>, divergence: f64, expect: &str| {
            let error = LabelledStep::new(settings, replies, divergence).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        let some = || vec![reply(&[-1.0], true)];
        check(LabelledSettings { beta: 0.0, ..SETTINGS }, some(), 0.0, "beta is 0");
        check(LabelledSettings { desirable: f64::NAN, ..SETTINGS }, some(), 0.0, "desirable replies is NaN");
        check(LabelledSettings { undesirable: -1.0, ..SETTINGS }, some(), 0.0, "undesirable replies is -1");
        check(SETTINGS, some(), -0.1, "the divergence from the reference is -0.1");
        check(SETTINGS, vec![], 0.0, "no reply");
        let step = LabelledStep::new(LabelledSettings { beta: 1e6, ..SETTINGS }, some(), 0.0).unwrap();
        for new in [-1e9, 0.0] {
            let outcome = step.loss(&evaluations(&[&[new]])).unwrap();
            assert!(outcome.loss.is_finite() && outcome.gradients[0][0].abs() < 1e-9);
        }
    }
}
