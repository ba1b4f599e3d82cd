//! On-policy distillation: learning from a teacher on the policy's own tokens (Agarwal et al. 2024; as a policy gradient:
//! Tinker).
//!
//! The advantage of a token is `teacher - old`, per token and without a group baseline. Its expectation is the negative divergence
//! of the policy from the teacher (reverse KL), so no term for the tokens that were not drawn is needed. Teacher and policy must
//! have the same token ids.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advantage_is_the_weighted_difference_from_the_teacher() {
        let check = |weight: f64, expect: f64| assert_eq!(Distillation { weight }.advantage(-0.5, -9.0), expect);
        check(1.0, 8.5);
        check(0.5, 4.25);
        for weight in [0.0, -1.0, f64::NAN] {
            let error = Distillation { weight }.check().unwrap_err().to_string();
            assert!(error.contains("expected more than 0"), "{error}");
        }
    }
}
