//! Every playbook, with what is served of it and where that was learned.

use super::origin::Origin;
use super::served::document;
use crate::AppError;
use clawhost_core::{Digest, StoreReader};
use serde::Serialize;

/// A line of the list of playbooks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaybookRow {
    /// The playbook.
    pub name: String,
    /// The version that is served; none: nothing is deployed yet.
    pub version: Option<u64>,
    /// Its digest.
    pub digest: Option<Digest>,
    /// Its entries; none: there is no version, or it cannot be read.
    pub entries: Option<usize>,
    /// Its sections; none: as with entries.
    pub sections: Option<usize>,
    /// Where it was learned; none: nobody learned it here.
    pub learned: Option<Origin>,
    /// How it came about.
    pub why: Option<String>,
    /// When: milliseconds since 1970.
    pub created_at: Option<u64>,
}

/// Lists all playbooks. A version that cannot be read is no reason not to list the others.
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
