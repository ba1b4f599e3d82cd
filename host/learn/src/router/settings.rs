//! Settings of a router.

use super::budget::Budget;
use super::policy::{Fixed, Policy};
use super::table::Table;
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// Outcomes before the router decides by what it learned. Until then [`WARM_UP_SHARE`] of the decisions are uniform, and the rest
/// follow the incumbent.
pub const WARM_UP: u64 = 200;
/// Share of uniform decisions while the router warms up, and of those for an action that is new.
pub const WARM_UP_SHARE: f64 = 0.2;
/// Outcomes after which an action is no longer new.
pub const NEW_UNTIL: u64 = 50;
/// Least probability of an action, times the number of actions: what is never tried can neither be learned nor evaluated.
pub const FLOOR: f64 = 0.02;
/// Factor by which an action's sums shrink with each of its outcomes: about the last thousand count.
pub const FORGETTING: f64 = 0.999;
/// Seconds of a day.
pub(super) const DAY: u64 = 86_400;
/// Seconds that a decision waits for its reward: seven days. A reward that never comes is never taken for one of 0.
pub const PATIENCE: u64 = 7 * DAY;
/// `gamma = EXPLORATION sqrt(K t)` with `K` actions after `t` outcomes. The theory leaves the constant open (Foster and Rakhlin 2020,
/// theorem 1). In the simulated world 1 has three quarters of the regret of 0.5 or
/// less, and learns as well: see the test `less_exploration_costs_less_and_learns_as_well`.
pub const EXPLORATION: f64 = 1.0;

/// What cost is worth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostWeight {
    /// Reward that one reference cost is worth: 0.1 gives up 0.1 of reward to save it.
    Fixed(f64),
    /// The weight that keeps the spend of a day near a budget.
    Budget(Budget),
}

/// The range of rewards.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RewardRange {
    /// Least reward.
    pub low: f64,
    /// Largest reward.
    pub high: f64,
}

impl RewardRange {
    pub(super) fn width(self) -> f64 {
        self.high - self.low
    }
}

/// Settings of a router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterSettings {
    /// Who decides.
    pub policy: Policy,
    /// Who decides 80 % of the requests while the learned policy warms up.
    pub incumbent: Fixed,
    /// What cost is worth.
    pub cost_weight: CostWeight,
    /// The cost that the weight refers to, in the currency of the prices, above 0. It stays when prices change, so that versions can
    /// be compared.
    pub reference_cost: f64,
    /// Units that a model uses for a typical request: the expectation for an action before it is tried. Above 0.
    pub typical_units: f64,
    /// The range of rewards; within -1 to 1.
    pub rewards: RewardRange,
    /// See [`FORGETTING`]; above 0, and at most 1, which forgets nothing.
    pub forgetting: f64,
    /// See [`FLOOR`]; 0 to 1.
    pub floor: f64,
    /// See [`EXPLORATION`]; above 0.
    pub exploration: f64,
    /// See [`WARM_UP`].
    pub warm_up: u64,
}

impl RouterSettings {
    /// The defaults for a table: the reference cost is that of one unit at the median price, or 1 if nothing has a price.
    pub fn new(table: &Table, incumbent: Fixed, cost_weight: CostWeight) -> Self {
        Self {
            policy: Policy::Learned,
            incumbent,
            cost_weight,
            reference_cost: table.median_price().unwrap_or(1.0),
            typical_units: 1.0,
            rewards: RewardRange { low: 0.0, high: 1.0 },
            forgetting: FORGETTING,
            floor: FLOOR,
            exploration: EXPLORATION,
            warm_up: WARM_UP,
        }
    }

    pub(super) fn check(&self) -> Result<(), LearnError> {
        let refuse = |what: String| Err(LearnError::Router(what));
        let above_zero = |value: f64| value.is_finite() && value > 0.0;
        match &self.cost_weight {
            CostWeight::Fixed(weight) if !weight.is_finite() || *weight < 0.0 => {
                return refuse(format!("a cost weight of {weight}; finite and at least 0"));
            }
            CostWeight::Fixed(_) => {}
            CostWeight::Budget(budget) => budget.check()?,
        }
        let positive = [
            ("reference cost", self.reference_cost),
            ("number of typical units", self.typical_units),
            ("forgetting factor", self.forgetting),
            ("exploration", self.exploration),
        ];
        if let Some((name, value)) = positive.into_iter().find(|(_, value)| !above_zero(*value)) {
            return refuse(format!("a {name} of {value}; finite and above 0"));
        }
        if self.forgetting > 1.0 {
            return refuse(format!("a forgetting factor of {}; at most 1", self.forgetting));
        }
        if !(0.0..=1.0).contains(&self.floor) {
            return refuse(format!("a floor of {}; 0 to 1", self.floor));
        }
        let RewardRange { low, high } = self.rewards;
        if !(-1.0..1.0).contains(&low) || !(-1.0..=1.0).contains(&high) || low >= high {
            return refuse(format!("rewards from {low} to {high}; a range within -1 to 1"));
        }
        Ok(())
    }
}
