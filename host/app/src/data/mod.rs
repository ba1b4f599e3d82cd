//! The data folder: its contents, and their removal.

mod citations;
mod expire;
mod forget;
mod policy;
mod prune;

pub(crate) use expire::Expiry;
pub use forget::{CitedLesson, ForgetError, ForgetReport, ForgetRequest, ForgetScope, finish_forgetting, forget};
pub use policy::PruneRule;
pub use prune::{Kept, KeptBecause, PruneReport, PruneRequest, PrunedRun, prune};

use crate::workspace::{CACHE, hold_folder};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{Holdings, LeaseMode, Retention, RunHoldings, RunId, RunKind, RunState, StoreError, StoreReader};
use clawhost_store::{Store, StoreOptions};
use serde::Serialize;
use std::io::ErrorKind;
use std::path::Path;

/// A number of items, and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// The number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl From<(u64, u64)> for Amount {
    fn from((count, bytes): (u64, u64)) -> Self {
        Self { count, bytes }
    }
}

/// A run in the data folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldRun {
    /// What it contains.
    #[serde(flatten)]
    pub holdings: RunHoldings,
    /// Whether it was interrupted and can be resumed.
    pub can_be_resumed: bool,
}

impl HeldRun {
    /// Bytes of everything that it contains. A blob that several runs refer to counts for each.
    pub fn bytes(&self) -> u64 {
        self.holdings.bytes.saturating_add(self.holdings.blob_bytes)
    }
}

/// The contents of a data folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataReport {
    /// The folder.
    pub folder: String,
    /// Every run, newest first.
    pub runs: Vec<HeldRun>,
    /// Bytes of the database files.
    pub database_bytes: u64,
    /// Large content of records in separate files: checkpoints, artefacts of episodes, plugins.
    pub blobs: Amount,
    /// Blobs that no record refers to.
    pub unused_blobs: Amount,
    /// Stored plugins.
    pub plugins: Amount,
    /// Playbooks.
    pub playbooks: u64,
    /// Versions of playbooks.
    pub playbook_versions: u64,
    /// Bytes of compiled code. It can be deleted without loss.
    pub cache_bytes: u64,
}

impl DataReport {
    /// Bytes of records and their blobs: the part that removals can reduce.
    pub fn record_bytes(&self) -> u64 {
        self.database_bytes.saturating_add(self.blobs.bytes)
    }

    /// Bytes of everything.
    pub fn bytes(&self) -> u64 {
        self.record_bytes().saturating_add(self.cache_bytes)
    }
}

/// The contents of a data folder.
///
/// # Errors
/// There is no database, it cannot be read, or another process is removing records.
pub async fn holdings(folder: &Path) -> Result<DataReport, AppError> {
    let reader = Workspace::read(folder)?;
    let _held = hold_folder(folder, LeaseMode::Shared)?;
    let store = Store::open(folder, StoreOptions::default())?;
    measure(folder, &*reader, &store).await
}

/// The contents of one run.
///
/// # Errors
/// As [`holdings`], or the run was removed meanwhile.
pub(crate) async fn held_run(folder: &Path, run: &RunId) -> Result<HeldRun, AppError> {
    let report = holdings(folder).await?;
    let held = report.runs.into_iter().find(|held| held.holdings.run == *run);
    Ok(held.ok_or_else(|| RequestError::NoRun { name: run.0.clone() })?)
}

async fn measure(folder: &Path, reader: &dyn StoreReader, store: &Store) -> Result<DataReport, AppError> {
    let Holdings { runs, database_bytes, blobs, unused_blobs, plugins, playbooks } = store.holdings().await?;
    let held = |holdings: RunHoldings| {
        let can_be_resumed = can_be_resumed(reader, &holdings)?;
        Ok(HeldRun { holdings, can_be_resumed })
    };
    Ok(DataReport {
        folder: folder.display().to_string(),
        runs: runs.into_iter().map(held).collect::<Result<_, StoreError>>()?,
        database_bytes,
        blobs: blobs.into(),
        unused_blobs: unused_blobs.into(),
        plugins: plugins.into(),
        playbooks: playbooks.0,
        playbook_versions: playbooks.1,
        cache_bytes: folder_bytes(&folder.join(CACHE))?,
    })
}

/// Whether a run has not finished and has everything that resuming needs.
fn can_be_resumed(reader: &dyn StoreReader, holdings: &RunHoldings) -> Result<bool, StoreError> {
    // Runs of live episodes are never resumed: their agents run elsewhere.
    if holdings.state == RunState::Finished || holdings.kind == RunKind::Live {
        return Ok(false);
    }
    let Some(row) = reader.run(&holdings.run)? else { return Ok(false) };
    Ok(reader.resumable(&row.digest)?.iter().any(|known| known.id == row.id))
}

/// Bytes of all files in a folder and its subfolders. 0 if the folder does not exist.
fn folder_bytes(folder: &Path) -> Result<u64, StoreError> {
    let unusable =
        |error: &std::io::Error| StoreError::Folder { path: folder.display().to_string(), why: error.to_string() };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(|error| unusable(&error))?,
    };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry.map_err(|error| unusable(&error))?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += folder_bytes(&entry.path())?,
            Ok(found) => bytes += found.len(),
            // Another process replaces files of its cache.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(&error)),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
