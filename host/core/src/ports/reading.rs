//! Reading what is stored: lists, whole episodes, playbooks, plugins.

use crate::{
    Digest, Episode, EpisodeState, OpenEpisode, PlaybookLedger, PlaybookVersion, RunId, RunKind, SpecDocument,
    StoreError, Usage,
};
use serde::Serialize;

/// Which episodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EpisodeFilter {
    /// Of this run and its phases; none: of all.
    pub run: Option<RunId>,
    /// At most so many, newest run first; none: all.
    pub limit: Option<u64>,
}

impl EpisodeFilter {
    /// All episodes of a run and its phases.
    pub fn of(run: &RunId) -> Self {
        Self { run: Some(run.clone()), limit: None }
    }
}

/// A line of a list of episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeRow {
    /// The run.
    pub run: String,
    /// The episode.
    pub id: String,
    /// The environment's name; of a live episode the agent's.
    pub environment: String,
    /// The task.
    pub task: String,
    /// How it ended.
    pub ending: String,
    /// None: not scored.
    pub reward: Option<f64>,
    /// How many turns.
    pub turns: u64,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// Whether it was captured from an agent.
    pub live: bool,
    /// Until when it waits for a verdict that is missing (milliseconds since 1970); none: nothing is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_until: Option<u64>,
    /// How often its verdicts were revised.
    pub revision: u32,
}

impl EpisodeRow {
    /// Whether learners may take it at a time (milliseconds since 1970).
    pub fn state(&self, now: u64) -> EpisodeState {
        match self.pending_until {
            Some(until) if now < until => EpisodeState::Pending { until },
            _ => EpisodeState::Decided,
        }
    }
}

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It ended, and everything of it is stored.
    Finished,
    /// It ended early and recorded why; it can be resumed.
    Stopped,
    /// It recorded no end: it is being played, or its process died; it can be resumed.
    Open,
}

/// A line of a list of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// The run.
    pub id: RunId,
    /// What it is for.
    pub kind: RunKind,
    /// The environment's name.
    pub environment: String,
    /// The configuration that acted.
    pub state_id: String,
    /// The specification of the run.
    pub config: SpecDocument,
    /// Names all that decides what its episodes are.
    pub digest: Digest,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// How far it came.
    pub state: RunState,
    /// What it recorded at its end; none: it did not finish.
    pub summary: Option<serde_json::Value>,
    /// Episodes that it plays if nothing stops it; 0 for a learning run.
    pub planned: u64,
    /// What its models cost so far, those of its phases included.
    pub spent: Usage,
    /// Mean reward of its episodes as they are now; none if none is scored.
    pub reward_mean: Option<f64>,
    /// How many of its episodes are scored now.
    pub scored: u64,
    /// Whether episodes or its checkpoint were removed on request. It cannot be resumed then.
    pub pruned: bool,
}

/// A kept plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlugin {
    /// Its own name.
    pub name: String,
    /// Its author's version.
    pub version: String,
    /// Its world: `environment`, `reward` or `reflector`.
    pub world: String,
    /// The component.
    pub bytes: Vec<u8>,
}

/// Reads runs and episodes.
pub trait EpisodeReader {
    /// Runs, newest first; phases are no runs of their own.
    ///
    /// # Errors
    /// The store cannot be read; the same holds for every method below.
    fn runs(&self, limit: Option<u64>) -> Result<Vec<RunRow>, StoreError>;
    /// One run, or one phase of a run.
    fn run(&self, id: &RunId) -> Result<Option<RunRow>, StoreError>;
    /// Runs of this digest that can be resumed, newest first.
    fn resumable(&self, digest: &Digest) -> Result<Vec<RunRow>, StoreError>;
    /// Episodes: newest run first, in order inside a run.
    fn episodes(&self, filter: &EpisodeFilter) -> Result<Vec<EpisodeRow>, StoreError>;
    /// One episode with its verdicts, by its id or by `RUN/ID`; without a run, of equal ids that of the newest run.
    fn episode(&self, name: &str) -> Result<Option<Episode>, StoreError>;
    /// The runs that have an episode of this id, newest first.
    fn runs_of_episode(&self, id: &str) -> Result<Vec<RunId>, StoreError>;
    /// Live episodes whose end is not recorded, of one run or of all, newest run first.
    fn open_episodes(&self, run: Option<&RunId>) -> Result<Vec<OpenEpisode>, StoreError>;
    /// The merged notes of a run that ended.
    fn notes(&self, run: &RunId) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
    /// Looks for damage in the whole database; the first that is found, in words.
    fn check(&self) -> Result<Option<String>, StoreError>;
}

/// Reads playbooks.
pub trait PlaybookReader {
    /// Names of all playbooks, also of those of which nothing is deployed yet.
    fn playbooks(&self) -> Result<Vec<String>, StoreError>;
    /// Versions of a playbook, newest first.
    fn versions(&self, name: &str) -> Result<Vec<PlaybookVersion>, StoreError>;
    /// The newest version of a playbook.
    fn newest_version(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError>;
    /// The ledger of a playbook.
    fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError>;
}

/// Reads kept plugins.
pub trait PluginReader {
    /// A plugin by its digest; its bytes are checked against it.
    fn plugin(&self, digest: &Digest) -> Result<Option<StoredPlugin>, StoreError>;
}

/// Reads everything. One reader serves one thread at a time.
pub trait StoreReader: EpisodeReader + PlaybookReader + PluginReader + Send {}

impl<T: EpisodeReader + PlaybookReader + PluginReader + Send> StoreReader for T {}
