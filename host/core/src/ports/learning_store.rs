//! The store as the learning loop sees it: phases of a run, checkpoints, versions of playbooks.

use crate::{Digest, Episode, EpisodeStore, RunId, StoreError, Usage};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A version of a playbook, as it is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaybookVersion {
    /// The playbook.
    pub name: String,
    /// From 1, without gaps.
    pub number: u64,
    /// Of what it says.
    pub digest: Digest,
    /// What it says.
    pub document: serde_json::Value,
    /// How it came about, for people.
    pub why: String,
    /// The run that made it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When: milliseconds since 1970.
    pub created_at: u64,
}

/// What is known about the entries of a playbook beside what is served: statuses, effects, evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaybookLedger {
    /// The playbook.
    pub name: String,
    /// Its content; opaque to the store.
    pub document: serde_json::Value,
}

/// The end of an iteration: all of it is stored, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The learning run.
    pub run: RunId,
    /// Iterations that are over.
    pub iteration: u64,
    /// All that the next iteration needs.
    pub state: serde_json::Value,
    /// The report of the iteration; null: there is none.
    pub report: serde_json::Value,
    /// New versions; their numbers are given by the store.
    pub versions: Vec<PlaybookVersion>,
    /// Takes the place of the one before.
    pub ledger: Option<PlaybookLedger>,
    /// Large parts of the state, by name: kept as blobs, beside the state document. Names that are absent are forgotten.
    pub large: BTreeMap<String, LargeState>,
    /// What models have cost so far.
    pub spent: Usage,
}

/// A large part of a checkpoint, for example the weights of a model with all that its next step needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LargeState {
    /// These bytes.
    Written(Arc<[u8]>),
    /// What the checkpoint before this one holds under the same name.
    Unchanged,
}

/// How far a phase of a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseState {
    /// It has not begun.
    Absent,
    /// It did not come to its end.
    Open,
    /// It is over, and everything of it is stored.
    Finished,
}

/// Keeps what learning needs beside runs and episodes.
#[async_trait]
pub trait LearningStore: EpisodeStore {
    /// Stores the end of an iteration; durable when this returns.
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError>;
    /// The last one of a run: iterations that are over, and the state.
    async fn last_checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError>;
    /// A large part of the last checkpoint, by its name.
    async fn large_state(&self, run: &RunId, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// The reports of all iterations of a run, in order.
    async fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError>;
    /// How far a phase has come.
    async fn phase(&self, phase: &RunId) -> Result<PhaseState, StoreError>;
    /// The stored episodes of a phase, in order.
    async fn episodes(&self, phase: &RunId) -> Result<Vec<Arc<Episode>>, StoreError>;
    /// The newest version of a playbook.
    async fn playbook(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError>;
    /// Its ledger.
    async fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError>;
    /// Adds a version, outside of any run. A version of the newest version's digest adds nothing.
    async fn add_version(&self, version: PlaybookVersion, ledger: Option<PlaybookLedger>) -> Result<(), StoreError>;
}
