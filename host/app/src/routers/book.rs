//! What the file of a router keeps beside its state.
//!
//! It belongs to the router and not to a version of it: a rollback or a promotion changes nothing of it.

use super::spending::RouterSpending;
use clawhost_core::RoutedMarks;
use serde::{Deserialize, Serialize};

/// What the file of a router keeps beside its state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RouterBook {
    /// What became of its decisions about live sessions.
    pub live: LiveBook,
    /// What became of its candidates.
    pub gate: GateBook,
    /// What was spent.
    pub spending: RouterSpending,
}

/// What became of a router's decisions about live sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveBook {
    /// Decisions that are done with, of the last pass: the store may not know it yet.
    #[serde(default)]
    pub marks: RoutedMarks,
    /// Decisions whose reward never came.
    #[serde(default)]
    pub expired: u64,
    /// Outcomes of decisions that the incumbent made because the plugin of the router failed.
    #[serde(default)]
    pub fallbacks: u64,
    /// Decisions that could not be learned from: of another version, or with a reward out of range.
    #[serde(default)]
    pub unusable: u64,
}

/// What became of a router's candidates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateBook {
    /// Judgements that counted: the chance of a wrong promotion is divided between all that there will ever be.
    #[serde(default)]
    pub judged: u32,
    /// The run whose result was served, promoted or dropped last. A run that was killed before it was complete brings it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<String>,
}
