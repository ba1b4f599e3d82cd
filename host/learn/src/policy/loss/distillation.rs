//! On-policy distillation: learning from a teacher on the policy's own tokens (Agarwal et al. 2024; as a policy gradient:
//! Tinker).
//!
//! The advantage of a token is `teacher - old`, per token and without a group baseline.

use super::super::sample::check_logprobs;
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// The distillation term of a policy gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distillation {
    /// Weight; greater than 0.
    pub weight: f64,
}

impl Default for Distillation {
    fn default() -> Self {
        Self { weight: 1.0 }
    }
}

impl Distillation {
    /// The weighted advantage of a token.
    pub(super) fn advantage(self, teacher: f64, old: f64) -> f64 {
        self.weight * (teacher - old)
    }

    pub(in super::super) fn check(&self) -> Result<(), LearnError> {
        if self.weight.is_finite() && self.weight > 0.0 {
            return Ok(());
        }
        Err(LearnError::Objective(format!("the teacher has weight {}; expected more than 0", self.weight)))
    }
}

/// A teacher's log-probs of the tokens that the policy sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Teacher(Vec<f64>);

impl Teacher {
    /// Checks the teacher's log-probs against the token ids that the teacher read and the policy sampled.
    ///
    /// # Errors
    ///
    /// [`LearnError::Sequence`]: the ids differ, so the tokenizers differ and tokens cannot be compared.
    /// [`LearnError::LogProb`]: an invalid log-prob.
    pub fn new(
        sequence: &str,
        policy_ids: &[u32],
        teacher_ids: &[u32],
        logprobs: Vec<f64>,
    ) -> Result<Self, LearnError> {
        let refuse = |what: String| Err(LearnError::Sequence { sequence: sequence.to_owned(), what });
        if policy_ids.len() != teacher_ids.len() {
            let (own, other) = (policy_ids.len(), teacher_ids.len());
            return refuse(format!(
                "the teacher reads {other} tokens where the policy sampled {own}; they need the same tokenizer"
            ));
        }
        let pairs = policy_ids.iter().zip(teacher_ids).enumerate();
        if let Some((at, (own, other))) = pairs.into_iter().find(|(_, (own, other))| own != other) {
            return refuse(format!("at token {at} the teacher reads id {other} where the policy sampled {own}"));
        }
        check_logprobs(sequence, "teacher", &logprobs, policy_ids.len())?;
        Ok(Self(logprobs))
    }

    /// One log-prob per token.
    pub fn logprobs(&self) -> &[f64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_teacher_with_other_token_ids_is_an_error() {
        let check = |ids: &[u32], logprobs: Vec<f64>, expect: &str| {
            let error = Teacher::new("e7", &[5, 6], ids, logprobs).unwrap_err().to_string();
            assert!(error.starts_with("sequence e7") && error.contains(expect), "{error}");
        };
        check(&[5, 7], vec![-1.0, -1.0], "at token 1 the teacher reads id 7 where the policy sampled 6");
        check(&[5], vec![-1.0], "reads 1 tokens where the policy sampled 2");
        check(&[5, 6], vec![-1.0], "teacher has 1 numbers for 2 tokens");
        check(&[5, 6], vec![-1.0, f64::NAN], "token 1: the teacher log-prob is NaN");
        assert_eq!(Teacher::new("e7", &[5, 6], &[5, 6], vec![-1.0, -2.0]).unwrap().logprobs(), [-1.0, -2.0]);
    }
}
