//! Surrogate objectives: they bound how far one step changes the policy.

use crate::LearnError;
use serde::{Deserialize, Serialize};

/// Log-ratios are clipped to this many nats, without a gradient beyond (as in verl): keeps `exp` finite.
pub(super) const LARGEST_LOG_RATIO: f64 = 20.0;

/// The surrogate f; the loss of a token is `-f(ratio) A`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surrogate {
    /// `min(ratio A, clip(ratio, 1 - low, 1 + high) A)` (PPO: Schulman et al. 2017; with `high` above `low`: DAPO, Yu et al.
    /// 2025). For A < 0 the minimum keeps a ratio above the upper bound: a token that became more likely despite a negative
    /// advantage is never clipped.
    Clip {
        /// Lower bound 1 - low; 0 to 1.
        low: f64,
        /// Upper bound 1 + high; 0 or more.
        high: f64,
    },
    /// `ratio A`: importance sampling without bounds.
    Importance,
    /// `sg(min(ratio, 1 + high)) A new`: the ratio is a bounded weight whose gradient is stopped, so every token has a
    /// gradient (CISPO: MiniMax-M1 2025).
    BoundedWeight {
        /// 0 or more.
        high: f64,
    },
    /// Like `Clip`, with the ratio of the sequence: `exp(mean over its trained tokens of (new - old))` (GSPO: Zheng et al.
    /// 2025).
    SequenceClip {
        /// Lower bound 1 - low; 0 to 1.
        low: f64,
        /// Upper bound 1 + high; 0 or more.
        high: f64,
    },
}

/// The surrogate of one token.
pub(super) struct Term {
    /// The loss is `-value A`.
    pub(super) value: f64,
    /// `dvalue/dlog-ratio`; for a bounded weight `dvalue/dnew`.
    pub(super) slope: f64,
    /// Whether the bound limits the value.
    pub(super) is_clipped: bool,
}

/// The ratio of a log-ratio clipped to [`LARGEST_LOG_RATIO`], and its derivative by the log-ratio.
pub(super) fn ratio(log_ratio: f64) -> (f64, f64) {
    let ratio = log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp();
    (ratio, if log_ratio.abs() < LARGEST_LOG_RATIO { ratio } else { 0.0 })
}

impl Surrogate {
    /// Whether the ratio is that of the sequence.
    pub(super) fn is_of_sequence(self) -> bool {
        matches!(self, Self::SequenceClip { .. })
    }

    pub(super) fn term(self, log_ratio: f64, new: f64, advantage: f64) -> Term {
        let (ratio, slope) = ratio(log_ratio);
        match self {
            Self::Importance => Term { value: ratio, slope, is_clipped: false },
            Self::BoundedWeight { high } => {
                let weight = ratio.min(1.0 + high);
                Term { value: weight * new, slope: weight, is_clipped: ratio > 1.0 + high }
            }
            Self::Clip { low, high } | Self::SequenceClip { low, high } => {
                let clipped = ratio.clamp(1.0 - low, 1.0 + high);
                if ratio * advantage <= clipped * advantage {
                    Term { value: ratio, slope, is_clipped: false }
                } else {
                    Term { value: clipped, slope: 0.0, is_clipped: true }
                }
            }
        }
    }

    pub(in super::super) fn check(self) -> Result<(), LearnError> {
        let (low, high) = match self {
            Self::Importance => return Ok(()),
            Self::BoundedWeight { high } => (0.0, high),
            Self::Clip { low, high } | Self::SequenceClip { low, high } => (low, high),
        };
        if (0.0..=1.0).contains(&low) && high.is_finite() && high >= 0.0 {
            return Ok(());
        }
        let what = format!("clip is {low} and {high}; expected 0 to 1 and 0 or more");
        Err(LearnError::Objective(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clipped_side_depends_on_the_sign_of_the_advantage() {
        let clip = Surrogate::Clip { low: 0.2, high: 0.28 };
        let check = |ratio: f64, advantage: f64, expect_value: f64, expect_clipped: bool| {
            let term = clip.term(ratio.ln(), -1.0, advantage);
            assert!((term.value - expect_value).abs() < 1e-12, "{ratio}, {advantage}: {}", term.value);
            assert_eq!((term.is_clipped, term.slope == 0.0), (expect_clipped, expect_clipped), "{ratio}, {advantage}");
        };
        check(1.5, 1.0, 1.28, true);
        check(1.5, -1.0, 1.5, false);
        check(0.5, 1.0, 0.5, false);
        check(0.5, -1.0, 0.8, true);
        check(1.1, 1.0, 1.1, false);
        check(1.1, -1.0, 1.1, false);
    }

    #[test]
    fn a_bounded_weight_always_has_a_gradient() {
        for advantage in [1.0, -1.0] {
            let term = Surrogate::BoundedWeight { high: 0.28 }.term(3.0, -0.5, advantage);
            assert!((term.slope - 1.28).abs() < 1e-12 && (term.value + 0.64).abs() < 1e-12 && term.is_clipped);
        }
        assert!((Surrogate::BoundedWeight { high: 0.28 }.term(-3.0, -0.5, 1.0).slope - (-3.0_f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn ratios_are_always_finite() {
        for log_ratio in [1e6, -1e6, 710.0] {
            let term = Surrogate::Importance.term(log_ratio, -1.0, 1.0);
            assert!(term.value.is_finite() && term.slope == 0.0, "{log_ratio}");
        }
    }
}
