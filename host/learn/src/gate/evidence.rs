//! The evidence about one candidate.

use super::martingale::{Form, Martingale, Question};
use super::power::{Observed, POWER, smallest_lift};
use super::sign::{self, SignTest};
use crate::LearnError;
use crate::normal::interval;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// Default of the probability that a run promotes any candidate that is no better.
pub const ALPHA: f64 = 0.05;

/// Wealth of the mirrored martingale at which a candidate is rejected.
const FUTILE: f64 = 20.0;

/// The share of `alpha` of the j-th candidate of a run: `alpha 6/(pi^2 j^2)`. The shares of all candidates add up to
/// `alpha`.
pub fn alpha_of(candidate: NonZeroU32, alpha: f64) -> f64 {
    alpha * 6.0 / (std::f64::consts::PI * f64::from(candidate.get())).powi(2)
}

/// The difference of a pair in which one side failed: that side loses the pair. If such pairs were left out, a candidate could raise its score
/// by failing on the tasks that it would lose. `None`: both sides failed, or neither did, and the pair is not counted here.
pub fn difference_of_failed(served: bool, candidate: bool) -> Option<f64> {
    match (served, candidate) {
        (true, false) => Some(1.0),
        (false, true) => Some(-1.0),
        (true, true) | (false, false) => None,
    }
}

/// The decision that follows from the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The candidate is better (or no worse, if that was the question).
    Promote,
    /// There is evidence of the contrary: reject it.
    Futile,
    /// The budget is spent without a decision. The evidence is kept for [`GateEvidence::extend`].
    Undecided,
    /// Play more pairs.
    Continue,
}

/// The comparison of one candidate with the served version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateEvidence {
    candidate: NonZeroU32,
    alpha: f64,
    /// Number of pairs after which it is undecided.
    budget: u64,
    martingale: Martingale,
    pairs: u64,
    wins: u64,
    losses: u64,
    sum: f64,
    squares: f64,
    /// The test of a planned number of pairs. `None`: the martingale decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    planned: Option<Planned>,
    /// Final once it is made: the error probability refers to the threshold ever being reached.
    decided: Option<Decision>,
}

/// A comparison whose number of pairs is planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Planned {
    test: SignTest,
    looks: Vec<u64>,
}

/// The test that decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// A bet, looked at after every pair.
    #[default]
    Martingale,
    /// The exact sign test at planned looks.
    Sign,
}

/// A summary of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The decision.
    pub decision: Decision,
    /// Mean difference per pair. `None` without pairs.
    pub lift: Option<f64>,
    /// 95 % confidence interval of the lift, valid at any number of pairs. A normal-mixture asymptotic confidence
    /// sequence (Waudby-Smith et al. 2021), with the standard error `sqrt(variance/n + (2/n)^2)`: it is never narrower
    /// than the effect of one pair with the opposite result. It does not decide, and may contain 0 when the martingale
    /// promotes. `None` for fewer than two pairs.
    pub interval: Option<(f64, f64)>,
    /// Pairs used.
    pub pairs: u64,
    /// Pairs in which the candidate's reward was higher.
    pub wins: u64,
    /// Pairs in which it was lower.
    pub losses: u64,
    /// The test that decides.
    #[serde(default)]
    pub test: Test,
    /// Wealth of the bet on the candidate. It starts at 1. It decides only if the test is the martingale.
    pub martingale: f64,
    /// The wealth at which the candidate is promoted.
    pub threshold: f64,
    /// The smallest lift that the whole budget detects with a probability of 80 %, if pairs continue to differ as often
    /// as so far. A smaller lift cannot be decided with this budget. `None` while no pair has differed, and if the
    /// budget detects nothing at all.
    pub smallest_lift: Option<f64>,
}

impl Planned {
    /// The smallest lift that the plan finds with a probability of 80 %, if this share of pairs is lost.
    fn smallest_lift(&self, pairs: u64, loss: f64) -> Option<f64> {
        sign::smallest_lift(self.test.alpha(), pairs, loss, POWER)
    }

    /// The decision at this look, if it is one.
    fn decide(&mut self, pairs: u64, wins: u64, losses: u64) -> Option<Decision> {
        if !self.looks.contains(&pairs) {
            return None;
        }
        if self.test.look(pairs, wins, losses) {
            return Some(Decision::Promote);
        }
        // As many losses as wins so far: the rest of the pairs would hardly change that.
        (wins <= losses).then_some(Decision::Futile)
    }
}

impl GateEvidence {
    /// A comparison before its first pair. `candidate` counts the candidates of the run, `alpha` is the error
    /// probability of the whole run ([`ALPHA`]), and `budget` is the number of pairs.
    ///
    /// # Errors
    /// `alpha` is not between 0 and 1.
    pub fn new(
        candidate: NonZeroU32,
        form: Form,
        question: Question,
        alpha: f64,
        budget: u64,
    ) -> Result<Self, LearnError> {
        if !(alpha > 0.0 && alpha < 1.0) {
            return Err(LearnError::Gate(format!("an alpha of {alpha}; it must be between 0 and 1")));
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
            planned: None,
            decided: None,
        })
    }

    /// The same comparison, if it is never extended: it bets only stakes that can decide within its pairs. Call it before the first pair.
    pub fn of_one_session(self) -> Self {
        let (budget, ln_wealth) = (self.budget, self.ln_threshold());
        Self { martingale: self.martingale.within(budget, ln_wealth), ..self }
    }

    /// A comparison of a planned number of pairs, for which the exact sign test decides whether the candidate is better. Rewards have two
    /// values. It may not be extended.
    ///
    /// # Errors
    /// `alpha` is not between 0 and 1.
    pub fn planned(candidate: NonZeroU32, alpha: f64, pairs: u64) -> Result<Self, LearnError> {
        let evidence = Self::new(candidate, Form::Binary, Question::Better, alpha, pairs)?;
        let test = SignTest::new(alpha_of(candidate, alpha), pairs);
        Ok(Self { planned: Some(Planned { test, looks: sign::looks(pairs) }), ..evidence })
    }

    /// Adds a pair: the candidate's reward minus that of the served version. After a decision pairs are still counted,
    /// but no longer change it.
    ///
    /// # Errors
    /// `d` is not a number from -1 to 1, or does not fit the form. Nothing is changed.
    pub fn observe(&mut self, d: f64) -> Result<Decision, LearnError> {
        self.martingale.observe(d)?;
        self.pairs += 1;
        self.wins += u64::from(d > 0.0);
        self.losses += u64::from(d < 0.0);
        self.sum += d;
        self.squares += d * d;
        if let Some(planned) = &mut self.planned {
            self.decided = self.decided.or_else(|| planned.decide(self.pairs, self.wins, self.losses));
        } else if self.decided.is_none() {
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

    /// The decision so far.
    pub fn decision(&self) -> Decision {
        let open = if self.pairs < self.budget { Decision::Continue } else { Decision::Undecided };
        self.decided.unwrap_or(open)
    }

    /// Increases the budget by this number of pairs from here on.
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
            test: if self.planned.is_some() { Test::Sign } else { Test::Martingale },
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
        if let Some(planned) = &self.planned {
            let loss = self.losses as f64 / self.pairs as f64;
            return planned.smallest_lift(budget, loss);
        }
        (differ > 0.0).then(|| smallest_lift(&self.martingale, &observed, budget, self.ln_threshold())).flatten()
    }

    fn ln_threshold(&self) -> f64 {
        -alpha_of(self.candidate, self.alpha).ln()
    }
}
