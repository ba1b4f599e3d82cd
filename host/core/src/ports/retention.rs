//! The port for measuring and removing stored data.

use crate::{RunId, RunKind, RunState, StoreError};
use async_trait::async_trait;
use serde::Serialize;
use std::collections::BTreeSet;

/// Stored data of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunHoldings {
    /// The run.
    pub run: RunId,
    /// Its purpose.
    pub kind: RunKind,
    /// The environment's name.
    pub environment: String,
    /// Unix time of its start, in milliseconds.
    pub created_at: u64,
    /// Progress.
    pub state: RunState,
    /// Number of episodes, including its phases.
    pub episodes: u64,
    /// Approximate bytes of its episodes, verdicts, notes, reports and checkpoint state in the database.
    pub bytes: u64,
    /// Bytes of the blobs that its checkpoint and episodes refer to.
    pub blob_bytes: u64,
}

/// Stored data of a data folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holdings {
    /// All runs, newest first.
    pub runs: Vec<RunHoldings>,
    /// Bytes of the database files.
    pub database_bytes: u64,
    /// Number of blobs and their bytes.
    pub blobs: (u64, u64),
    /// Number of unreferenced blobs and their bytes.
    pub unused_blobs: (u64, u64),
    /// Number of stored plugins and their bytes.
    pub plugins: (u64, u64),
    /// Number of playbooks and of their versions.
    pub playbooks: (u64, u64),
}

/// A request to remove data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Runs to remove, with their phases: episodes, verdicts, notes, reports, checkpoints.
    pub runs: BTreeSet<RunId>,
    /// Runs of these whose specification and reports stay, because other records refer to them. They cannot be resumed any
    /// more.
    pub keep_records: BTreeSet<RunId>,
    /// Episodes of these runs that stay, because other records refer to them: `RUN/ID`, where RUN may be a phase. The rows
    /// of their runs stay too, but cannot be resumed any more.
    pub keep_episodes: BTreeSet<String>,
    /// Whether to remove plugins that no remaining episode or run refers to.
    pub unused_plugins: bool,
    /// Whether other processes may use the folder: then blobs stay, and the database keeps its free pages for later records.
    pub records_only: bool,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Removed runs.
    pub runs: u64,
    /// Removed episodes.
    pub episodes: u64,
    /// Removed plugins.
    pub plugins: u64,
    /// Removed blobs.
    pub blobs: u64,
    /// Bytes by which the data folder shrank.
    pub bytes: u64,
}

/// Measures and removes stored data.
#[async_trait]
pub trait Retention: Send + Sync {
    /// The current data.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn holdings(&self) -> Result<Holdings, StoreError>;
    /// Counts what [`Retention::remove`] would remove. `bytes` is 0, because the size of the folder afterwards is unknown.
    ///
    /// # Errors
    /// The store cannot be read, or another process writes to it.
    async fn rehearse(&self, removal: Removal) -> Result<Removed, StoreError>;
    /// Removes records in one transaction, then unreferenced blobs, then returns free pages to the file system. The last two need a
    /// folder that no other process uses, and are left out with [`Removal::records_only`].
    ///
    /// # Errors
    /// The store cannot be written. Records are either all present or all removed.
    async fn remove(&self, removal: Removal) -> Result<Removed, StoreError>;
}
