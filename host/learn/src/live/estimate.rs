//! Effects and their uncertainty.

use super::feedback::FeedbackDifference;
use super::sensitivity::{Direction, OddsRatio};
use super::session::Scale;
use super::sums::Factor;
use crate::normal::{interval_of_few, normal_of_t, one_sided_e_value};
use crate::symmetric::Symmetric;
use serde::{Deserialize, Serialize};

/// Users that each arm must have before anything is decided, counted as equally heavy ones. Below it the standard error is itself too uncertain
/// for Student's t to repair: rewards have two values, and an arm of few users often has only one of them.
pub const DECIDABLE_USERS: f64 = 10.0;

/// The sessions of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// Sessions.
    pub sessions: u64,
    /// Sessions with feedback; only these enter the effect.
    pub rewarded: u64,
    /// Users with feedback, counted as equally heavy ones.
    pub users: f64,
    /// Mean reward if every session were in this arm. It is an estimate, and may be outside of the scale.
    pub reward: f64,
}

/// The means of both arms with their joint uncertainty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Moments {
    pub(super) scale: Scale,
    pub(super) shown: f64,
    pub(super) hidden: f64,
    /// Products of the users' weighted rows (score of the shown arm, of the other one, 1), over the squared sum of weights.
    squares: Symmetric,
    /// Users of the smaller arm, counted as equally heavy ones.
    few: f64,
}

/// An effect in units of its standard error.
pub(super) struct Standardised {
    pub(super) z: f64,
    pub(super) standard_error: f64,
}

impl Moments {
    fn new(factor: &Factor, scale: Scale) -> Option<Self> {
        let total = factor.all.total;
        if total <= 0.0 {
            return None;
        }
        let users = factor.all.users().max(2.0);
        let mut squares = factor.squares.clone();
        // The correction for the mean that is estimated from the same users.
        squares.scale(users / (users - 1.0) / (total * total));
        Some(Self {
            scale,
            shown: factor.shown_scores / total,
            hidden: factor.hidden_scores / total,
            squares,
            few: factor.shown.users().min(factor.hidden.users()),
        })
    }

    /// The standard error of a difference of the two means with these factors, summed by user. It has a floor: the difference that one reward
    /// of the smaller arm makes, counted by user, since all rewards of few users may be equal by chance.
    fn standard_error(&self, shown: f64, hidden: f64) -> f64 {
        let row = [shown, hidden, -(shown * self.shown + hidden * self.hidden)];
        let floor = self.scale.range() / self.few.max(1.0);
        (self.squares.quadratic(&row).max(0.0) + floor * floor).sqrt()
    }

    /// The smaller arm dominates the standard error, so its users are what the error's degrees of freedom are counted by. With fewer than are
    /// decidable, intervals are only shown: they have the width of the fewest.
    fn degrees(&self) -> f64 {
        self.few.max(DECIDABLE_USERS) - 1.0
    }

    /// A difference, and the factors of the two means in it.
    pub(super) fn standardised(&self, difference: f64, shown: f64, hidden: f64) -> Standardised {
        let standard_error = self.standard_error(shown, hidden);
        Standardised { z: normal_of_t(difference / standard_error, self.degrees()), standard_error }
    }
}

/// What is known about the effect of an entry or a version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveEstimate {
    /// Mean reward that it adds, over users weighted by their sessions with feedback, and over the draws of other entries.
    pub effect: f64,
    /// Standard error of the effect, with users as clusters; greater than 0.
    pub standard_error: f64,
    /// 95 % confidence sequence of the effect: valid however often it is looked at, and within the range of effects. It assumes that feedback
    /// does not depend on arm and outcome together.
    pub interval: (f64, f64),
    /// Evidence that it helps, under the same assumption: an e-value for [`crate::credit::e_bh`]. It is 1 (no evidence) until
    /// [`LiveEstimate::decidable`].
    pub help: f64,
    /// Evidence that it harms, likewise.
    pub harm: f64,
    /// Sessions that were shown it.
    pub shown: ArmSummary,
    /// Sessions that were not.
    pub hidden: ArmSummary,
    /// Feedback by arm.
    pub feedback: FeedbackDifference,
    /// Sessions that were ignored because there were too many users ([`super::MOST_USERS`]).
    pub refused: u64,
    pub(super) moments: Moments,
}

impl LiveEstimate {
    /// `None` before the first session with feedback.
    pub(super) fn new(factor: &Factor, scale: Scale) -> Option<Self> {
        let moments = Moments::new(factor, scale)?;
        let effect = moments.shown - moments.hidden;
        let standard_error = moments.standard_error(1.0, -1.0);
        // No effect is larger than the scale, and few users would give an interval that no number can hold.
        let within = |bound: f64| bound.clamp(-scale.range(), scale.range());
        let (low, high) = interval_of_few(effect, standard_error, moments.degrees());
        let sums = &factor.feedback;
        let mut estimate = Self {
            effect,
            standard_error,
            interval: (within(low), within(high)),
            help: 1.0,
            harm: 1.0,
            shown: ArmSummary {
                sessions: sums.shown_sessions,
                rewarded: sums.shown_given,
                users: factor.shown.users(),
                reward: moments.shown,
            },
            hidden: ArmSummary {
                sessions: sums.hidden_sessions,
                rewarded: sums.hidden_given,
                users: factor.hidden.users(),
                reward: moments.hidden,
            },
            feedback: sums.difference(),
            refused: factor.refused,
            moments,
        };
        estimate.help = estimate.evidence(Direction::Helps, OddsRatio::NONE);
        estimate.harm = estimate.evidence(Direction::Harms, OddsRatio::NONE);
        Some(estimate)
    }

    /// Sessions with feedback, in both arms.
    pub fn rewarded(&self) -> u64 {
        self.shown.rewarded + self.hidden.rewarded
    }

    /// Whether there are enough users in both arms for a decision, and the arms give feedback equally often as far as can be told.
    pub fn decidable(&self) -> bool {
        self.moments.few >= DECIDABLE_USERS && !self.feedback.blocks()
    }

    /// The e-value of a difference that is above 0 if the effect is.
    pub(super) fn e_value(&self, standardised: &Standardised) -> f64 {
        if self.decidable() { one_sided_e_value(standardised.z, standardised.standard_error) } else { 1.0 }
    }
}
