//! The policy-gradient loss: surrogate, importance weight, distillation and KL terms combined.

use super::divergence::k3;
use super::{Evaluation, Outcome, StepBatch, check, finite, note_entropy};
use crate::LearnError;
use crate::policy::aggregate::Denominator;
use crate::policy::experience::Trained;
use crate::policy::metrics::Metrics;
use crate::policy::objective::PolicyGradient;
use std::collections::BTreeSet;
use std::iter::repeat;

/// Derivatives of one sequence: by the log-probs of its tokens, and by those of the tokens that the teacher named.
type Slopes = (Vec<f64>, Vec<Vec<f64>>);

/// One optimiser step over trajectories.
#[derive(Debug, Clone)]
pub struct PolicyStep<'a> {
    objective: PolicyGradient,
    sequences: Vec<&'a Trained>,
    denominator: Denominator,
}

impl<'a> PolicyStep<'a> {
    pub(in crate::policy) fn new(
        objective: PolicyGradient,
        trained: &'a [Trained],
        numbers: &[usize],
    ) -> Result<Self, LearnError> {
        let refuse = |what: String| LearnError::Objective(what);
        let mut seen = BTreeSet::new();
        let mut sequences = Vec::with_capacity(numbers.len());
        for number in numbers {
            let sequence = trained
                .get(*number)
                .ok_or_else(|| refuse(format!("the step has trajectory {number} of {}", trained.len())))?;
            if !seen.insert(number) {
                return Err(refuse(format!("the step has trajectory {number} twice")));
            }
            sequences.push(sequence);
        }
        let lengths = sequences.iter().map(|sequence| sequence.trajectory().trained_tokens());
        let denominator = Denominator::of(objective.aggregation, lengths)?;
        Ok(Self { objective, sequences, denominator })
    }

    /// The trajectory of a sequence of the step.
    pub fn trained(&self, sequence: usize) -> Option<&'a Trained> {
        self.sequences.get(sequence).copied()
    }

    /// The derivatives by the log-probs of the tokens, and by those of the tokens that the teacher named.
    fn sequence_loss(&self, trained: &Trained, evaluation: &Evaluation<'_>, metrics: &mut Metrics) -> Slopes {
        let objective = &self.objective;
        // The divergence over the teacher's tokens takes the place of the drawn token's advantage.
        let distillation = objective.distillation.filter(|rule| rule.top == 0);
        let over_bins = objective.distillation.filter(|rule| rule.top > 0);
        let tokens = Token::all(trained, evaluation);
        let count = tokens.iter().flatten().count().max(1) as f64;
        let weight = self.denominator.weight(tokens.iter().flatten().count());
        let mean_log_ratio = tokens.iter().flatten().map(|token| token.new - token.old).sum::<f64>() / count;
        let reward_weight = objective.reward.map_or(0.0, |reward| reward.weight);
        let mut sequence_slope = 0.0;
        let mut gradients = Vec::with_capacity(tokens.len());
        let mut likely = Vec::new();
        for (place, token) in tokens.into_iter().enumerate() {
            let Some(token) = token else {
                gradients.push(0.0);
                likely.extend(over_bins.map(|_| vec![0.0; evaluation.likely.get(place).map_or(0, Vec::len)]));
                continue;
            };
            let from_reward = reward_weight * token.advantage;
            if let Some(rule) = over_bins {
                let own = evaluation.likely.get(place).into_iter().flatten().copied();
                let teachers = trained.trajectory().recorded().likely.get(place).into_iter().flatten();
                let mut found = rule.divergence(own.zip(teachers.map(|(_, logprob)| *logprob)));
                found.slopes.iter_mut().for_each(|slope| *slope *= weight);
                likely.push(found.slopes);
                metrics.distillation_loss += weight * found.value;
                metrics.distillation_advantage.note(-found.value);
                metrics.distillation_tail.note(found.tail);
            }
            let teacher = distillation.zip(token.teacher);
            let from_teacher = teacher.map_or(0.0, |(rule, teacher)| rule.advantage(teacher, token.old));
            let of_sequence = objective.surrogate.is_of_sequence();
            let log_ratio = if of_sequence { mean_log_ratio } else { token.new - token.old };
            let term = objective.surrogate.term(log_ratio, token.new, from_reward + from_teacher);
            let (importance, truncated) =
                objective.truncated_importance.map_or((1.0, false), |rule| rule.weight(token.old, token.rollout));
            let (divergence, divergence_slope) =
                token.reference.map_or((0.0, 0.0), |reference| k3(token.new, reference));

            metrics.reward_loss -= weight * importance * term.value * from_reward;
            metrics.distillation_loss -= weight * importance * term.value * from_teacher;
            metrics.kl_loss += weight * objective.kl * divergence;
            let slope = -importance * term.slope * (from_reward + from_teacher);
            let own_slope = if of_sequence { 0.0 } else { slope };
            sequence_slope += slope - own_slope;
            gradients.push(weight * (own_slope + objective.kl * divergence_slope));

            metrics.clip_fraction.note(f64::from(u8::from(term.is_clipped)));
            metrics.note_ratio(super::surrogate::ratio(log_ratio).0);
            // Under the old policy, which sampled these tokens.
            metrics.approx_kl.note(k3(token.old, token.new).0);
            metrics.note_mismatch((token.new - token.rollout).abs());
            metrics.reward_advantage.note(from_reward);
            if token.reference.is_some() {
                metrics.kl.note(divergence);
            }
            if teacher.is_some() {
                metrics.distillation_advantage.note(from_teacher);
            }
            if objective.truncated_importance.is_some() {
                metrics.tis_truncated.note(f64::from(u8::from(truncated)));
                metrics.tis_weight.note(importance);
            }
        }
        // Each trained token contributes equally to the ratio of the sequence.
        let mask = &trained.trajectory().recorded().mask;
        for (gradient, _) in gradients.iter_mut().zip(mask).filter(|(_, trained)| **trained) {
            *gradient += weight * sequence_slope / count;
        }
        note_entropy(metrics, evaluation, mask);
        (gradients, likely)
    }

    /// Checks that there are log-probs of all tokens that the teacher named.
    fn check_likely(&self, trained: &Trained, evaluation: &Evaluation<'_>) -> Result<(), LearnError> {
        let recorded = trained.trajectory().recorded();
        let is_needed = self.objective.distillation.is_some_and(|rule| rule.top > 0);
        let expected = recorded.likely.iter().map(Vec::len);
        if !is_needed || expected.eq(evaluation.likely.iter().map(Vec::len)) {
            return Ok(());
        }
        let what = "its new log-probs of the teacher's most likely tokens are not one for each".to_owned();
        Err(LearnError::Sequence { sequence: recorded.sequence.clone(), what })
    }
}

