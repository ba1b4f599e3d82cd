//! Statistics of an evolution.

use serde::{Deserialize, Serialize};

/// The mean of the best candidate and the evaluations spent to find it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Evaluations so far.
    pub evaluations: u64,
    /// Its mean over the scored items of the fixed set. Biased upwards, because the candidate was selected by it.
    pub mean: f64,
}

/// Counts of failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Evaluations that failed transiently.
    pub transient: u64,
    /// Evaluations that failed permanently.
    pub permanent: u64,
    /// Pairs of candidate and item that were given up.
    pub left_out: u64,
}

/// Statistics of an evolution, during or after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One point per candidate that became the best.
    pub curve: Vec<Point>,
    /// Candidates that were evaluated on the whole fixed set, including the seed candidate.
    pub candidates: u64,
    /// Children that were compared with their parents.
    pub children: u64,
    /// Calls of the reflector.
    pub reflections: u64,
    /// Evaluations, including failed ones; at most the budget.
    pub evaluations: u64,
    /// Evaluations that the cache saved.
    pub cached: u64,
    /// Failures.
    pub failures: Failures,
}
