//! The store port of the learning loop: phases, checkpoints, playbook versions.

use crate::{Digest, Episode, EpisodeStore, RunId, StoreError, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version of a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaybookVersion {
    /// Name of the playbook.
    pub name: String,
    /// Number, from 1, without gaps.
    pub number: u64,
    /// Digest of the content.
    pub digest: Digest,
    /// The content.
    pub document: serde_json::Value,
    /// Its reason, for people.
    pub why: String,
    /// The run that created it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Unix time of creation, in milliseconds.
    pub created_at: u64,
}

/// Data about the entries of a playbook besides its versions: statuses, effects, evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaybookLedger {
    /// Name of the playbook.
    pub name: String,
    /// Its content; opaque to the store.
    pub document: serde_json::Value,
}

/// The end of an iteration, stored in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The learning run.
    pub run: RunId,
    /// Number of completed iterations.
    pub iteration: u64,
    /// The state that the next iteration needs.
    pub state: serde_json::Value,
    /// The report of the iteration; null if there is none.
    pub report: serde_json::Value,
    /// New playbook versions; the store assigns their numbers.
    pub versions: Vec<PlaybookVersion>,
    /// Replaces the previous ledger.
    pub ledger: Option<PlaybookLedger>,
    /// Large parts of the state by name, stored as blobs. Parts that are not listed are removed.
    pub large: BTreeMap<String, LargeState>,
    /// Model usage so far.
    pub spent: Usage,
}

/// A large part of a checkpoint, for example weights with their optimizer state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LargeState {
    /// New content.
    Written(Arc<[u8]>),
    /// The content of the same name in the previous checkpoint.
    Unchanged,
}

/// Progress of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseState {
    /// Not started.
    Absent,
    /// Started, not complete.
    Open,
    /// Complete and stored.
    Finished,
}

/// Stores the data of learning runs.
#[async_trait]
pub trait LearningStore: EpisodeStore {
    /// Stores the end of an iteration. Durable when this returns.
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError>;
    /// The last checkpoint of a run: number of completed iterations, and state.
    async fn last_checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError>;
    /// A large part of the last checkpoint, by name.
    async fn large_state(&self, run: &RunId, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// The reports of all iterations of a run, in order.
    async fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError>;
    /// Progress of a phase.
    async fn phase(&self, phase: &RunId) -> Result<PhaseState, StoreError>;
    /// The stored episodes of a phase, in order.
    async fn episodes(&self, phase: &RunId) -> Result<Vec<Arc<Episode>>, StoreError>;
    /// The content roots of the finished phases of a run, by the name of the phase.
    async fn content_roots(&self, run: &RunId) -> Result<BTreeMap<String, Digest>, StoreError>;
    /// The newest version of a playbook.
    async fn playbook(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError>;
    /// The ledger of a playbook.
    async fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError>;
    /// Adds a version outside of a run. Does nothing if its digest equals that of the newest version.
    async fn add_version(&self, version: PlaybookVersion, ledger: Option<PlaybookLedger>) -> Result<(), StoreError>;
}
