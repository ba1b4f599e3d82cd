//! The ports for feedback about live traffic: where an answer is that a client names, and feedback that waits for the end of its session.

use crate::{EpisodeId, RewardRecord, RunId, StoreError};
use async_trait::async_trait;

/// Where an answer or a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerPlace {
    /// Name of the key whose client asked; empty without one.
    pub owner: String,
    /// The user of the session, if its client named one.
    pub user: Option<String>,
    /// The run.
    pub run: RunId,
    /// The episode of the session.
    pub episode: EpisodeId,
    /// The turn, from 0, if an answer is named. Requests without a whole answer are no turns.
    pub turn: Option<u32>,
}

/// Feedback about an episode that is in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingFeedback {
    /// Its number in the store, never used again; 0 before it is stored.
    pub number: u64,
    /// The run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// The verdict.
    pub record: RewardRecord,
    /// Unix time in milliseconds.
    pub at: u64,
    /// The caller's id of the feedback, for idempotence.
    pub key: Option<String>,
}

/// What became of feedback that should wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackKept {
    /// It waits.
    Waits,
    /// The same feedback with the same key waits already.
    Repeated,
    /// Other feedback with the same key waits.
    KeyReused,
    /// So much feedback waits for the episode already that no more is kept.
    TooMuch,
    /// The episode has ended: the feedback can be added to it.
    Ended,
}

/// Writes feedback that waits.
#[async_trait]
pub trait FeedbackStore: Send + Sync {
    /// Keeps feedback until its episode has ended, unless it has ended already. Durable when this returns.
    ///
    /// # Errors
    /// The store cannot be written. Nothing was kept then. Likewise below.
    async fn keep_feedback(&self, feedback: WaitingFeedback) -> Result<FeedbackKept, StoreError>;
    /// Removes feedback by its numbers: it is part of its episode now, or cannot be.
    async fn drop_feedback(&self, numbers: Vec<u64>) -> Result<(), StoreError>;
}

/// Finds answers and sessions, and feedback that waits.
pub trait FeedbackReader {
    /// The newest answer of this id of each owner and user, the newest first. Endpoints may use an id again.
    ///
    /// # Errors
    /// The store cannot be read; likewise below.
    fn answer_places(&self, id: &str) -> Result<Vec<AnswerPlace>, StoreError>;
    /// The newest session of this name of each owner and user, the newest first. Branches and side turns of a session have its name; the session itself is found.
    fn session_places(&self, session: &str) -> Result<Vec<AnswerPlace>, StoreError>;
    /// Feedback about an episode that waits for its end, in the order in which it came.
    fn waiting_feedback(&self, run: &RunId, episode: &EpisodeId) -> Result<Vec<WaitingFeedback>, StoreError>;
    /// Feedback that still waits although its episode has ended, in the order in which it came, at most `limit`: the episode refused it when it was
    /// recorded, as one that failed does.
    fn due_feedback(&self, limit: usize) -> Result<Vec<WaitingFeedback>, StoreError>;
}
