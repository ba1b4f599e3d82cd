//! On-policy distillation: learning from a teacher on the policy's own tokens (Agarwal et al. 2024; as a policy gradient:
//! Tinker). Teacher and policy must have the same token ids. There are two estimates of the divergence of the policy p from the
//! teacher q (reverse KL) at a token's position:
//!
//! - *From the drawn token*: its advantage is `ln q - ln p_old`, without a group baseline. Its expectation over draws is the negative
//!   divergence, so no term for the tokens that were not drawn is needed. Its variance is large.
//! - *From the K most likely tokens of the teacher*, and a *tail*: one bin with the rest of the mass of both, `p_tail = 1 - sum p_k`.
//!   Nothing depends on the token that was drawn:
//!
//! ```text
//! D = sum p_k (ln p_k - ln q_k) + p_tail (ln p_tail - ln q_tail)
//! dD/d(ln p_k) = p_k ((ln p_k - ln q_k) - (ln p_tail - ln q_tail))
//! ```
//!
//! Merging tokens into one bin never increases a divergence, so D is at most that over the whole vocabulary, and is 0 for equal models.
//! With all tokens of the vocabulary it is the divergence itself.

use crate::LearnError;
use clawhost_core::MOST_TAUGHT;
use serde::{Deserialize, Serialize};

/// Least mass of the tail, of both models: below it, single precision does not tell one minus a sum from 0.
const LEAST_TAIL: f64 = 1e-6;

/// The distillation term of a policy gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distillation {
    /// Weight; greater than 0.
    pub weight: f64,
    /// Most likely tokens of the teacher that are compared at every position, at most [`MOST_TAUGHT`]. 0: the drawn token alone.
    pub top: u8,
}

impl Default for Distillation {
    fn default() -> Self {
        Self { weight: 1.0, top: 0 }
    }
}

/// The divergence at a position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Divergence {
    /// Nats, weighted.
    pub(super) value: f64,
    /// Its derivative by the log-prob of each of the teacher's tokens under the policy.
    pub(super) slopes: Vec<f64>,
    /// The policy's mass of the tail.
    pub(super) tail: f64,
}

impl Distillation {
    /// The weighted advantage of a drawn token.
    pub(super) fn advantage(self, teacher: f64, old: f64) -> f64 {
        self.weight * (teacher - old)
    }

    /// The weighted divergence at a position, from pairs of log-probs: under the policy and under the teacher.
    pub(super) fn divergence(self, likely: impl Iterator<Item = (f64, f64)> + Clone) -> Divergence {
        let of_all = |which: fn((f64, f64)) -> f64| likely.clone().map(|pair| which(pair).exp()).sum::<f64>();
        let tail = |sum: f64| (1.0 - sum).max(LEAST_TAIL);
        let (own, teachers) = (tail(of_all(|(own, _)| own)), tail(of_all(|(_, teacher)| teacher)));
        let of_tail = own.ln() - teachers.ln();
        let mut value = own * of_tail;
        let mut slopes = Vec::new();
        for (own, teacher) in likely {
            let (mass, difference) = (own.exp(), own - teacher);
            value += mass * difference;
            slopes.push(self.weight * mass * (difference - of_tail));
        }
        Divergence { value: self.weight * value, slopes, tail: own }
    }

    pub(in super::super) fn check(&self) -> Result<(), LearnError> {
        if !(self.weight.is_finite() && self.weight > 0.0) {
            let what = format!("the teacher has weight {}; expected more than 0", self.weight);
            return Err(LearnError::Objective(what));
        }
        if self.top > MOST_TAUGHT {
            let what = format!("the {} most likely tokens of the teacher; expected at most {MOST_TAUGHT}", self.top);
            return Err(LearnError::Objective(what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advantage_is_the_weighted_difference_from_the_teacher() {
        let check = |weight: f64, expect: f64| {
            assert_eq!(Distillation { weight, top: 0 }.advantage(-0.5, -9.0), expect);
        };
        check(1.0, 8.5);
        check(0.5, 4.25);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let check = |weight: f64, top: u8, expect: &str| {
            let error = Distillation { weight, top }.check().unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        for weight in [0.0, -1.0, f64::NAN] {
            check(weight, 0, "expected more than 0");
        }
        check(1.0, 21, "the 21 most likely tokens of the teacher; expected at most 20");
    }

    /// Log-probs of two distributions over these tokens, by the teacher's order.
    fn pairs(policy: &[f64], teacher: &[f64], top: usize) -> Vec<(f64, f64)> {
        policy.iter().zip(teacher).take(top).map(|(own, teacher)| (own.ln(), teacher.ln())).collect()
    }

    fn close(found: f64, expect: f64) {
        assert!((found - expect).abs() < 1e-9, "{found} is not {expect}");
    }

    #[test]
    fn divergences_over_bins_equal_the_reference() {
        // Computed by an independent script (numpy, float64): p = .1 .2 .3 .4, q = .5 .25 .15 .1.
        let (policy, teacher) = ([0.1, 0.2, 0.3, 0.4], [0.5, 0.25, 0.15, 0.1]);
        let check = |top: u8, value: f64, slopes: &[f64]| {
            let count = usize::from(top);
            let found = Distillation { weight: 1.0, top }.divergence(pairs(&policy, &teacher, count).into_iter());
            close(found.value, value);
            assert_eq!(found.slopes.len(), slopes.len());
            found.slopes.iter().zip(slopes).for_each(|(found, expect)| close(*found, *expect));
            close(found.tail, 1.0 - policy[..count].iter().sum::<f64>());
        };
        check(1, 0.368_064_207_2, &[-0.219_722_457_7]);
        check(2, 0.515_161_090_5, &[-0.263_905_733_0, -0.250_552_593_7]);
        check(3, 0.556_889_397_1, &[-0.299_573_227_4, -0.321_887_582_5, -0.207_944_154_2]);
        let half = Distillation { weight: 0.5, top: 2 }.divergence(pairs(&policy, &teacher, 2).into_iter());
        close(half.value, 0.515_161_090_5 / 2.0);
        close(half.slopes[0], -0.263_905_733_0 / 2.0);
    }

    #[test]
    fn equal_models_do_not_diverge_and_an_empty_tail_adds_nothing() {
        let rule = Distillation { weight: 1.0, top: 4 };
        let equal = [0.7, 0.2, 0.06, 0.04];
        let found = rule.divergence(pairs(&equal, &equal, 2).into_iter());
        assert_eq!((found.value, found.slopes), (0.0, vec![0.0; 2]));
        // All of the vocabulary: the divergence itself, by rounding of the tail.
        let other = [0.25; 4];
        let found = rule.divergence(pairs(&equal, &other, 4).into_iter());
        close(found.value, equal.iter().map(|mass| mass * (mass / 0.25_f64).ln()).sum());
        // Tokens that neither model thinks possible.
        let far = [(-800.0, -1e9), (-1e-12, -1e-12)];
        let found = rule.divergence(far.into_iter());
        assert!(found.value.is_finite() && found.slopes.iter().all(|slope| slope.is_finite()), "{found:?}");
    }
}
