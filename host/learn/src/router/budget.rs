//! A budget per day, kept by the price that the router puts on cost (dual ascent).

use super::settings::{CostWeight, DAY};
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// Largest weight of cost. At it a tenth of the reference cost outweighs any reward, so the cheapest model is chosen.
const LARGEST_WEIGHT: f64 = 20.0;

/// A budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Money per day, in the currency of the prices, above 0.
    pub per_day: f64,
    /// Weight of cost to begin with, at least 0.
    pub start: f64,
    /// Change of the weight on a day that spends twice the budget, above 0. Larger values react faster and swing more.
    pub rate: f64,
}

impl Budget {
    pub(super) fn check(&self) -> Result<(), LearnError> {
        let good = |value: f64, zero: bool| value.is_finite() && (value > 0.0 || zero && value == 0.0);
        if !good(self.per_day, false) || !good(self.start, true) || !good(self.rate, false) {
            let Self { per_day, start, rate } = self;
            let what = format!("a budget of {per_day} a day, start {start}, rate {rate}; finite and above 0");
            return Err(LearnError::Router(what));
        }
        Ok(())
    }
}

/// The weight of cost at a point of time: `w <- max(0, w + rate (spent / budget - elapsed / day))`, the gradient step on the dual of
/// "most reward within the budget" (Balseiro, Lu, Mirrokni 2020), spread over the day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Dual {
    pub(super) weight: f64,
    /// Time of the last spend, seconds of the caller's clock.
    at: Option<u64>,
}

impl Dual {
    /// The weight to begin with, if it follows a budget.
    pub(super) fn of(weight: &CostWeight) -> Option<Self> {
        match weight {
            CostWeight::Budget(budget) => Some(Self::new(budget)),
            CostWeight::Fixed(_) => None,
        }
    }

    fn new(budget: &Budget) -> Self {
        Self { weight: budget.start.min(LARGEST_WEIGHT), at: None }
    }

    /// Takes a cost into account. A pause counts as at most one day: a quiet week is no reason to spend seven budgets. A clock that
    /// steps back counts as no time.
    pub(super) fn spend(&mut self, budget: &Budget, now: u64, cost: f64) {
        let elapsed = self.at.map_or(0, |at| now.saturating_sub(at)).min(DAY);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        self.step(budget, cost / budget.per_day - elapsed as f64 / DAY as f64);
    }

    /// Takes a cost into account that took no time.
    pub(super) fn charge(&mut self, budget: &Budget, cost: f64) {
        self.step(budget, cost / budget.per_day);
    }

    fn step(&mut self, budget: &Budget, step: f64) {
        self.weight = (self.weight + budget.rate * step).clamp(0.0, LARGEST_WEIGHT);
    }
}
