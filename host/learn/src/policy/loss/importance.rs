//! Truncated importance sampling: corrects the mismatch between rollout and trainer.

use super::surrogate::ratio;
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// `sg(min(exp(trainer - rollout), cap))` (Yao et al. 2025); sg stops the gradient. The surrogate's ratio refers to the
/// trainer's log-probs if they were computed. If `old` is the rollout itself, this weight is 1. So the correction is applied
/// exactly once in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TruncatedImportance {
    /// Largest weight; greater than 0.
    pub cap: f64,
}

impl Default for TruncatedImportance {
    fn default() -> Self {
        Self { cap: 2.0 }
    }
}

impl TruncatedImportance {
    /// The weight of a token, and whether the cap limits it.
    pub(super) fn weight(self, old: f64, rollout: f64) -> (f64, bool) {
        let (weight, _) = ratio(old - rollout);
        (weight.min(self.cap), weight > self.cap)
    }

    pub(in super::super) fn check(&self) -> Result<(), LearnError> {
        if self.cap.is_finite() && self.cap > 0.0 {
            return Ok(());
        }
        Err(LearnError::Objective(format!("the cap of importance weights is {}; expected more than 0", self.cap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_is_the_ratio_of_trainer_to_rollout_up_to_the_cap() {
        let check = |trainer, rollout, expect: f64, expect_truncated| {
            let (weight, is_truncated) = TruncatedImportance::default().weight(trainer, rollout);
            assert!(
                (weight - expect).abs() < 5e-7 && is_truncated == expect_truncated,
                "{trainer}, {rollout}: {weight}"
            );
        };
        check(-0.1, -0.4, 1.349_859, false);
        check(-2.0, -1.2, 0.449_329, false);
        check(-0.5, -0.5, 1.0, false);
        check(-0.2, -0.9, 2.0, true);
        check(-0.1, -1e6, 2.0, true);
    }
}
