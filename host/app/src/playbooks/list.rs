//! The list of playbooks, with their served versions and origins.

use super::origin::Origin;
use super::served::document;
use crate::AppError;
use clawhost_core::{Digest, StoreReader};
use serde::Serialize;

/// A row of the list of playbooks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaybookRow {
    /// The playbook.
    pub name: String,
    /// The served version. `None`: nothing is deployed yet.
    pub version: Option<u64>,
    /// Its digest.
    pub digest: Option<Digest>,
    /// Number of entries. `None`: there is no version, or it cannot be read.
    pub entries: Option<usize>,
    /// Number of sections. `None`: as for entries.
    pub sections: Option<usize>,
    /// Where it was learned. `None`: it was not learned here.
    pub learned: Option<Origin>,
    /// Why the version was added.
    pub why: Option<String>,
    /// When it was added, in milliseconds since 1970.
    pub created_at: Option<u64>,
}

/// Lists all playbooks. An unreadable version does not prevent listing the others.
///
/// # Errors
/// The store cannot be read.
pub fn list(reader: &dyn StoreReader) -> Result<Vec<PlaybookRow>, AppError> {
    let mut rows = Vec::new();
    for name in reader.playbooks()? {
        let versions = reader.versions(&name)?;
        let newest = versions.first();
        let playbook = newest.and_then(|newest| document(newest).ok());
        let learned = match newest {
            Some(newest) => Origin::of(reader, &versions, newest)?,
            None => None,
        };
        rows.push(PlaybookRow {
            version: newest.map(|newest| newest.number),
            digest: newest.map(|newest| newest.digest),
            entries: playbook.as_ref().map(|playbook| playbook.entries.len()),
            sections: playbook.as_ref().map(|playbook| playbook.sections.len()),
            learned,
            why: newest.map(|newest| newest.why.clone()),
            created_at: newest.map(|newest| newest.created_at),
            name,
        });
    }
    Ok(rows)
}
