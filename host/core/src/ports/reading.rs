//! Ports for reading stored runs, episodes, playbooks and plugins.

use crate::{
    Digest, Discrepancy, Episode, EpisodeState, FeedbackReader, LedgerReader, LiveReader, MemoryReader, PlaybookLedger,
    PlaybookVersion, PoolReader, RoutingReader, RunId, RunKind, RunReader, SpecDocument, StoreError, TrialsReader,
    Usage,
};
use serde::Serialize;

/// A selection of episodes: those for which everything that is set holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpisodeFilter {
    /// Only this run and its phases; `None`: all.
    pub run: Option<RunId>,
    /// Only episodes that could not be completed.
    pub failure: Option<FailureFilter>,
    /// Only episodes with this effective reward.
    pub reward: Option<RewardFilter>,
    /// Only episodes of the task with this id; for live episodes the session.
    pub task: Option<String>,
    /// Only episodes that wait for a verdict at this time (milliseconds since 1970).
    pub pending_at: Option<u64>,
    /// Only episodes of live runs.
    pub is_live: bool,
    /// The order of the results.
    pub order: EpisodeOrder,
    /// Results that are left out at the beginning.
    pub skip: u64,
    /// Most results; `None`: all.
    pub limit: Option<u64>,
}

/// The order of a list of episodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EpisodeOrder {
    /// The newest run first, each in its own order.
    #[default]
    OfRuns,
    /// The same, with the newest episode of a live run first.
    LiveNewestFirst,
    /// The newest episode first, whatever its run.
    NewestFirst,
}

impl EpisodeFilter {
    /// All episodes of a run and its phases.
    pub fn of(run: &RunId) -> Self {
        Self { run: Some(run.clone()), ..Self::default() }
    }
}

/// A selection of failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureFilter {
    /// Every failure.
    Any,
    /// Failures of this kind, of this code, or of both as `kind(code)`: `limit`, `fuel`, `limit(fuel)`.
    Named(String),
}

/// A selection of effective rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RewardFilter {
    /// No reward: no verdict scored the episode.
    Unscored,
    /// A reward in this range, both ends included.
    Within {
        /// The least.
        least: f64,
        /// The greatest.
        greatest: f64,
    },
}

/// An episode in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeRow {
    /// The run.
    pub run: String,
    /// The episode.
    pub id: String,
    /// Name of the environment, or of a live episode's agent.
    pub environment: String,
    /// The task.
    pub task: String,
    /// The ending.
    pub ending: String,
    /// The effective reward; `None` if not scored.
    pub reward: Option<f64>,
    /// Number of turns.
    pub turns: u64,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Whether it is live.
    pub live: bool,
    /// Deadline of a missing verdict (Unix time in milliseconds); `None` if none is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_until: Option<u64>,
    /// Number of revisions.
    pub revision: u32,
}

impl EpisodeRow {
    /// The state at this Unix time (milliseconds).
    pub fn state(&self, now: u64) -> EpisodeState {
        match self.pending_until {
            Some(until) if now < until => EpisodeState::Pending { until },
            _ => EpisodeState::Decided,
        }
    }
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Complete and stored.
    Finished,
    /// Ended early, with a recorded reason; can be resumed.
    Stopped,
    /// No recorded end: in progress, or its process died; can be resumed.
    Open,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// The run.
    pub id: RunId,
    /// Its purpose.
    pub kind: RunKind,
    /// The environment's name.
    pub environment: String,
    /// Identity of the configuration.
    pub state_id: String,
    /// The specification of the run.
    pub config: SpecDocument,
    /// Digest of everything that determines its episodes.
    pub digest: Digest,
    /// Everything that determines its episodes, as a document.
    #[serde(skip)]
    pub basis: serde_json::Value,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Progress.
    pub state: RunState,
    /// The summary; `None` if it did not finish.
    pub summary: Option<serde_json::Value>,
    /// Number of planned episodes; 0 for a learning run.
    pub planned: u64,
    /// Model usage so far, including its phases.
    pub spent: Usage,
    /// Current mean reward of its episodes; `None` if none is scored.
    pub reward_mean: Option<f64>,
    /// Current number of scored episodes.
    pub scored: u64,
    /// Whether episodes or its checkpoint were pruned. It cannot be resumed then.
    pub pruned: bool,
}

