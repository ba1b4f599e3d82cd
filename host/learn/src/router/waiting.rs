//! Decisions that wait for their reward.

use super::decision::Decision;
use crate::LearnError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Seconds of a day.
pub(super) const DAY: u64 = 86_400;
/// Seconds that a decision waits for its reward: seven days of the caller's clock.
pub const PATIENCE: u64 = 7 * DAY;
/// Most waiting decisions. At some 2 KB each they take 200 MB; the oldest expire beyond it.
pub const MOST_WAITING: usize = 100_000;

/// Decisions by session, until their reward comes. A reward that never comes is never taken for one of 0: the decision expires,
/// and is counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    decisions: BTreeMap<String, Decision>,
    expired: u64,
}

impl Waiting {
    /// Keeps a decision until its reward comes. A later one of the same session replaces it.
    pub fn add(&mut self, decision: Decision) {
        self.decisions.insert(decision.session.clone(), decision);
        if self.decisions.len() > MOST_WAITING {
            let oldest =
                self.decisions.values().min_by_key(|waiting| waiting.time).map(|waiting| waiting.session.clone());
            if oldest.and_then(|session| self.decisions.remove(&session)).is_some() {
                self.expired += 1;
            }
        }
    }

    /// The decision of a session whose reward has come, which then waits no longer. `now` is in seconds of the caller's clock.
    ///
    /// # Errors
    /// No decision of this session waits: there was none, it was settled before, or it has expired.
    pub fn settle(&mut self, session: &str, now: u64) -> Result<Decision, LearnError> {
        self.expire(now);
        let unknown = || LearnError::NotWaiting { session: session.to_owned() };
        self.decisions.remove(session).ok_or_else(unknown)
    }

    /// Drops the decisions that have waited for more than [`PATIENCE`]; returns how many these were.
    pub fn expire(&mut self, now: u64) -> u64 {
        let before = self.decisions.len();
        self.decisions.retain(|_, decision| now.saturating_sub(decision.time) <= PATIENCE);
        let expired = (before - self.decisions.len()) as u64;
        self.expired += expired;
        expired
    }

    /// Number of decisions that wait.
    pub fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Number of decisions whose reward never came.
    pub fn expired(&self) -> u64 {
        self.expired
    }
}
