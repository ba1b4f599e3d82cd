//! Versions of a playbook: comparison and rollback. Versions are added and never removed.

use super::served::{document, ledger, pick};
use crate::workspace::hold_playbook;
use crate::{AppError, Workspace};
use clawhost_core::{Clock, LearningStore as _, PlaybookLedger, PlaybookVersion, StoreReader};
use clawhost_learn::LearnError;
use clawhost_learn::playbook::{Difference, Lineage, Playbook};
use clawhost_store::Store;
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use std::sync::Arc;

/// What changed between two versions of a playbook.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VersionDifferences {
    /// The playbook.
    pub name: String,
    /// The earlier version. 0: the empty playbook before the first version.
    pub from: u64,
    /// The later version.
    pub to: u64,
    /// The differences.
    #[serde(serialize_with = "in_words")]
    pub differences: Vec<Difference>,
}

fn in_words<S: Serializer>(differences: &[Difference], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(differences.iter().map(ToString::to_string))
}

/// The content of a version. Version 0 is the empty playbook before the first version.
fn said(reader: &dyn StoreReader, name: &str, number: u64) -> Result<Playbook, AppError> {
    if number == 0 { Ok(Playbook::default()) } else { document(&pick(reader, name, Some(number))?) }
}

/// Compares two versions. Without `to` the newest is used, without `from` the one before `to`.
///
/// # Errors
/// A version does not exist or cannot be read.
pub fn diff(
    reader: &dyn StoreReader,
    name: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<VersionDifferences, AppError> {
    let to = match to {
        Some(number) => number,
        None => pick(reader, name, None)?.number,
    };
    let from = from.unwrap_or(to.saturating_sub(1));
    let differences = said(reader, name, from)?.diff(&said(reader, name, to)?);
    Ok(VersionDifferences { name: name.to_owned(), from, to, differences })
}

/// The result of adding a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    /// The version that is served now.
    pub(crate) version: u64,
    /// Whether it is new. If not, the newest version had the same content, and none was added.
    pub(crate) is_new: bool,
}

/// Writes versions of playbooks in a data folder.
pub(crate) struct PlaybookWriter {
    folder: PathBuf,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
}

impl PlaybookWriter {
    /// For the data folder of a workspace.
    pub(crate) fn new(workspace: &Workspace) -> Self {
        Self { folder: workspace.folder().to_owned(), store: workspace.store(), clock: workspace.clock() }
    }

    fn reader(&self) -> Result<Box<dyn StoreReader>, AppError> {
        Workspace::read(&self.folder)
    }

    /// As [`rollback`].
    pub(crate) async fn rollback(&self, name: &str, to: Option<u64>) -> Result<RolledBack, AppError> {
        let _held = hold_playbook(&self.folder, name)?;
        let (number, playbook) = target(&*self.reader()?, name, to)?;
        let why = format!("rolled back to version {number}");
        let added = add(self, name, &playbook, None, why).await?;
        Ok(RolledBack { name: name.to_owned(), version: added.version, added: added.is_new, says_what: number })
    }
}

/// Adds a version, and what other runs have used of it. The caller holds the playbook's lease.
pub(crate) async fn add(
    writer: &PlaybookWriter,
    name: &str,
    playbook: &Playbook,
    lineage: Option<Lineage>,
    why: String,
) -> Result<Added, AppError> {
    // A new reader each time: none is held while the store writes.
    let newest = || -> Result<Option<PlaybookVersion>, AppError> { Ok(writer.reader()?.newest_version(name)?) };
    let digest = playbook.digest();
    let ledger = lineage.map(|lineage| ledger_with(writer.reader()?.as_ref(), name, lineage)).transpose()?;
    let served = newest()?.filter(|newest| newest.digest == digest);
    if let (Some(served), None) = (&served, &ledger) {
        return Ok(Added { version: served.number, is_new: false });
    }
    let version = PlaybookVersion {
        name: name.to_owned(),
        // The store assigns the number.
        number: 0,
        digest,
        document: serde_json::json!(playbook),
        why,
        run: None,
        created_at: writer.clock.now_ms(),
    };
    // Does not add content that is served already.
    writer.store.add_version(version, ledger).await?;
    Ok(Added { version: newest()?.map_or(0, |newest| newest.number), is_new: served.is_none() })
}

/// The ledger of a playbook after runs elsewhere have used this much.
fn ledger_with(reader: &dyn StoreReader, name: &str, lineage: Lineage) -> Result<PlaybookLedger, AppError> {
    let mut ledger = ledger(reader, name)?.unwrap_or_default();
    ledger.lineage = ledger.lineage.merged(lineage);
    let document = serde_json::to_value(&ledger).map_err(|error| LearnError::Document(error.to_string()))?;
    Ok(PlaybookLedger { name: name.to_owned(), document })
}

/// The result of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RolledBack {
    /// The playbook.
    pub name: String,
    /// The version that is served now.
    pub version: u64,
    /// Whether it is new. If not, the newest version had the same content.
    pub added: bool,
    /// The older version with the same content.
    pub says_what: u64,
}

/// Serves the content of an older version as a new version. Without `to`, the one before the newest. Version 0 is the empty playbook, from before
/// the first version.
///
/// # Errors
/// There is no such version, it cannot be read, another process learns or edits the playbook, or the store cannot be
/// written.
pub async fn rollback(workspace: &Workspace, name: &str, to: Option<u64>) -> Result<RolledBack, AppError> {
    PlaybookWriter::new(workspace).rollback(name, to).await
}

/// The version to roll back to, and its content.
fn target(reader: &dyn StoreReader, name: &str, to: Option<u64>) -> Result<(u64, Playbook), AppError> {
    let newest = pick(reader, name, None)?;
    match to.unwrap_or(newest.number.saturating_sub(1)) {
        0 => Ok((0, Playbook::default())),
        number => Ok((number, document(&pick(reader, name, Some(number))?)?)),
    }
}
