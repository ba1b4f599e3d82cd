//! The port for forgetting: what somebody said is removed on request, from every record that has it.

use crate::{EpisodeId, RunId, StoreError};
use async_trait::async_trait;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgetting {
    /// Live episodes, in progress or ended, with everything that was recorded about them.
    pub episodes: BTreeSet<(RunId, EpisodeId)>,
    /// Memories, by scope and id.
    pub memories: BTreeSet<(String, String)>,
    /// The keys whose trajectories are removed that their clients submitted themselves.
    pub submitters: BTreeSet<String>,
    /// Draws of sessions that have entered trials, by their numbers, with the document that stays: numbers that name nobody. Draws of the
    /// episodes that are not here are removed.
    pub draws: BTreeMap<u64, String>,
    /// The state of trials that stays, by playbook, as JSON text.
    pub trials: BTreeMap<String, String>,
    /// Further names under which files know what is forgotten. They are noted beside the episodes.
    pub traces: BTreeSet<String>,
    /// Whether all dictionaries of live episodes are trained anew. What is no longer recorded may have taught them.
    pub retrains_all: bool,
}

/// What a forgetting removes, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// Episodes of sessions that have ended.
    pub episodes: u64,
    /// Sessions in progress.
    pub in_progress: u64,
    /// Verdicts, with their texts.
    pub verdicts: u64,
    /// Exchanges of sessions in progress.
    pub exchanges: u64,
    /// Feedback that waited for the end of a session.
    pub feedback: u64,
    /// Responses that clients could read by their ids.
    pub responses: u64,
    /// Ids of answers and names of sessions.
    pub names: u64,
    /// Memories.
    pub memories: u64,
    /// Trajectories of the data pool.
    pub trajectories: u64,
    /// Decisions of routers that waited for a reward.
    pub decisions: u64,
    /// Draws of trials that waited for a reward.
    pub draws: u64,
    /// Draws of sessions that have entered trials. They stay as numbers that name nobody.
    pub anonymous: u64,
    /// Files with large content that lose their last reference.
    pub blobs: u64,
    /// Dictionaries of compression that had learned from what is forgotten.
    pub dictionaries: u64,
    /// Documents of others that are compressed anew, because their dictionary goes.
    pub recompressed: u64,
}

/// Forgets what somebody said.
#[async_trait]
pub trait ForgettingStore: Send + Sync {
    /// Counts what [`ForgettingStore::forget`] would remove.
    ///
    /// # Errors
    /// The store cannot be read, or another process writes to it.
    async fn rehearse_forgetting(&self, what: Forgetting) -> Result<Forgotten, StoreError>;
    /// Removes records in one transaction, and notes in it that their traces in files remain to be removed. The caller holds the exclusive
    /// lease of the folder, until [`ForgettingStore::end_forgetting`] has returned.
    ///
    /// # Errors
    /// The store cannot be written. Nothing was removed then.
    async fn forget(&self, what: Forgetting) -> Result<Forgotten, StoreError>;
    /// The episodes of forgettings that were not finished, as `RUN/EPISODE`, with their further traces. `None`: all were finished.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn unfinished_forgetting(&self) -> Result<Option<Vec<String>>, StoreError>;
    /// Deletes blobs that no record refers to, and writes the database anew without what was removed. Returns the number of deleted blobs.
    ///
    /// # Errors
    /// The folder cannot be written, or another process reads the database.
    async fn clean_forgotten(&self) -> Result<u64, StoreError>;
    /// Notes that no traces are left.
    ///
    /// # Errors
    /// The store cannot be written.
    async fn end_forgetting(&self) -> Result<(), StoreError>;
}
