//! What an evolution came to.

use serde::{Deserialize, Serialize};

/// The best candidate so far, against what it has cost to find it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Evaluations made by then.
    pub evaluations: u64,
    /// Its mean on the items of the fixed set that were scored. Too high as an estimate: it was chosen for it.
    pub mean: f64,
}

/// Failures, by what came of them. None is a number anywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Evaluations that failed and might have gone well another time.
    pub transient: u64,
    /// Evaluations that failed for good.
    pub permanent: u64,
    /// Items that were left out for a candidate, because they kept failing.
    pub left_out: u64,
}

/// What an evolution came to, so far or in the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One point per candidate that became the best.
    pub curve: Vec<Point>,
    /// Candidates that were played on the whole fixed set, the seed among them.
    pub candidates: u64,
    /// Children that were compared with their parents.
    pub children: u64,
    /// Times that a reflector was asked.
    pub reflections: u64,
    /// Evaluations made, failed ones included; at most the budget.
    pub evaluations: u64,
    /// Evaluations that were needed and known already.
    pub cached: u64,
    /// What failed.
    pub failures: Failures,
}
