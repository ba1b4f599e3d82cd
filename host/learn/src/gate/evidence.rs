//! What is known about one candidate.

use super::martingale::{Form, Martingale, Question};
use super::power::{Observed, smallest_lift};
use crate::LearnError;
use crate::normal::interval;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// The probability with which a run may promote anything that is no better. The default.
pub const ALPHA: f64 = 0.05;

/// Wealth of the mirrored martingale at which a candidate is given up.
const FUTILE: f64 = 20.0;

/// The share of `alpha` that the j-th candidate of a run has: `alpha 6/(pi^2 j^2)`, so that all together have `alpha`.
pub fn alpha_of(candidate: NonZeroU32, alpha: f64) -> f64 {
    alpha * 6.0 / (std::f64::consts::PI * f64::from(candidate.get())).powi(2)
}

/// What follows from the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It does better (or no worse, if that was asked).
    Promote,
    /// There is evidence of the contrary: give it up.
    Futile,
    /// The budget is spent, and one cannot tell. The evidence is kept, for [`GateEvidence::extend`].
    Undecided,
    /// Play more pairs.
    Continue,
}

/// The comparison of one candidate with what is deployed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateEvidence {
    candidate: NonZeroU32,
    alpha: f64,
    /// Pairs after which it is undecided.
    budget: u64,
    martingale: Martingale,
    pairs: u64,
    wins: u64,
    losses: u64,
    sum: f64,
    squares: f64,
    /// Taken once, and not taken back: that a threshold was ever reached is what the error probability is about.
    decided: Option<Decision>,
}

/// A comparison for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What follows.
    pub decision: Decision,
    /// Mean difference per pair; none without pairs.
    pub lift: Option<f64>,
    /// Of the lift: 95 %, and holds however often one looks. A normal-mixture asymptotic confidence sequence
    /// (Waudby-Smith et al. 2021), with the standard error `sqrt(variance/n + (2/n)^2)`: it is never surer than to
    /// within one pair that falls out the other way. It is not what decides, and may touch 0 where the martingale
    /// promotes. None for fewer than two pairs.
    pub interval: Option<(f64, f64)>,
    /// Pairs used.
    pub pairs: u64,
    /// Pairs in which the candidate's reward was higher.
    pub wins: u64,
    /// Pairs in which it was lower.
    pub losses: u64,
    /// Wealth of the bet on the candidate; it began with 1.
    pub martingale: f64,
    /// The wealth that promotes.
    pub threshold: f64,
    /// The smallest lift that the whole budget finds with a probability of 80 %, if pairs go on to differ as often as
    /// so far. A candidate that is better by less is one of which this budget cannot tell. None while no pair has
    /// differed, and where the budget finds nothing at all.
    pub smallest_lift: Option<f64>,
}

impl GateEvidence {
    /// Before the first pair. `candidate` counts candidates of the run, `alpha` is what the run as a whole may err
    /// ([`ALPHA`]), and `budget` how many pairs may be used.
    ///
    /// # Errors
    /// `alpha` does not lie between 0 and 1.
    pub fn new(
        candidate: NonZeroU32,
        form: Form,
        question: Question,
        alpha: f64,
        budget: u64,
    ) -> Result<Self, LearnError> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(LearnError::Gate(format!("an alpha of {alpha}; it must lie between 0 and 1")));
        }
        let martingale = Martingale::new(form, question);
        Ok(Self {
            candidate,
            alpha,
            budget,
            martingale,
            pairs: 0,
            wins: 0,
            losses: 0,
            sum: 0.0,
            squares: 0.0,
            decided: None,
        })
    }

    /// Takes a pair in: the candidate's reward less that of what is deployed. After a decision pairs are still counted,
    /// and change it no more.
    ///
    /// # Errors
    /// `d` is no number from -1 to 1, or one that does not fit the form. Nothing is changed.
    pub fn observe(&mut self, d: f64) -> Result<Decision, LearnError> {
        self.martingale.observe(d)?;
        self.pairs += 1;
        self.wins += u64::from(d > 0.0);
        self.losses += u64::from(d < 0.0);
        self.sum += d;
        self.squares += d * d;
        if self.decided.is_none() {
            self.decided = if self.martingale.ln_value() >= self.ln_threshold() {
                Some(Decision::Promote)
            } else if self.martingale.ln_mirror() >= FUTILE.ln() {
                Some(Decision::Futile)
            } else {
                None
            };
        }
        Ok(self.decision())
    }

    /// What follows from what was seen.
    pub fn decision(&self) -> Decision {
        let open = if self.pairs < self.budget { Decision::Continue } else { Decision::Undecided };
        self.decided.unwrap_or(open)
    }

    /// Allows for so many pairs from here on.
    pub fn extend(&mut self, pairs: u64) {
        self.budget = self.pairs.saturating_add(pairs);
    }

    /// The comparison so far.
    pub fn report(&self) -> Report {
        Report {
            decision: self.decision(),
            lift: self.lift(),
            interval: self.interval(),
            pairs: self.pairs,
            wins: self.wins,
            losses: self.losses,
            martingale: self.martingale.value(),
            threshold: self.ln_threshold().exp(),
            smallest_lift: self.smallest_lift(),
        }
    }

    fn lift(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.sum / self.pairs as f64)
    }

    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        let pairs = self.pairs as f64;
        self.lift().filter(|_| self.pairs > 1).map(|lift| {
            let variance = (self.squares - self.sum * lift).max(0.0) / (pairs - 1.0);
            let (low, high) = interval(lift, (variance / pairs + (2.0 / pairs).powi(2)).sqrt());
            (low.max(-1.0), high.min(1.0))
        })
    }

    fn smallest_lift(&self) -> Option<f64> {
        let differ = (self.wins + self.losses) as f64;
        let observed = Observed { discordant: differ / self.pairs as f64, size: (self.squares / differ).sqrt() };
        let budget = self.budget.max(self.pairs);
        (differ > 0.0).then(|| smallest_lift(&self.martingale, &observed, budget, self.ln_threshold())).flatten()
    }

    fn ln_threshold(&self) -> f64 {
        -alpha_of(self.candidate, self.alpha).ln()
    }
}
