//! Learning from a teacher on one's own tokens (on-policy distillation: Agarwal et al. 2024; as a policy gradient: Tinker).
//!
//! The advantage of a token is `teacher - old`, whoever likes the token better. It is per token and never compared in a group.
//! The teacher may be the policy itself with a *hint* in its prompt, drawn in hindsight from how the episode went: what the hint
//! makes likelier is learned, and later done without it.

use super::super::sample::check_logprobs;
use crate::LearnError;
use crate::playbook::words;
use serde::{Deserialize, Serialize};

/// With a hint single tokens may differ by far more than anything that should be learned at once, nats.
const HINT_CLIP: f64 = 5.0;

/// So many words in a row of the answer give it away.
const REVEALING_WORDS: usize = 4;

/// What a teacher contributes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distillation {
    /// Over 0.
    pub weight: f64,
    /// Advantages are cut to plus and minus so many nats, before the weight.
    pub clip: Option<f64>,
}

impl Distillation {
    /// Another model: weight 1, not clipped.
    pub fn teacher() -> Self {
        Self { weight: 1.0, clip: None }
    }

    /// The policy itself with a hint: weight 1, clipped to 5 nats.
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
        let what = format!("weight {} and clip {:?} of the teacher are over 0", self.weight, self.clip);
        Err(LearnError::Objective(what))
    }
}

/// A teacher's log-probs of the very tokens that the policy chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Teacher(Vec<f64>);

impl Teacher {
    /// The teacher's log-probs, with the ids it read as reply and those the policy wrote.
    ///
    /// # Errors
    ///
    /// [`LearnError::Sequence`] if the ids differ: with another tokenizer there is nothing to compare token by token.
    /// [`LearnError::LogProb`] for what is no log-prob.
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
                "the teacher reads {other} tokens where the policy wrote {own}; they need one tokenizer"
            ));
        }
        let pairs = policy_ids.iter().zip(teacher_ids).enumerate();
        if let Some((at, (own, other))) = pairs.into_iter().find(|(_, (own, other))| own != other) {
            return refuse(format!("at token {at} the teacher reads id {other} where the policy wrote {own}"));
        }
        check_logprobs(sequence, "teacher", &logprobs, policy_ids.len())?;
        Ok(Self(logprobs))
    }

    /// One per token.
    pub fn logprobs(&self) -> &[f64] {
        &self.0
    }
}

/// Whether a hint gives the answer away: it holds four words in a row of the answer, or all of a shorter one. Such
/// a hint teaches to have been told. Words are compared in lower case and singular, without punctuation; an answer without
/// words is given away by nothing.
pub fn reveals(hint: &str, answer: &str) -> bool {
    let (hint, answer) = (words(hint), words(answer));
    let span = answer.len().min(REVEALING_WORDS);
    span > 0 && answer.windows(span).any(|told| hint.windows(span).any(|said| said == told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_that_holds_the_answer_is_found_out() {
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
    fn a_teacher_that_reads_other_tokens_is_refused() {
        let check = |ids: &[u32], logprobs: Vec<f64>, expect: &str| {
            let error = Teacher::new("e7", &[5, 6], ids, logprobs).unwrap_err().to_string();
            assert!(error.starts_with("sequence e7") && error.contains(expect), "{error}");
        };
        check(&[5, 7], vec![-1.0, -1.0], "at token 1 the teacher reads id 7 where the policy wrote 6");
        check(&[5], vec![-1.0], "reads 1 tokens where the policy wrote 2");
        check(&[5, 6], vec![-1.0], "teacher has 1 numbers for 2 tokens");
        check(&[5, 6], vec![-1.0, f64::NAN], "token 1: the teacher log-prob is NaN");
        assert_eq!(Teacher::new("e7", &[5, 6], &[5, 6], vec![-1.0, -2.0]).unwrap().logprobs(), [-1.0, -2.0]);
    }

    #[test]
    fn a_hint_moves_a_token_by_five_nats_at_most_and_a_teacher_by_any() {
        let check = |rule: Distillation, expect: f64| assert_eq!(rule.advantage(-0.5, -9.0), expect);
        check(Distillation::hint(), 5.0);
        check(Distillation { weight: 0.5, ..Distillation::hint() }, 2.5);
        check(Distillation::teacher(), 8.5);
        assert_eq!(Distillation::hint().advantage(-9.0, -0.5), -5.0);
    }
}
