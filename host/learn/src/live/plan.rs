//! How many sessions a decision needs.

use super::estimate::DECIDABLE_USERS;
use super::sensitivity::{Direction, OddsRatio, tilted};
use super::session::Scale;
use crate::LearnError;
use crate::normal::{normal_of_t, one_sided_e_value};

/// Largest number of sessions that is planned. An effect that needs more is not found.
pub const MOST_SESSIONS: u64 = 1 << 40;

/// What a decision about an effect is expected to look like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The effect on the reward that should be found; its sign does not matter.
    pub effect: f64,
    /// The probability of being shown the entry or served the new version, above 0 and below 1.
    pub probability: f64,
    /// Variance of the reward within an arm that the features leave unexplained, above 0; 0.25 at most on the scale of 0 to 1.
    pub residual_variance: f64,
    /// The scale of rewards.
    pub scale: Scale,
    /// The e-value that decides: `1/alpha`, or `K/q` for one of K entries; above 1.
    pub threshold: f64,
    /// Mean number of sessions with feedback of a user, 1 or more.
    pub sessions_per_user: f64,
    /// Correlation of the scores of two sessions of one user, 0 to 1: 0 where the effect is the same for all users and each session has its own
    /// draw. Where draws are per user, it is the correlation of the rewards.
    pub correlation: f64,
}

impl Plan {
    /// The plan for an effect on rewards of 0 and 1, at a success rate near a half, with one session per user.
    pub fn of(effect: f64, probability: f64, threshold: f64) -> Self {
        Self {
            effect,
            probability,
            residual_variance: 0.25,
            scale: Scale::Unit,
            threshold,
            sessions_per_user: 1.0,
            correlation: 0.0,
        }
    }

    /// The same plan, for a decision that must also hold if the feedback is biased against it by this much: only the rest of the effect counts.
    /// `hidden` is the mean reward of sessions that are not shown the entry. An effect that such a bias explains away becomes 0.
    #[must_use]
    pub fn surviving(self, odds_ratio: OddsRatio, direction: Direction, hidden: f64) -> Self {
        let (low, range) = (self.scale.low(), self.scale.range());
        let ratio = match direction {
            Direction::Helps => odds_ratio.value(),
            Direction::Harms => odds_ratio.value().recip(),
        };
        let bias = (low + range * tilted((hidden - low) / range, ratio).0 - hidden).abs();
        Self { effect: (self.effect.abs() - bias).max(0.0), ..self }
    }

    /// How many times the sessions are needed that independent ones would need: `1 + (sessions per user - 1) correlation` (Kish 1965).
    pub fn design_effect(&self) -> f64 {
        1.0 + (self.sessions_per_user - 1.0) * self.correlation
    }

    /// The number of sessions with feedback after which an estimate that equals the effect reaches the threshold. About half of all trials decide
    /// earlier, and four of five within half as many again; a little fewer where a few users have most of the sessions, because their weights are
    /// unequal then. `None` if it is more than [`MOST_SESSIONS`].
    ///
    /// # Errors
    /// A number is outside of its range.
    pub fn rewarded_sessions(&self) -> Result<Option<u64>, LearnError> {
        let wrong = |what: &str| Err(LearnError::Live(format!("a plan needs {what}: {self:?}")));
        match self {
            plan if !plan.effect.is_finite() => return wrong("an effect that is a number"),
            plan if !(plan.probability > 0.0 && plan.probability < 1.0) => {
                return wrong("a probability between 0 and 1");
            }
            plan if !(plan.residual_variance > 0.0 && plan.residual_variance <= 1.0) => {
                return wrong("a variance above 0 and at most 1");
            }
            plan if !(plan.threshold > 1.0 && plan.threshold.is_finite()) => return wrong("a threshold above 1"),
            plan if !(plan.sessions_per_user >= 1.0 && plan.sessions_per_user.is_finite()) => {
                return wrong("one session per user or more");
            }
            plan if !(0.0..=1.0).contains(&plan.correlation) => return wrong("a correlation of 0 to 1"),
            _ => {}
        }
        if !self.reaches(MOST_SESSIONS) {
            return Ok(None);
        }
        let (mut fails, mut reaches) = (0, MOST_SESSIONS);
        while reaches - fails > 1 {
            let middle = fails + (reaches - fails) / 2;
            if self.reaches(middle) { reaches = middle } else { fails = middle }
        }
        Ok(Some(reaches))
    }

