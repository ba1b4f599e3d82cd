//! How much bias of the feedback a finding survives.
//!
//! People who were shown an entry may give feedback for other reasons than those who were not: a cheerful tone invites a thumb up. Feedback
//! is then missing depending on arm *and* outcome, which no data with missing outcomes can show. So a finding must hold under a model of
//! how bad this may be (Rosenbaum 2002, section 4; for weights as here, Zhao, Small and Bhattacharya 2019).
//!
//! **Model.** Put the reward on a scale of 0 (worst) to 1 (best): `y`. In arm `a`, let `s_a = P(feedback | best) / P(feedback | worst)`; for
//! rewards between, feedback is as likely as at one of the ends or something between. How likely feedback is at all may depend on the user and on
//! what is known before the draw, in both arms alike. The model is `s_shown >= 1 >= s_hidden` and `s_shown / s_hidden <= Γ`, for a finding of
//! help; for a finding of harm the arms are swapped. If the *odds* of giving feedback differ between best and worst by a factor `o_a`, then `s_a`
//! lies between 1 and `o_a`: so the model holds if the odds differ by at most Γ in one arm and not at all in the other one, or by at most
//! `sqrt(Γ)` in both, in opposite directions. A dependence that both arms share to the same degree changes the size of an effect, but makes none.
//!
//! **Bound.** Feedback with ratio `s` turns a mean `m` of `y` into at most `h_s(m) = s m / (1 - m + s m)` if `s >= 1`. For best and worst alone
//! this is Bayes' rule: the odds are multiplied by `s`. For rewards between it is a bound: `E[w(y) (y - c)]`, with the worst choice of weights `w`
//! between 1 and `s`, is convex in `y`, and so is largest for rewards at the ends. For `s <= 1` it is a lower bound likewise. An entry that does
//! not help has `m_shown <= m_hidden`. Since `h_s` increases, is concave for `s >= 1` and convex for `s <= 1`, and `h_s(h_t(m)) = h_st(m)`, Jensen's
//! inequality gives for the means over users that are *observed*: `m_shown <= h_Γ(m_hidden)`. So the evidence is that for
//! `m_shown - h_Γ(m_hidden) > 0`. Its standard error is that of the delta method: scores of the hidden arm are multiplied by the derivative,
//! `Γ / (1 - m + Γ m)^2`. For harm it is the mirror image, `h_{1/Γ}(m_hidden) - m_shown > 0`. At Γ = 1 both are the plain effect. Γ = 1.5 explains
//! away an effect of 0.10 at a mean of 0.5, one of 0.03 at 0.9, and nowhere more than `(sqrt(Γ) - 1)/(sqrt(Γ) + 1)` = 0.10 of the scale.
//!
//! Outside of the model: feedback that favours one arm by more than Γ, and feedback that depends on what other users see.

use super::estimate::{LiveEstimate, Moments, Standardised};
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// Largest bias that is considered. A finding that survives it does not depend on the feedback at all.
pub const LARGEST_ODDS_RATIO: f64 = 20.0;
/// Bisections of a flip point: to a ten-thousandth.
const HALVINGS: u32 = 18;

/// How much the odds of giving feedback may differ between good and bad outcomes, from one arm to the other: Γ, 1 (not at all) to
/// [`LARGEST_ODDS_RATIO`].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct OddsRatio(f64);

impl OddsRatio {
    /// Feedback does not depend on arm and outcome together.
    pub const NONE: Self = Self(1.0);
    /// What a decision should survive: thumbs that favour one arm by a half.
    pub const USUAL: Self = Self(1.5);

    /// Checks the range.
    ///
    /// # Errors
    /// The value is outside of the range, or no number.
    pub fn new(value: f64) -> Result<Self, LearnError> {
        match (1.0..=LARGEST_ODDS_RATIO).contains(&value) {
            true => Ok(Self(value)),
            false => Err(LearnError::Live(format!("an odds ratio is {value}; it is from 1 to {LARGEST_ODDS_RATIO}"))),
        }
    }

    /// The value.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl Default for OddsRatio {
    /// [`OddsRatio::USUAL`].
    fn default() -> Self {
        Self::USUAL
    }
}

impl TryFrom<f64> for OddsRatio {
    type Error = LearnError;

    fn try_from(value: f64) -> Result<Self, LearnError> {
        Self::new(value)
    }
}

impl From<OddsRatio> for f64 {
    fn from(value: OddsRatio) -> f64 {
        value.0
    }
}

/// What a finding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It adds reward.
    Helps,
    /// It takes reward away.
    Harms,
}

/// `h_s` and its derivative at a mean of 0 to 1.
pub(super) fn tilted(mean: f64, ratio: f64) -> (f64, f64) {
    let mean = mean.clamp(0.0, 1.0);
    let whole = 1.0 - mean + ratio * mean;
    (ratio * mean / whole, ratio / (whole * whole))
}

impl Moments {
    /// The difference that is above 0 if the finding holds at this bias.
    fn at(&self, direction: Direction, ratio: f64) -> Standardised {
        let (low, range) = (self.scale.low(), self.scale.range());
        let bound = |ratio: f64| {
            let (value, slope) = tilted((self.hidden - low) / range, ratio);
            (low + range * value, slope)
        };
        match direction {
            // At a ratio of 1, exactly the plain effect: an estimated mean may be outside of the scale.
            Direction::Helps if ratio == 1.0 => self.standardised(self.shown - self.hidden, 1.0, -1.0),
            Direction::Harms if ratio == 1.0 => self.standardised(self.hidden - self.shown, -1.0, 1.0),
            Direction::Helps => {
                let (most, slope) = bound(ratio);
                self.standardised(self.shown - most, 1.0, -slope)
            }
            Direction::Harms => {
                let (least, slope) = bound(1.0 / ratio);
                self.standardised(least - self.shown, -1.0, slope)
            }
        }
    }
}

impl LiveEstimate {
    /// The e-value of a finding, if the feedback is biased against it by this much.
    pub fn evidence(&self, direction: Direction, odds_ratio: OddsRatio) -> f64 {
        self.e_value(&self.moments.at(direction, odds_ratio.0))
    }

    /// Whether a finding reaches a threshold (`1/alpha`) also if the feedback is biased against it by this much.
    pub fn survives(&self, direction: Direction, odds_ratio: OddsRatio, threshold: f64) -> bool {
        self.evidence(direction, odds_ratio) >= threshold
    }

    /// The bias at which a finding no longer reaches a threshold, to a ten-thousandth; [`LARGEST_ODDS_RATIO`] if it does even there. `None` if it
    /// does not reach it without bias.
    pub fn flip_point(&self, direction: Direction, threshold: f64) -> Option<OddsRatio> {
        let survives = |ratio: f64| self.survives(direction, OddsRatio(ratio), threshold);
        if !survives(1.0) {
            return None;
        }
        if survives(LARGEST_ODDS_RATIO) {
            return Some(OddsRatio(LARGEST_ODDS_RATIO));
        }
        let halve = |(low, high): (f64, f64), _| {
            let middle = (low + high) / 2.0;
            if survives(middle) { (middle, high) } else { (low, middle) }
        };
        let (_, fails) = (0..HALVINGS).fold((1.0, LARGEST_ODDS_RATIO), halve);
        Some(OddsRatio(fails))
    }
}
