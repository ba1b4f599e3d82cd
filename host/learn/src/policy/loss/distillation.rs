//! On-policy distillation: learning from a teacher on the policy's own tokens (Agarwal et al. 2024; as a policy gradient:
//! Tinker).
//!
//! The advantage of a token is `teacher - old`, per token and without a group baseline. The teacher may be the policy itself
//! with a *hint* in its prompt, written in hindsight from the outcome of the episode. Training moves the policy towards what
//! it does with the hint.

use super::super::sample::check_logprobs;
use crate::LearnError;
use crate::playbook::words;
use serde::{Deserialize, Serialize};

/// Largest per-token advantage with a hint, nats: single tokens may differ by much more than one step should learn.
const HINT_CLIP: f64 = 5.0;

/// A hint that contains this many consecutive words of the answer reveals it.
const REVEALING_WORDS: usize = 4;

/// The distillation term of a policy gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distillation {
    /// Weight; greater than 0.
    pub weight: f64,
    /// Advantages are clipped to plus and minus this many nats before weighting.
    pub clip: Option<f64>,
}

impl Distillation {
    /// Another model as teacher: weight 1, not clipped.
    pub fn teacher() -> Self {
        Self { weight: 1.0, clip: None }
    }

    /// The policy with a hint as teacher: weight 1, clipped to 5 nats.
    pub fn hint() -> Self {
        Self { weight: 1.0, clip: Some(HINT_CLIP) }
    }

    /// The weighted advantage of a token.
    pub(super) fn advantage(self, teacher: f64, old: f64) -> f64 {
        let limit = self.clip.unwrap_or(f64::INFINITY);
        self.weight * (teacher - old).clamp(-limit, limit)
    }

    pub(in super::super) fn check(&self) -> Result<(), LearnError> {
        let is_over_zero = |value: f64| value.is_finite() && value > 0.0;
        if is_over_zero(self.weight) && self.clip.is_none_or(is_over_zero) {
            return Ok(());
        }
        let what = format!("the teacher has weight {} and clip {:?}; expected more than 0", self.weight, self.clip);
        Err(LearnError::Objective(what))
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

/// Whether a hint reveals the answer: it contains four consecutive words of it, or all words of a shorter one. Such a hint
/// would teach to repeat it. Words are compared in lower case and singular, without punctuation; an answer without words is
/// never revealed.
pub fn reveals(hint: &str, answer: &str) -> bool {
    let (hint, answer) = (words(hint), words(answer));
    let span = answer.len().min(REVEALING_WORDS);
    span > 0 && answer.windows(span).any(|part| hint.windows(span).any(|words| words == part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_that_contains_the_answer_reveals_it() {
        let check = |hint, answer, expect| assert_eq!(reveals(hint, answer), expect, "{hint} | {answer}");
        check("Look at the customer's tier first.", "Refund the order in full and close it.", false);
        check("You should REFUND the order, in full!", "Refund the order in full and close it.", true);
        check("refund the order", "Refund the order in full and close it.", false);
        check("it was 42, of course", "42", true);
        check("it was 421", "42", false);
        check("anything", "", false);
        check("", "42", false);
    }

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

    #[test]
    fn hint_advantages_are_clipped_to_five_nats_and_teacher_advantages_are_not() {
        let check = |rule: Distillation, expect: f64| assert_eq!(rule.advantage(-0.5, -9.0), expect);
        check(Distillation::hint(), 5.0);
        check(Distillation { weight: 0.5, ..Distillation::hint() }, 2.5);
        check(Distillation::teacher(), 8.5);
        assert_eq!(Distillation::hint().advantage(-9.0, -0.5), -5.0);
    }
}
