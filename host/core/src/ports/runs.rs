//! Runs by what people call them: found, filtered, summed up, named and tagged.

use crate::{Digest, RunId, RunKind, RunLabels, RunName, RunRow, RunState, RunTag, StoreError};
use async_trait::async_trait;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Which runs. Everything that is set must hold; an empty set allows all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// It has all of these tags.
    pub tags: BTreeSet<RunTag>,
    /// It came so far.
    pub states: BTreeSet<RunState>,
    /// It is for this.
    pub kinds: BTreeSet<RunKind>,
    /// It began at this time or later (milliseconds since 1970).
    pub begun_from: Option<u64>,
    /// It began at this time or earlier (milliseconds since 1970).
    pub begun_to: Option<u64>,
    /// At most so many, newest first; none: all.
    pub limit: Option<u64>,
}

/// How the episodes of a run ended, those of its phases included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EpisodeTally {
    /// All that are recorded.
    pub episodes: u64,
    /// Those with a reward.
    pub scored: u64,
    /// Those that wait for a verdict.
    pub pending: u64,
    /// Those that could not be completed.
    pub failed: u64,
    /// All by how they ended.
    pub endings: BTreeMap<String, u64>,
}

/// A phase of a run, in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseRow {
    /// The phase.
    pub id: RunId,
    /// How far it came.
    pub state: RunState,
    /// Episodes that it plays if nothing stops it.
    pub planned: u64,
    /// Episodes that are recorded.
    pub episodes: u64,
    /// Those with a reward.
    pub scored: u64,
    /// Their mean reward; none if none is scored.
    pub reward_mean: Option<f64>,
}

/// Reads runs by their labels and their states.
pub trait RunReader {
    /// Runs that a filter selects, newest first; phases are no runs of their own.
    ///
    /// # Errors
    /// The store cannot be read; the same holds for every method below.
    fn select_runs(&self, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError>;
    /// What a run is called; nothing where there is no such run.
    fn labels(&self, run: &RunId) -> Result<RunLabels, StoreError>;
    /// The run of this name.
    fn run_named(&self, name: &RunName) -> Result<Option<RunId>, StoreError>;
    /// Runs whose id begins with a text, newest first, at most so many; no phases.
    fn runs_beginning(&self, text: &str, limit: u64) -> Result<Vec<RunId>, StoreError>;
    /// The newest run of this digest that has finished.
    fn finished_run(&self, digest: &Digest) -> Result<Option<RunId>, StoreError>;
    /// The phases of a run, in the order in which they began.
    fn phases(&self, run: &RunId) -> Result<Vec<PhaseRow>, StoreError>;
    /// How the episodes of a run ended; which of them are pending is a matter of the time (milliseconds since 1970).
    fn tally(&self, run: &RunId, now: u64) -> Result<EpisodeTally, StoreError>;
}

/// A change of what a run is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelChange {
    /// Another name; none: no name any more.
    Name(Option<RunName>),
    /// Tags that it gets and tags that it loses. One that is in both is lost.
    Tags {
        /// It gets these.
        added: BTreeSet<RunTag>,
        /// It loses these.
        removed: BTreeSet<RunTag>,
    },
}

/// What came of a change of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relabelled {
    /// It is called so now.
    Now(RunLabels),
    /// There is no such run.
    NoRun,
    /// It would have more than [`RUN_TAGS`](crate::RUN_TAGS) tags.
    TooManyTags,
}

/// Names and tags runs.
#[async_trait]
pub trait RunLabelStore: Send + Sync {
    /// Changes what a run is called, at once or not at all.
    ///
    /// # Errors
    /// Another run has the name ([`StoreError::NameTaken`]), or the store cannot be written.
    async fn relabel(&self, run: &RunId, change: LabelChange) -> Result<Relabelled, StoreError>;
}
