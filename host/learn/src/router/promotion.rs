//! Whether a new version of a router, or another policy, replaces the served one.

use super::Logged;
use super::offline::{Estimate, Evaluation, Refusal, Target, evaluate};
use crate::LearnError;
use crate::gate::{ALPHA, alpha_of};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Share of the cost that a candidate must save to be promoted without a gain.
pub const SAVING: f64 = 0.10;
/// Reward that a cheaper candidate may lose.
pub const MARGIN: f64 = 0.02;

/// What becomes of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its utility is higher: the interval of the gain lies above 0.
    Better,
    /// It costs at least [`SAVING`] less, and its reward is at most [`MARGIN`] lower: the interval lies above that.
    Cheaper,
    /// Neither was shown.
    Keep,
    /// The log does not tell.
    Refused(Refusal),
}

impl Verdict {
    /// Whether the candidate replaces the served version.
    pub fn promotes(&self) -> bool {
        matches!(self, Self::Better | Self::Cheaper)
    }

    /// Whether the rewards of the log had a say in it, so that it is one of the judgements that [`ALPHA`] is divided between. A refusal for
    /// want of decisions follows from requests and propensities alone: it may be asked for again and costs nothing.
    pub fn counts(&self) -> bool {
        !matches!(self, Self::Refused(Refusal::EffectiveSample { .. } | Refusal::Unsupported { .. }))
    }
}

/// Judges a candidate of a router on a log, as its `number`-th judgement that counts ([`Verdict::counts`]). Both ways to a promotion, over all
/// judgements, together promote one that is no better with a probability of at most [`ALPHA`]. A candidate that is judged again, on a
/// longer log, is one judgement more.
///
/// # Errors
/// See [`evaluate`].
pub fn judge(
    log: &[Logged],
    candidate: Target<'_>,
    served: Target<'_>,
    number: NonZeroU32,
) -> Result<(Verdict, Evaluation), LearnError> {
    // Each of the two ways uses one side of an interval, which misses with half of its alpha.
    let evaluation = evaluate(log, candidate, served, alpha_of(number, ALPHA))?;
    Ok((verdict(&evaluation), evaluation))
}

fn verdict(evaluation: &Evaluation) -> Verdict {
    let low = |estimate: &Estimate| estimate.interval.0;
    let refusal = evaluation.candidate.refusal.as_ref().or(evaluation.served.refusal.as_ref());
    if let Some(refusal) = refusal {
        return Verdict::Refused(refusal.clone());
    }
    let (cost, served) = (evaluation.candidate.cost.value, evaluation.served.cost.value);
    if low(&evaluation.gain) > 0.0 {
        Verdict::Better
    } else if cost <= (1.0 - SAVING) * served && low(&evaluation.reward_gain) >= -MARGIN {
        Verdict::Cheaper
    } else {
        Verdict::Keep
    }
}
