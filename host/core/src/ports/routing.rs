//! The ports for the decisions of routers about live sessions: recorded with the exchanges, kept until their outcome is known.

use crate::{EpisodeId, RunId, StoreError};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What an exchange adds to the decision of a router about its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutedExchange {
    /// The router.
    pub router: String,
    /// The decision as JSON text, until an exchange of the session is recorded with it. A store does not interpret it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Whether the model gave no answer, and its client is not the cause.
    pub has_failed: bool,
    /// Tokens that it used of the first and of the second model.
    pub tokens: [u64; 2],
}

/// What came of a session that a router decided about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RoutedOutcome {
    /// Not known yet: it is open, or its episode has no reward or waits for a verdict.
    Unknown,
    /// The effective reward of its episode.
    Rewarded(f64),
    /// Its model answered no request.
    Failed,
}

/// A decision of a router about a live session, until it is settled.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutedSession {
    /// Its number in the store, never used again.
    pub number: u64,
    /// The run of the session.
    pub run: RunId,
    /// The episode of the session.
    pub episode: EpisodeId,
    /// Unix time of the decision in milliseconds.
    pub at: u64,
    /// The decision as JSON text.
    pub decision: String,
    /// Tokens that the session used of the first and of the second model.
    pub tokens: [u64; 2],
    /// Whether the session has ended.
    pub has_ended: bool,
    /// Whether its cost was counted.
    pub is_spent: bool,
    /// What came of it.
    pub outcome: RoutedOutcome,
}

/// What was done about decisions, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutedMarks {
    /// Their cost was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<u64>,
    /// They wait no longer: they were learned from, or have expired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<u64>,
}

/// Writes what became of decisions.
#[async_trait]
pub trait RoutingStore: Send + Sync {
    /// Marks decisions in one transaction. Marks of decisions that are not there change nothing.
    ///
    /// # Errors
    /// The store cannot be written. Nothing was marked then.
    async fn mark_routed(&self, marks: RoutedMarks) -> Result<(), StoreError>;
}

/// Reads the decisions that wait.
pub trait RoutingReader {
    /// Decisions of a router about which something can be done at `now`, oldest first and at most `limit`: the session has ended and its
    /// cost was not counted, its outcome is known, or it was made before `expires`. Times are Unix times in milliseconds.
    ///
    /// # Errors
    /// The store cannot be read; likewise for the method below.
    fn due_routed(&self, router: &str, now: u64, expires: u64, limit: usize) -> Result<Vec<RoutedSession>, StoreError>;
    /// The number of decisions of a router that are not settled.
    fn waiting_routed(&self, router: &str) -> Result<u64, StoreError>;
}
