//! The port for writing runs and episodes.

use crate::{
    Admission, Digest, Episode, EpisodeId, PluginIdentity, RewardRecord, RunId, RunLabels, StateId, StoreError, Usage,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Plays and scores episodes.
    Play,
    /// Learns; its episodes belong to its phases.
    Learn,
    /// Compares two configurations on held-out tasks.
    Evaluate,
    /// One phase of a learning run.
    Phase,
    /// Captures episodes of external agents.
    Live,
}

impl RunKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Play, Self::Learn, Self::Evaluate, Self::Phase, Self::Live];

    /// Name in lists and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Play => "play",
            Self::Learn => "learn",
            Self::Evaluate => "evaluate",
            Self::Phase => "phase",
            Self::Live => "live",
        }
    }
}

/// The specification of a run as a versioned document. `clawhost-run-config` writes it from a `RunSpec` and reads every
/// version; a store does not interpret it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpecDocument(pub serde_json::Value);

impl SpecDocument {
    /// For phases, whose parent has the specification, and for runs that are not stored.
    pub fn none() -> Self {
        Self(serde_json::Value::Null)
    }
}

/// The record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Id, unique in the data folder.
    pub id: RunId,
    /// The run that it is a phase of.
    pub parent: Option<RunId>,
    /// Its purpose.
    pub kind: RunKind,
    /// The environment's name.
    pub environment: String,
    /// Identity of the configuration.
    pub state_id: StateId,
    /// The fully resolved specification.
    pub config: SpecDocument,
    /// Everything that determines its episodes, as a document: equal documents, equal episodes. Its digest is the digest of the
    /// run.
    pub basis: serde_json::Value,
    /// Number of planned episodes; 0 for a learning run, whose phases play them.
    pub planned: u64,
    /// Unix time of its start, in milliseconds.
    pub created_at: u64,
    /// What it is called from the beginning. A name that another run has refuses the record.
    #[serde(default)]
    pub labels: RunLabels,
}

impl RunRecord {
    /// Digest of everything that determines its episodes. An interrupted run is found by it.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&self.basis)
    }
}

/// An episode with the notes that its instance wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The episode.
    pub episode: std::sync::Arc<Episode>,
    /// kv writes; `None` deletes.
    pub notes: BTreeMap<String, Option<Vec<u8>>>,
    /// Whether it replaces a cancelled episode with the same index. Otherwise there must be none.
    pub replaces_existing: bool,
}

/// A later verdict on a stored episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The episode's run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// The verdict.
    pub record: RewardRecord,
    /// Unix time in milliseconds.
    pub at: u64,
    /// The caller's id of the verdict, for idempotence.
    pub key: Option<String>,
}

/// Writes runs and episodes.
#[async_trait]
pub trait EpisodeStore: Send + Sync {
    /// Creates a run.
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError>;
    /// Reopens an interrupted run.
    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError>;
    /// Records episodes with their notes, and the run's model usage so far, in one transaction. Durable when this returns. A live episode is
    /// closed by it: its exchanges are part of the episode from then on, and so is the feedback that waited for it, in the order in which it came.
    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, spent: Usage) -> Result<(), StoreError>;
    /// Adds verdicts to stored episodes by [`admit`](crate::admit), in one transaction, against the verdicts that are stored
    /// by then. Returns the result of each, in order.
    async fn judge(&self, judged: Vec<Judged>) -> Result<Vec<Admission>, StoreError>;
    /// Ends a run with its summary and its model usage. The notes of its episodes are merged in the order of the plan, the
    /// last writer wins, independent of the order of completion.
    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, spent: Usage) -> Result<(), StoreError>;
}

/// Stores plugins by digest, so that episodes can be replayed.
#[async_trait]
pub trait PluginStore: Send + Sync {
    /// Stores a plugin; does nothing if it is stored already.
    ///
    /// # Errors
    /// The plugin cannot be written.
    async fn keep_plugin(&self, plugin: &PluginIdentity, world: &str, bytes: Vec<u8>) -> Result<(), StoreError>;
    /// Digests of the kept plugins that have the name, the version and the world of this one and are other components, sorted.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn namesakes(&self, plugin: &PluginIdentity, world: &str) -> Result<Vec<Digest>, StoreError>;
}