    /// The same in sessions of which only a share (above 0, at most 1) gives feedback.
    ///
    /// # Errors
    /// A number is outside of its range.
    pub fn sessions(&self, feedback: f64) -> Result<Option<u64>, LearnError> {
        if !(feedback > 0.0 && feedback <= 1.0) {
            return Err(LearnError::Live(format!(
                "a share of sessions with feedback is {feedback}; it is from 0 to 1"
            )));
        }
        Ok(self.rewarded_sessions()?.map(|sessions| (sessions as f64 / feedback).ceil() as u64))
    }

    /// Whether an estimate that equals the effect reaches the threshold after this many sessions.
    fn reaches(&self, sessions: u64) -> bool {
        let sessions = sessions as f64;
        let smaller = self.probability.min(1.0 - self.probability);
        let variance = self.residual_variance / (self.probability * (1.0 - self.probability));
        // Users of whom at least one session is in the smaller arm.
        let few = sessions / self.sessions_per_user * (1.0 - (1.0 - smaller).powf(self.sessions_per_user));
        if few < DECIDABLE_USERS {
            return false;
        }
        let floor = self.scale.range() / few;
        let standard_error = (variance * self.design_effect() / sessions + floor * floor).sqrt();
        let z = normal_of_t(self.effect.abs() / standard_error, few - 1.0);
        one_sided_e_value(z, standard_error) >= self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(plan: Plan) -> u64 {
        plan.rewarded_sessions().unwrap().unwrap()
    }

    #[test]
    fn a_fifth_of_reward_needs_about_200_sessions_at_one_half_and_550_at_one_tenth() {
        let check = |probability: f64, expect: f64| {
            // One entry, of which one in ten may be admitted wrongly.
            let got = sessions(Plan::of(0.2, probability, 10.0)) as f64;
            assert!((got / expect - 1.0).abs() < 0.15, "{probability}: {got}, not about {expect}");
        };
        check(0.5, 200.0);
        check(0.1, 550.0);
    }

    #[test]
    fn more_are_needed_for_small_effects_noise_high_thresholds_and_clusters() {
        let base = Plan::of(0.2, 0.5, 20.0);
        let least = sessions(base);
        for harder in [
            Plan { effect: 0.1, ..base },
            Plan { probability: 0.1, ..base },
            Plan { threshold: 200.0, ..base },
            Plan { sessions_per_user: 5.0, correlation: 0.2, ..base },
            base.surviving(OddsRatio::USUAL, Direction::Helps, 0.5),
            base.surviving(OddsRatio::USUAL, Direction::Harms, 0.5),
        ] {
            assert!(sessions(harder) > least, "{harder:?}");
        }
        assert!(sessions(Plan { residual_variance: 0.1, ..base }) < least);
        assert_eq!(sessions(Plan { effect: -0.2, ..base }), least);
        assert_eq!(Plan { sessions_per_user: 5.0, correlation: 0.2, ..base }.design_effect(), 1.8);
        // One session in twenty gives feedback.
        assert_eq!(base.sessions(0.05).unwrap(), Some(least * 20));
    }

    #[test]
    fn an_effect_of_nothing_is_never_found_and_invalid_plans_are_refused() {
        let base = Plan::of(0.2, 0.5, 20.0);
        assert_eq!(Plan { effect: 0.0, ..base }.rewarded_sessions().unwrap(), None);
        // An odds ratio of 1.5 explains away 0.1 at a mean of 0.5.
        let gone = Plan { effect: 0.1, ..base }.surviving(OddsRatio::USUAL, Direction::Helps, 0.5);
        assert!(gone.effect < 1e-12 && gone.rewarded_sessions().unwrap().is_none());
        for wrong in [
            Plan { effect: f64::NAN, ..base },
            Plan { probability: 1.0, ..base },
            Plan { residual_variance: 0.0, ..base },
            Plan { threshold: 1.0, ..base },
            Plan { sessions_per_user: 0.5, ..base },
            Plan { correlation: 1.1, ..base },
        ] {
            assert!(wrong.rewarded_sessions().is_err(), "{wrong:?}");
        }
        assert!(base.sessions(0.0).is_err());
    }
}
