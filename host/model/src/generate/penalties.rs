//! Penalties on tokens that occurred before: changes of logits before a token is drawn.
//!
//! ```text
//! repetition  l > 0: l / p, else l · p     tokens of the prompt and of the answer   (CTRL, Keskar et al. 2019; transformers)
//! presence    l - p                        tokens of the answer                     (OpenAI's API)
//! frequency   l - p · occurrences          tokens of the answer                     (OpenAI's API)
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// How much less likely tokens become that occurred before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    /// Divides positive logits of all earlier tokens and multiplies negative ones. 1: none.
    pub repetition: f32,
    /// Subtracted from the logits of tokens of the answer. 0: none.
    pub presence: f32,
    /// Subtracted from the logits of tokens of the answer, once for each occurrence. 0: none.
    pub frequency: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self { repetition: 1.0, presence: 0.0, frequency: 0.0 }
    }
}

impl Penalties {
    /// Whether they change no logits.
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The tokens that occurred before, as far as penalties depend on them.
#[derive(Debug, Clone, Default)]
pub(super) struct Occurred {
    /// Of the prompt and of the answer.
    earlier: BTreeSet<u32>,
    /// Of the answer, with their numbers.
    drawn: BTreeMap<u32, u32>,
}

impl Occurred {
    /// Before the answer to this prompt.
    pub(super) fn in_prompt(prompt: &[u32]) -> Self {
        Self { earlier: prompt.iter().copied().collect(), drawn: BTreeMap::new() }
    }

    /// Adds a token of the answer.
    pub(super) fn note(&mut self, token: u32) {
        self.earlier.insert(token);
        *self.drawn.entry(token).or_default() += 1;
    }

    /// Changes the logits of tokens that occurred. Each logit changes on its own, so no order matters.
    pub(super) fn penalise(&self, penalties: &Penalties, logits: &mut [f64]) {
        let repetition = f64::from(penalties.repetition);
        if penalties.repetition != 1.0 {
            for token in &self.earlier {
                if let Some(logit) = logits.get_mut(*token as usize) {
                    *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
                }
            }
        }
        let (presence, frequency) = (f64::from(penalties.presence), f64::from(penalties.frequency));
        if penalties.presence != 0.0 || penalties.frequency != 0.0 {
            for (token, count) in &self.drawn {
                if let Some(logit) = logits.get_mut(*token as usize) {
                    *logit -= presence + frequency * f64::from(*count);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_of_earlier_tokens_change_as_the_formulas_say() {
        let mut occurred = Occurred::in_prompt(&[0, 1, 9]);
        [2, 2, 1].into_iter().for_each(|token| occurred.note(token));
        let check = |penalties: Penalties, expect: [f64; 4]| {
            let mut logits = [2.0, -2.0, 4.0, 1.0];
            occurred.penalise(&penalties, &mut logits);
            assert_eq!(logits, expect, "{penalties:?}");
        };
        let none = Penalties::default();
        check(none, [2.0, -2.0, 4.0, 1.0]);
        check(Penalties { repetition: 2.0, ..none }, [1.0, -4.0, 2.0, 1.0]);
        check(Penalties { presence: 0.5, ..none }, [2.0, -2.5, 3.5, 1.0]);
        check(Penalties { frequency: 0.5, ..none }, [2.0, -2.5, 3.0, 1.0]);
        check(Penalties { repetition: 2.0, presence: 1.0, frequency: 0.25 }, [1.0, -5.25, 0.5, 1.0]);
    }
}
