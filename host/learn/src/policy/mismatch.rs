//! Do rollout and trainer agree on the same tokens under the same weights?
//!
//! Asked before the first step of every weights version. Both programs compute the log-prob of the same token; what differs by more
//! than rounding is a mistake in one of them (a cache slipped by a token, a temperature that was not applied, log-probs shifted
//! by one, a stale adapter), and a policy gradient would not fail from it but learn worse.

use super::sample::{Trajectory, check_logprobs};
use crate::LearnError;

/// Largest difference of one token, nats, where both compute in f32: rounding gives some 1e-5.
pub const EXACT_LIMIT: f64 = 1e-3;

/// Largest mean difference, nats, where one of them computes in bf16 or int8: single tokens differ by far more there.
pub const ROUNDED_LIMIT: f64 = 0.05;

/// What the less exact of the two computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// f32: the largest difference decides.
    Exact,
    /// bf16, int8: the mean difference decides.
    Rounded,
}

/// One sequence under both programs. Only on-policy ones (version lag 0) can be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared<'a> {
    /// What was recorded; its `rollout` and `mask` count.
    pub trajectory: &'a Trajectory,
    /// The trainer's log-probs under the weights that sampled it, of every token.
    pub trainer: &'a [f64],
}

/// What they differ by, over all trained tokens, nats.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Difference {
    /// Tokens compared.
    pub tokens: u64,
    /// Mean size.
    pub mean: f64,
    /// Largest size.
    pub max: f64,
}

/// Compares; sequences that were sampled under earlier weights are passed over.
///
/// # Errors
///
/// [`LearnError::Mismatch`] with the place of the largest difference, if they differ by more than the precision explains;
/// [`LearnError::Sequence`] and [`LearnError::LogProb`] for trainer's log-probs that are none.
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
    fn in_f32_no_token_may_differ_by_more_than_a_thousandth() {
        let rollout = [-9.0, -1.0, -2.0, -0.5];
        let difference = compare(Precision::Exact, &rollout, &[-1.0, -1.0009, -2.0, -0.5]).unwrap();
        assert_eq!(difference.tokens, 3, "what is not trained is not compared");
        assert!((difference.max - 0.0009).abs() < 1e-12 && (difference.mean - 0.0003).abs() < 1e-12);
        let error = compare(Precision::Exact, &rollout, &[-9.0, -1.0, -2.5, -0.5]).unwrap_err().to_string();
        assert!(
            error.contains("differ by 0.500000 at most over 3 tokens, largest in sequence e1 at token 2 (-2"),
            "{error}"
        );
        assert!(error.contains("-2.5); 0.001 is allowed: compare"), "{error}");
    }

    #[test]
    fn where_one_rounds_the_mean_decides() {
        let rollout = [-9.0, -1.0, -2.0, -0.5];
        assert!(compare(Precision::Rounded, &rollout, &[-9.0, -1.14, -2.0, -0.5]).is_ok());
        let error = compare(Precision::Rounded, &rollout, &[-9.0, -1.16, -2.0, -0.5]).unwrap_err().to_string();
        assert!(
            error.contains("on average") && error.contains("at token 1") && error.contains("0.05 is allowed"),
            "{error}"
        );
    }

    #[test]
    fn what_commonly_goes_wrong_is_found() {
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
    fn earlier_weights_differ_by_right_and_a_wrong_length_never() {
        let old = trajectory(&[-1.0, -1.0], 1);
        let one = |trainer| check(Precision::Exact, [Compared { trajectory: &old, trainer }]);
        assert_eq!(one(&[-3.0, -3.0]).unwrap(), Difference::default());
        assert!(one(&[-3.0]).unwrap_err().to_string().contains("trainer has 1 numbers for 2 tokens"));
    }
}
