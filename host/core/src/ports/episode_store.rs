//! Writing runs and episodes.

use crate::{
    Admission, Digest, Episode, EpisodeId, LiveSession, PluginIdentity, RewardRecord, RunId, StateId, StoreError, Usage,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// It plays and scores episodes.
    Play,
    /// It learns; its episodes belong to its phases.
    Learn,
    /// It compares two configurations on held-out tasks.
    Evaluate,
    /// It plays one phase of a learning run.
    Phase,
    /// It captures the episodes of agents that work elsewhere.
    Live,
}

impl RunKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Play, Self::Learn, Self::Evaluate, Self::Phase, Self::Live];

    /// Its name in lists and in the store.
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

/// The specification of a run as a versioned document. `clawhost-run-config` writes it from a `RunSpec` and reads it back,
/// whatever version wrote it; a store keeps it as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpecDocument(pub serde_json::Value);

impl SpecDocument {
    /// Of a phase, whose parent holds the specification, and of runs that are never stored.
    pub fn none() -> Self {
        Self(serde_json::Value::Null)
    }
}

/// One invocation that plays episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Unique in the data folder.
    pub id: RunId,
    /// The run that it is a phase of.
    pub parent: Option<RunId>,
    /// What it is for.
    pub kind: RunKind,
    /// The environment's name.
    pub environment: String,
    /// The configuration that acts.
    pub state_id: StateId,
    /// The fully resolved specification.
    pub config: SpecDocument,
    /// Names all that decides what its episodes are: equal digests, equal episodes.
    pub digest: Digest,
    /// Episodes that it plays if nothing stops it; 0 for a learning run, whose phases play them.
    pub planned: u64,
    /// When it began: milliseconds since 1970.
    pub created_at: u64,
}

/// An episode with what its instance wrote into its notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The episode.
    pub episode: std::sync::Arc<Episode>,
    /// kv writes; `None` deletes.
    pub notes: BTreeMap<String, Option<Vec<u8>>>,
    /// It takes the place of one at its position that was cut short. Else there must be none.
    pub replaces_existing: bool,
}

/// A live episode whose end is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEpisode {
    /// The run that it will belong to.
    pub run: RunId,
    /// Its id.
    pub id: EpisodeId,
    /// Its position in the run.
    pub index: u64,
    /// Its session.
    pub session: LiveSession,
    /// When it was opened: milliseconds since 1970.
    pub opened_at: u64,
}

/// A later verdict about a stored episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The episode's run.
    pub run: RunId,
    /// The episode.
    pub episode: EpisodeId,
    /// The verdict.
    pub record: RewardRecord,
    /// When it was given: milliseconds since 1970.
    pub at: u64,
    /// The caller's name for it: the same key is added once.
    pub key: Option<String>,
}

/// Keeps runs and episodes.
#[async_trait]
pub trait EpisodeStore: Send + Sync {
    /// Begins a run.
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError>;
    /// Takes a run up again: it is unfinished once more.
    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError>;
    /// Records episodes with their notes, and what the models of the run have cost so far; durable when this returns. All of
    /// it, or nothing.
    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, spent: Usage) -> Result<(), StoreError>;
    /// Records that a live episode has begun. Appending it closes it.
    async fn open_episode(&self, episode: &OpenEpisode) -> Result<(), StoreError>;
    /// Adds verdicts to stored episodes by [`admit`](crate::admit), against what is stored then: another process may have judged
    /// meanwhile. Gives what came of each, in order. Those that are added are added together.
    async fn judge(&self, judged: Vec<Judged>) -> Result<Vec<Admission>, StoreError>;
    /// Ends a run with its summary and what its models have cost. The notes of its episodes are merged in the order of the plan: the last writer wins,
    /// in whatever order they ran.
    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, spent: Usage) -> Result<(), StoreError>;
}

/// Keeps plugins by their digest, so that what was played can be played again.
#[async_trait]
pub trait PluginStore: Send + Sync {
    /// Keeps a plugin; one that is there already is left as it is.
    ///
    /// # Errors
    /// It cannot be written.
    async fn keep_plugin(&self, plugin: &PluginIdentity, world: &str, bytes: Vec<u8>) -> Result<(), StoreError>;
}