impl StepBatch for PolicyStep<'_> {
    fn sequences(&self) -> usize {
        self.sequences.len()
    }

    fn sequence(&self, sequence: usize) -> Option<(String, &[bool])> {
        let recorded = self.sequences.get(sequence)?.trajectory().recorded();
        Some((recorded.sequence.clone(), &recorded.mask))
    }

    fn loss(&self, micro_batch: &[Evaluation<'_>]) -> Result<Outcome, LearnError> {
        check(self, micro_batch)?;
        let mut metrics = Metrics::default();
        let (mut gradients, mut likely) =
            (Vec::with_capacity(micro_batch.len()), Vec::with_capacity(micro_batch.len()));
        for evaluation in micro_batch {
            let Some(trained) = self.trained(evaluation.sequence) else { continue };
            self.check_likely(trained, evaluation)?;
            let (of_tokens, of_likely) = self.sequence_loss(trained, evaluation, &mut metrics);
            gradients.push(of_tokens);
            likely.push(of_likely);
        }
        let loss = metrics.reward_loss + metrics.distillation_loss + metrics.kl_loss;
        finite(Outcome { loss, gradients, likely, metrics })
    }
}

/// A trained token: its log-probs and its advantage.
struct Token {
    new: f64,
    old: f64,
    rollout: f64,
    reference: Option<f64>,
    teacher: Option<f64>,
    advantage: f64,
}

impl Token {
    /// One per token; `None` where the mask is false.
    fn all(trained: &Trained, evaluation: &Evaluation<'_>) -> Vec<Option<Self>> {
        let recorded = trained.trajectory().recorded();
        let reference = recorded.reference.iter().flatten().copied().map(Some).chain(repeat(None));
        let teacher = recorded.teacher.iter().flatten().copied().map(Some).chain(repeat(None));
        let logprobs = evaluation.new.iter().zip(trained.trajectory().old()).zip(&recorded.rollout);
        let rows = logprobs.zip(reference).zip(teacher).zip(trained.advantages()).zip(&recorded.mask);
        rows.map(|((((((new, old), rollout), reference), teacher), advantage), trained)| {
            let (new, old, rollout, advantage) = (*new, *old, *rollout, *advantage);
            trained.then_some(Self { new, old, rollout, reference, teacher, advantage })
        })
        .collect()
    }
}
