//! Online ridge regression with forgetting, and its logistic form for rewards.

use crate::symmetric::Symmetric;
use serde::{Deserialize, Serialize};

/// Penalty on squared weights, in outcomes: an effect is believed after more than this many.
const PENALTY: f64 = 0.3;
/// Least weight of an outcome in the logistic regression: below it one surprise would move the weights without bound.
const LEAST_WEIGHT: f64 = 0.02;
/// Largest log-odds, a probability of 0.9997.
const LARGEST_LOG_ODDS: f64 = 8.0;

/// Least squares of a target on the columns of a row, with a penalty: `(X'WX + penalty I)^-1 X'Wy`. Every new row first
/// multiplies the sums by the forgetting factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ridge {
    gram: Symmetric,
    moments: Vec<f64>,
    /// The solution of the sums, kept because it is read more often than they change.
    weights: Vec<f64>,
}

impl Ridge {
    pub(super) fn new(columns: usize) -> Self {
        let mut gram = Symmetric::default();
        (0..columns).for_each(|at| gram.insert(at));
        Self { gram, moments: vec![0.0; columns], weights: vec![0.0; columns] }
    }

    /// Whether the sums have this many columns.
    pub(super) fn has_columns(&self, columns: usize) -> bool {
        self.gram.order() == columns && self.moments.len() == columns && self.weights.len() == columns
    }

    /// Adds a row.
    pub(super) fn update(&mut self, row: &[f64], target: f64, weight: f64, forgetting: f64) {
        self.gram.scale(forgetting);
        self.gram.add_square(row, weight);
        for (moment, value) in self.moments.iter_mut().zip(row) {
            *moment = *moment * forgetting + weight * value * target;
        }
        self.weights = self.gram.solve(PENALTY, &self.moments);
    }

    /// The weights of the columns.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The prediction for a row.
    pub(super) fn predict(&self, row: &[f64]) -> f64 {
        row.iter().zip(&self.weights).map(|(value, weight)| value * weight).sum()
    }
}

/// Ridge regression through the logistic function, for targets of 0 to 1. Each outcome enters as one step of iteratively
/// reweighted least squares at the current weights: with prediction `p`, weight `w = p (1 - p)` and target
/// `log-odds + (y - p) / w` (McCullagh and Nelder 1989, section 2.5, taken online).
///
/// The plain form fits a line to a success rate that levels off at 0 and 1, and so finds a wrong boundary between two models: see
/// the test `a_line_finds_a_worse_boundary_than_the_logistic_form`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Logistic(Ridge);

impl Logistic {
    pub(super) fn new(columns: usize) -> Self {
        Self(Ridge::new(columns))
    }

    pub(super) fn has_columns(&self, columns: usize) -> bool {
        self.0.has_columns(columns)
    }

    /// Adds an outcome, 0 to 1.
    pub(super) fn update(&mut self, row: &[f64], outcome: f64, forgetting: f64) {
        let log_odds = self.log_odds(row);
        let predicted = logistic(log_odds);
        let weight = (predicted * (1.0 - predicted)).max(LEAST_WEIGHT);
        self.0.update(row, log_odds + (outcome - predicted) / weight, weight, forgetting);
    }

    /// The weights of the columns, in log-odds.
    pub(super) fn weights(&self) -> &[f64] {
        self.0.weights()
    }

    fn log_odds(&self, row: &[f64]) -> f64 {
        self.0.predict(row).clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    }

    /// The prediction for a row, 0 to 1.
    pub(super) fn predict(&self, row: &[f64]) -> f64 {
        logistic(self.log_odds(row))
    }
}

/// `1 / (1 + exp(-x))`.
pub(super) fn logistic(x: f64) -> f64 {
    (1.0 + (-x).exp()).recip()
}
