//! The ports for live trials: what was drawn for sessions, and what is known of the trials of a playbook.

use crate::{EpisodeId, PlaybookVersion, RunId, StoreError};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What was drawn for a live session when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDraw {
    /// The playbook whose trials it belongs to.
    pub playbook: String,
    /// The draws as JSON text. A store does not interpret it.
    pub document: String,
}

/// A session with draws whose reward is not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingDraw {
    /// Its number in the store, never used again.
    pub number: u64,
    /// The run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// Unix time in milliseconds at which the session began.
    pub at: u64,
    /// The draws as JSON text.
    pub document: String,
}

/// A session that has entered the trials.
#[derive(Debug, Clone, PartialEq)]
pub struct EnteredDraw {
    /// Its place in the order in which sessions entered, from 1.
    pub place: u64,
    /// The draws as JSON text.
    pub document: String,
    /// Its reward at its deadline. `None`: there was none.
    pub reward: Option<f64>,
}

/// What was drawn for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDraw {
    /// Its number in the store.
    pub number: u64,
    /// Whether the session has entered the trials.
    pub has_entered: bool,
    /// The draws as JSON text.
    pub document: String,
}

/// A change of the trials of a playbook.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrialsChange {
    /// The playbook.
    pub playbook: String,
    /// Sessions that enter, by their numbers and in this order, each with its reward.
    pub enters: Vec<(u64, Option<f64>)>,
    /// The state of the trials as JSON text, in the place of the former one. `None`: it stays.
    pub state: Option<String>,
    /// How far reflection is, as JSON text, in the place of the former one. `None`: it stays.
    pub progress: Option<String>,
    /// A new version of the playbook.
    pub version: Option<PlaybookVersion>,
}

/// What is known of the trials of a playbook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredTrials {
    /// Their state as JSON text.
    pub state: Option<String>,
    /// How far reflection is, as JSON text. It changes more often than the state, and is small.
    pub progress: Option<String>,
}

/// Changes live trials.
#[async_trait]
pub trait TrialsStore: Send + Sync {
    /// Carries a change out in one transaction. Durable when this returns.
    ///
    /// # Errors
    /// The store cannot be written. Nothing was changed then.
    async fn change_trials(&self, change: TrialsChange) -> Result<(), StoreError>;
}

/// Reads live trials.
pub trait TrialsReader {
    /// What is known of the trials of a playbook.
    ///
    /// # Errors
    /// The store cannot be read; likewise below.
    fn trials(&self, playbook: &str) -> Result<StoredTrials, StoreError>;
    /// Sessions of a playbook that wait and began at or before `at`, in the order in which they began, at most `limit`.
    fn waiting_draws(&self, playbook: &str, at: u64, limit: usize) -> Result<Vec<WaitingDraw>, StoreError>;
    /// Sessions that have entered behind a place, in their order, at most `limit`.
    fn entered_draws(&self, playbook: &str, behind: u64, limit: usize) -> Result<Vec<EnteredDraw>, StoreError>;
    /// The number of sessions that wait.
    fn count_waiting_draws(&self, playbook: &str) -> Result<u64, StoreError>;
    /// What was drawn for a session. `None`: nothing.
    fn draw_of(&self, run: &RunId, episode: &EpisodeId) -> Result<Option<StoredDraw>, StoreError>;
    /// The playbooks that have trials.
    fn tried_playbooks(&self) -> Result<Vec<String>, StoreError>;
}