impl RunRow {
    /// Name of the key whose client's sessions a live run has; empty without a key, and for other runs.
    pub fn live_owner(&self) -> &str {
        self.basis.pointer("/live/owner").and_then(serde_json::Value::as_str).unwrap_or_default()
    }
}

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedRecord {
    /// The record: a run, or `RUN/ID` for an episode.
    pub record: String,
    /// The reason.
    pub why: String,
}

/// The rows of a list, and the records among them that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T> {
    /// The rows, in order.
    pub rows: Vec<T>,
    /// The records without a row.
    pub damaged: Vec<DamagedRecord>,
}

/// A stored plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlugin {
    /// Name that the plugin declares.
    pub name: String,
    /// Version, assigned by the author.
    pub version: String,
    /// Its world: `environment`, `reward`, `reflector` or `router`.
    pub world: String,
    /// The component.
    pub bytes: Vec<u8>,
}

/// Reads runs and episodes.
pub trait EpisodeReader {
    /// Runs, newest first, without phases. One that cannot be read is an error; [`RunReader::select_runs`] names it.
    ///
    /// # Errors
    /// The store cannot be read; likewise for all methods below.
    fn runs(&self, limit: Option<u64>) -> Result<Vec<RunRow>, StoreError>;
    /// One run or phase.
    fn run(&self, id: &RunId) -> Result<Option<RunRow>, StoreError>;
    /// Resumable runs with this digest, newest first.
    fn resumable(&self, digest: &Digest) -> Result<Vec<RunRow>, StoreError>;
    /// Episodes: newest run first, in order within a run. One that cannot be read is an error; [`EpisodeReader::list_episodes`]
    /// names it.
    fn episodes(&self, filter: &EpisodeFilter) -> Result<Vec<EpisodeRow>, StoreError>;
    /// As [`EpisodeReader::episodes`], with the episodes that cannot be read.
    fn list_episodes(&self, filter: &EpisodeFilter) -> Result<Listed<EpisodeRow>, StoreError>;
    /// The number of episodes that match, those that cannot be read included. The filter's limit does not count.
    fn count_episodes(&self, filter: &EpisodeFilter) -> Result<u64, StoreError>;
    /// The differences between an episode that was read and the columns that repeat parts of it.
    fn columns_unlike(&self, episode: &Episode) -> Result<Vec<Discrepancy>, StoreError>;
    /// One episode with its verdicts, by id or `RUN/ID`. A bare id refers to the newest run that has it; operations for people refuse an
    /// id that several runs have ([`EpisodeReader::runs_of_episode`]).
    fn episode(&self, name: &str) -> Result<Option<Episode>, StoreError>;
    /// The runs that have an episode with this id, newest first.
    fn runs_of_episode(&self, id: &str) -> Result<Vec<RunId>, StoreError>;
    /// The merged notes of a finished run.
    fn notes(&self, run: &RunId) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
    /// Checks the whole database; returns the first defect.
    fn check(&self) -> Result<Option<String>, StoreError>;
}

/// Reads playbooks.
pub trait PlaybookReader {
    /// Names of all playbooks, including those without a version.
    fn playbooks(&self) -> Result<Vec<String>, StoreError>;
    /// Versions of a playbook, newest first.
    fn versions(&self, name: &str) -> Result<Vec<PlaybookVersion>, StoreError>;
    /// The newest version of a playbook.
    fn newest_version(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError>;
    /// The ledger of a playbook.
    fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError>;
}

/// Reads stored plugins.
pub trait PluginReader {
    /// A plugin by digest; its bytes are verified.
    fn plugin(&self, digest: &Digest) -> Result<Option<StoredPlugin>, StoreError>;
}

/// Reads everything. One reader serves one thread at a time.
pub trait StoreReader:
    EpisodeReader
    + RunReader
    + LiveReader
    + PoolReader
    + RoutingReader
    + FeedbackReader
    + MemoryReader
    + TrialsReader
    + PlaybookReader
    + PluginReader
    + LedgerReader
    + Send
{
}

impl<
    T: EpisodeReader
        + RunReader
        + LiveReader
        + PoolReader
        + RoutingReader
        + FeedbackReader
        + MemoryReader
        + TrialsReader
        + PlaybookReader
        + PluginReader
        + LedgerReader
        + Send,
> StoreReader for T
{
}
