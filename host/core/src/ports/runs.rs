//! Finds, filters, summarises, names and tags runs.

use crate::{Digest, Listed, RunId, RunKind, RunLabels, RunName, RunRow, RunState, RunTag, StoreError};
use async_trait::async_trait;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A filter of runs. All conditions that are set must hold. An empty set allows all runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// The run has all of these tags.
    pub tags: BTreeSet<RunTag>,
    /// The run is in one of these states.
    pub states: BTreeSet<RunState>,
    /// The run is of one of these kinds.
    pub kinds: BTreeSet<RunKind>,
    /// The run began at this time or later (milliseconds since 1970).
    pub begun_from: Option<u64>,
    /// The run began at this time or earlier (milliseconds since 1970).
    pub begun_to: Option<u64>,
    /// Largest number of runs, newest first. `None`: all.
    pub limit: Option<u64>,
}

/// Numbers of episodes of a run, including its phases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EpisodeTally {
    /// Recorded episodes.
    pub episodes: u64,
    /// Episodes with a reward.
    pub scored: u64,
    /// Episodes that wait for a verdict.
    pub pending: u64,
    /// Episodes that could not be completed.
    pub failed: u64,
    /// Recorded episodes, by ending.
    pub endings: BTreeMap<String, u64>,
}

/// A phase of a run, in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseRow {
    /// The phase.
    pub id: RunId,
    /// Its state.
    pub state: RunState,
    /// Planned episodes.
    pub planned: u64,
    /// Recorded episodes.
    pub episodes: u64,
    /// Episodes with a reward.
    pub scored: u64,
    /// Their mean reward. `None`: no episode has one.
    pub reward_mean: Option<f64>,
}

/// Reads runs by their labels and their states.
pub trait RunReader {
    /// The runs that a filter selects, newest first, without phases, and those that cannot be read.
    ///
    /// # Errors
    /// The store cannot be read; the same holds for every method below.
    fn select_runs(&self, filter: &RunFilter) -> Result<Listed<RunRow>, StoreError>;
    /// The name and tags of a run. Empty if there is no such run.
    fn labels(&self, run: &RunId) -> Result<RunLabels, StoreError>;
    /// The run with this name.
    fn run_named(&self, name: &RunName) -> Result<Option<RunId>, StoreError>;
    /// The runs whose id begins with a text, newest first, up to a limit, without phases.
    fn runs_beginning(&self, text: &str, limit: u64) -> Result<Vec<RunId>, StoreError>;
    /// The newest finished run with this digest.
    fn finished_run(&self, digest: &Digest) -> Result<Option<RunId>, StoreError>;
    /// The phases of a run, in the order in which they began.
    fn phases(&self, run: &RunId) -> Result<Vec<PhaseRow>, StoreError>;
    /// Numbers of episodes of a run. Pending ones are determined at the time `now` (milliseconds since 1970).
    fn tally(&self, run: &RunId, now: u64) -> Result<EpisodeTally, StoreError>;
}

/// A change of a run's name or tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelChange {
    /// Sets the name. `None`: removes it.
    Name(Option<RunName>),
    /// Adds and removes tags. A tag in both sets is removed.
    Tags {
        /// Added tags.
        added: BTreeSet<RunTag>,
        /// Removed tags.
        removed: BTreeSet<RunTag>,
    },
}

/// The result of a change of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relabelled {
    /// The current labels.
    Now(RunLabels),
    /// There is no such run.
    NoRun,
    /// The run would have more than [`RUN_TAGS`](crate::RUN_TAGS) tags.
    TooManyTags,
}

/// Names and tags runs.
#[async_trait]
pub trait RunLabelStore: Send + Sync {
    /// Changes the labels of a run, completely or not at all.
    ///
    /// # Errors
    /// Another run has the name ([`StoreError::NameTaken`]), or the store cannot be written.
    async fn relabel(&self, run: &RunId, change: LabelChange) -> Result<Relabelled, StoreError>;
}
