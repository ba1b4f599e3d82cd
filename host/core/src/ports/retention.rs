//! What a data folder holds, and what is removed from it.

use crate::{RunId, RunKind, RunState, StoreError};
use async_trait::async_trait;
use serde::Serialize;
use std::collections::BTreeSet;

/// What one run holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunHoldings {
    /// The run.
    pub run: RunId,
    /// What it is for.
    pub kind: RunKind,
    /// The environment's name.
    pub environment: String,
    /// When it began: milliseconds since 1970.
    pub created_at: u64,
    /// How far it came.
    pub state: RunState,
    /// Its episodes, those of its phases included.
    pub episodes: u64,
    /// Bytes of its episodes, verdicts, notes, reports and checkpoint state in the database, about.
    pub bytes: u64,
    /// Bytes of the blobs that its checkpoint and its episodes refer to.
    pub blob_bytes: u64,
}

/// What a data folder holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holdings {
    /// Every run, newest first.
    pub runs: Vec<RunHoldings>,
    /// Bytes of the database files.
    pub database_bytes: u64,
    /// Blobs, and their bytes.
    pub blobs: (u64, u64),
    /// Blobs that no record refers to, and their bytes.
    pub unused_blobs: (u64, u64),
    /// Kept plugins, and their bytes.
    pub plugins: (u64, u64),
    /// Playbooks, and their versions.
    pub playbooks: (u64, u64),
}

/// What is to be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Runs, with their phases: episodes, verdicts, notes, reports, checkpoints.
    pub runs: BTreeSet<RunId>,
    /// Of these runs the specification and the reports stay, because something else refers to them. They can no longer be
    /// resumed.
    pub keep_records: BTreeSet<RunId>,
    /// Episodes of these runs that stay, because something else refers to them: `RUN/ID`, where RUN may be a phase.
    /// The rows of their runs stay, which can no longer be resumed.
    pub keep_episodes: BTreeSet<String>,
    /// Removes plugins that no remaining episode or run refers to.
    pub unused_plugins: bool,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Runs that are gone.
    pub runs: u64,
    /// Episodes that are gone.
    pub episodes: u64,
    /// Plugins that are gone.
    pub plugins: u64,
    /// Blobs that are gone, referred to by nothing.
    pub blobs: u64,
    /// Bytes that the data folder is smaller by.
    pub bytes: u64,
}

/// Measures and removes.
#[async_trait]
pub trait Retention: Send + Sync {
    /// What the folder holds now.
    ///
    /// # Errors
    /// The store cannot be read.
    async fn holdings(&self) -> Result<Holdings, StoreError>;
    /// Removes records in one transaction, then blobs that nothing refers to, then gives room back to the file system.
    ///
    /// # Errors
    /// The store cannot be written; records are all there, or all gone.
    async fn remove(&self, removal: Removal) -> Result<Removed, StoreError>;
}
