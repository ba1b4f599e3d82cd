//! Checks that rollout and trainer compute equal log-probs for equal tokens and weights.
//!
//! Run before the first step of every weights version. A difference beyond rounding is a defect in one of the two programs
//! (an off-by-one in the cache, a temperature that is not applied, shifted log-probs, a stale adapter). A policy gradient
//! would not fail because of it, but learn worse.

use super::sample::{Trajectory, check_logprobs};
use crate::LearnError;

/// Largest difference of one token, nats, if both compute in f32: rounding gives about 1e-5.
pub const EXACT_LIMIT: f64 = 1e-3;

/// Largest mean difference, nats, if one of them computes in bf16 or int8. Single tokens may differ by much more.
pub const ROUNDED_LIMIT: f64 = 0.05;

/// Precision of the less exact program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// f32: the largest difference is tested.
    Exact,
    /// bf16 or int8: the mean difference is tested.
    Rounded,
}

/// One sequence under both programs. Only on-policy sequences (version lag 0) are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared<'a> {
    /// The trajectory; its `rollout` and `mask` are used.
    pub trajectory: &'a Trajectory,
    /// The trainer's log-probs of all tokens, under the weights that sampled them.
    pub trainer: &'a [f64],
}

/// Statistics of the differences over all trained tokens, nats.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Difference {
    /// Number of tokens.
    pub tokens: u64,
    /// Mean absolute difference.
    pub mean: f64,
    /// Largest absolute difference.
    pub max: f64,
}

/// Compares the sequences; those with a version lag are skipped.
///
/// # Errors
///
/// [`LearnError::Mismatch`] with the position of the largest difference: the programs differ by more than the precision
/// allows. [`LearnError::Sequence`] and [`LearnError::LogProb`]: invalid log-probs of the trainer.
pub fn check<'a>(
    precision: Precision,
    compared: impl IntoIterator<Item = Compared<'a>>,
) -> Result<Difference, LearnError> {
    let (mut difference, mut sum) = (Difference::default(), 0.0);
    let mut worst = None;
    for one in compared {
        let recorded = one.trajectory.recorded();
        check_logprobs(&recorded.sequence, "trainer", one.trainer, recorded.rollout.len())?;
        if recorded.version_lag > 0 {
            continue;
        }
        let tokens = recorded.rollout.iter().zip(one.trainer).zip(&recorded.mask).enumerate();
        for (position, ((rollout, trainer), _)) in tokens.filter(|(_, (_, trained))| **trained) {
            let size = (rollout - trainer).abs();
            sum += size;
            difference.tokens += 1;
            if size > difference.max || worst.is_none() {
                difference.max = difference.max.max(size);
                worst = Some((&recorded.sequence, position, *rollout, *trainer));
            }
        }
    }
    let Some((sequence, position, rollout, trainer)) = worst else { return Ok(difference) };
    difference.mean = sum / difference.tokens as f64;
    let (found, size, limit) = match precision {
        Precision::Exact => ("at most", difference.max, EXACT_LIMIT),
        Precision::Rounded => ("on average", difference.mean, ROUNDED_LIMIT),
    };
    if size <= limit {
        return Ok(difference);
    }
    Err(LearnError::Mismatch {
        found: format!("log-probs differ by {size:.6} {found} over {} tokens", difference.tokens),
        sequence: sequence.clone(),
        position,
        rollout,
        trainer,
        allowed: limit.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Recorded;

    fn trajectory(rollout: &[f64], version_lag: u64) -> Trajectory {
        let mut mask = vec![true; rollout.len()];
        mask[0] = false;
        let sequence = "e1".to_owned();
        Trajectory::new(Recorded { sequence, rollout: rollout.to_vec(), mask, version_lag, ..Recorded::default() })
            .unwrap()
    }

    fn compare(precision: Precision, rollout: &[f64], trainer: &[f64]) -> Result<Difference, LearnError> {
        check(precision, [Compared { trajectory: &trajectory(rollout, 0), trainer }])
    }

    #[test]
    fn in_f32_the_largest_difference_is_tested() {
        let rollout = [-9.0, -1.0, -2.0, -0.5];
        let difference = compare(Precision::Exact, &rollout, &[-1.0, -1.0009, -2.0, -0.5]).unwrap();
        assert_eq!(difference.tokens, 3, "masked tokens are not compared");
        assert!((difference.max - 0.0009).abs() < 1e-12 && (difference.mean - 0.0003).abs() < 1e-12);
        let error = compare(Precision::Exact, &rollout, &[-9.0, -1.0, -2.5, -0.5]).unwrap_err().to_string();
        assert!(
            error.contains("differ by 0.500000 at most over 3 tokens, largest in sequence e1 at token 2 (-2"),
            "{error}"
        );
        assert!(error.contains("-2.5); 0.001 is allowed: compare"), "{error}");
    }

    #[test]
    fn with_rounding_the_mean_difference_is_tested() {
        let rollout = [-9.0, -1.0, -2.0, -0.5];
        assert!(compare(Precision::Rounded, &rollout, &[-9.0, -1.14, -2.0, -0.5]).is_ok());
        let error = compare(Precision::Rounded, &rollout, &[-9.0, -1.16, -2.0, -0.5]).unwrap_err().to_string();
        assert!(
            error.contains("on average") && error.contains("at token 1") && error.contains("0.05 is allowed"),
            "{error}"
        );
    }

    #[test]
    fn common_defects_are_detected() {
        let rollout = [-0.3, -1.7, -0.2, -2.9, -0.6];
        let shifted = [-1.7, -0.2, -2.9, -0.6, -0.1];
        let other_temperature = rollout.map(|logprob| logprob * 0.7);
        for trainer in [shifted, other_temperature] {
            for precision in [Precision::Exact, Precision::Rounded] {
                assert!(compare(precision, &rollout, &trainer).is_err(), "{trainer:?}");
            }
        }
    }

    #[test]
    fn lagged_sequences_are_skipped_and_lengths_are_checked() {
        let old = trajectory(&[-1.0, -1.0], 1);
        let one = |trainer| check(Precision::Exact, [Compared { trajectory: &old, trainer }]);
        assert_eq!(one(&[-3.0, -3.0]).unwrap(), Difference::default());
        assert!(one(&[-3.0]).unwrap_err().to_string().contains("trainer has 1 numbers for 2 tokens"));
    }
}
