//! Standardised features: running means and deviations.

use super::features::Features;
use crate::LearnError;
use serde::{Deserialize, Serialize};

/// Requests after which older ones are forgotten at the rate of new ones, as the regressions forget theirs.
const WINDOW: f64 = 1_000.0;
/// Largest size of a standardised feature: a request like no other moves a prediction by no more than this.
const LARGEST: f64 = 5.0;
/// A feature that varies less than this share of its size is a constant, and carries nothing.
const CONSTANT: f64 = 1e-9;

/// Mean and variance of every feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Scale {
    /// Names and order of the features; others are refused.
    names: Vec<String>,
    /// Requests seen, at most [`WINDOW`].
    count: f64,
    means: Vec<f64>,
    variances: Vec<f64>,
}

impl Scale {
    pub(super) fn new(names: Vec<String>) -> Self {
        let zeros = vec![0.0; names.len()];
        Self { names, count: 0.0, means: zeros.clone(), variances: zeros }
    }

    /// Number of columns of a standardised request: the features and the intercept.
    pub(super) fn columns(&self) -> usize {
        self.names.len() + 1
    }

    /// Whether every feature has a mean and a variance.
    pub(super) fn is_whole(&self) -> bool {
        self.means.len() == self.names.len() && self.variances.len() == self.names.len()
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Refuses features of other names or in another order.
    pub(super) fn check(&self, features: &Features) -> Result<(), LearnError> {
        features.check()?;
        if !features.names().eq(self.names.iter().map(String::as_str)) {
            let found: Vec<&str> = features.names().collect();
            let what = format!("features {}; expected {}", found.join(", "), self.names.join(", "));
            return Err(LearnError::Router(what));
        }
        Ok(())
    }

    /// Takes a request into account (Welford 1962, with forgetting beyond the window).
    pub(super) fn observe(&mut self, features: &Features) {
        self.count = (self.count + 1.0).min(WINDOW);
        let rate = self.count.recip();
        for ((mean, variance), value) in self.means.iter_mut().zip(&mut self.variances).zip(features.values()) {
            let distance = value - *mean;
            *mean += rate * distance;
            *variance = (1.0 - rate) * (*variance + rate * distance * distance);
        }
    }

    /// The intercept and the standardised features.
    pub(super) fn standardised(&self, features: &Features) -> Vec<f64> {
        let columns = self.means.iter().zip(&self.variances).zip(features.values());
        let standardised = columns.map(|((mean, variance), value)| {
            let deviation = variance.sqrt();
            if deviation <= CONSTANT * (1.0 + mean.abs()) {
                return 0.0;
            }
            ((value - mean) / deviation).clamp(-LARGEST, LARGEST)
        });
        std::iter::once(1.0).chain(standardised).collect()
    }
}
