//! What is known about one action: its reward and its use of the models, both by features.

use super::ridge::{Logistic, Ridge};
use super::settings::RouterSettings;
use super::table::Action;
use super::{decision::Outcome, table::Table};
use serde::{Deserialize, Serialize};

/// Use of the second model that an untried escalation expects, as a share of a typical request: half of the sessions fail.
const ESCALATED: f64 = 0.5;

/// An action's estimates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Arm {
    pub(super) action: Action,
    /// Outcomes learned from.
    pub(super) outcomes: u64,
    reward: Logistic,
    /// Units of the first model and of the second, each as the deviation from its expectation in typical requests. Use is
    /// learned instead of cost, so that a new price holds at once.
    units: [Ridge; 2],
}

impl Arm {
    pub(super) fn new(action: Action, columns: usize) -> Self {
        let units = [Ridge::new(columns), Ridge::new(columns)];
        Self { action, outcomes: 0, reward: Logistic::new(columns), units }
    }

    /// Whether all estimates have this many columns.
    pub(super) fn has_columns(&self, columns: usize) -> bool {
        self.reward.has_columns(columns) && self.units.iter().all(|units| units.has_columns(columns))
    }

    fn expected(&self) -> [f64; 2] {
        [1.0, if self.action.then.is_some() { ESCALATED } else { 0.0 }]
    }

    /// Learns from an outcome.
    pub(super) fn update(&mut self, row: &[f64], outcome: &Outcome, settings: &RouterSettings) {
        self.outcomes += 1;
        let reward = (outcome.reward - settings.rewards.low) / settings.rewards.width();
        self.reward.update(row, reward, settings.forgetting);
        let expected = self.expected();
        // A model alone uses no second one: nothing to estimate.
        let used = if self.action.then.is_some() { 2 } else { 1 };
        for ((ridge, units), expected) in self.units.iter_mut().zip(outcome.units).zip(expected).take(used) {
            ridge.update(row, units / settings.typical_units - expected, 1.0, settings.forgetting);
        }
    }

    /// Expected reward.
    pub(super) fn reward(&self, row: &[f64], settings: &RouterSettings) -> f64 {
        settings.rewards.low + settings.rewards.width() * self.reward.predict(row)
    }

    /// Weights of the columns in the log-odds of the reward.
    pub(super) fn reward_weights(&self) -> &[f64] {
        self.reward.weights()
    }

    /// Expected cost at today's prices.
    pub(super) fn cost(&self, row: &[f64], settings: &RouterSettings, table: &Table) -> f64 {
        let [first, second] = self.expected();
        let [own, other] = &self.units;
        let units = |expected: f64, ridge: &Ridge| settings.typical_units * (expected + ridge.predict(row)).max(0.0);
        let second = if self.action.then.is_some() { units(second, other) } else { 0.0 };
        table.cost(&self.action, [units(first, own), second]).unwrap_or_default()
    }
}
