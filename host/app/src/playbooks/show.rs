//! Shows a playbook: the served version, and the state of every entry.

use super::served::{document, ledger};
use crate::AppError;
use clawhost_core::{Digest, StoreReader};
use clawhost_learn::harness::EntryRow;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::{PROVISIONAL, Status};
use serde::Serialize;

/// The order of entries, by status.
const ORDER: [&str; 9] =
    ["deployed", PROVISIONAL, "admitted", "bundled", "on trial", "queued", "harmful", "expired", "superseded"];

/// The current state of a playbook.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShownPlaybook {
    /// The playbook.
    pub name: String,
    /// The served version. `None`: nothing is deployed yet.
    pub version: Option<u64>,
    /// Its digest.
    pub digest: Option<Digest>,
    /// Why the version was added.
    #[serde(skip)]
    pub why: Option<String>,
    /// Its content.
    pub deployed: Option<Playbook>,
    /// All known entries, deployed ones first.
    pub entries: Vec<EntryRow>,
}

/// Shows a playbook: the served version, and all known entries.
///
/// # Errors
/// The newest version, the ledger or the store cannot be read.
pub fn show(reader: &dyn StoreReader, name: &str) -> Result<ShownPlaybook, AppError> {
    let newest = reader.newest_version(name)?;
    let deployed = newest.as_ref().map(document).transpose()?;
    let known = ledger(reader, name)?.map(|ledger| ledger.entries).unwrap_or_default();
    Ok(ShownPlaybook {
        name: name.to_owned(),
        version: newest.as_ref().map(|newest| newest.number),
        digest: newest.as_ref().map(|newest| newest.digest),
        why: newest.map(|newest| newest.why),
        entries: rows(known, deployed.as_ref()),
        deployed,
    })
}

/// A row for every entry: the ledger of the last learning run, updated to the served version. An import or a rollback
/// may have happened since.
fn rows(known: Vec<EntryRow>, served: Option<&Playbook>) -> Vec<EntryRow> {
    let mut rows = known;
    for entry in served.iter().flat_map(|served| &served.entries) {
        if !rows.iter().any(|row| row.id == entry.id) {
            rows.push(EntryRow::unmeasured(entry));
        }
    }
    let (deployed, queued, harmful) = (Status::Deployed.name(), Status::Queued.name(), Status::Harmful.name());
    for row in &mut rows {
        let entry = served.and_then(|served| served.entries.iter().find(|entry| entry.id == row.id));
        let was_served = row.status == deployed || row.status == PROVISIONAL;
        // A harmful entry is served until the gate has removed it, so it is shown as harmful.
        if let Some(entry) = entry.filter(|_| row.status != harmful) {
            let stage = if entry.provisional { PROVISIONAL } else { deployed };
            stage.clone_into(&mut row.status);
        } else if entry.is_none() && was_served {
            // The status that the next run gives it.
            queued.clone_into(&mut row.status);
        }
    }
    rows.sort_by_key(|row| ORDER.iter().position(|status| *status == row.status));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::{Entry, Lesson};

    fn entry(text: &str) -> Entry {
        Entry::new(Lesson::read(text), "import")
    }

    #[test]
    fn exactly_the_served_entries_are_shown_as_deployed() {
        let known = |text: &str, status: &str| EntryRow {
            status: status.into(),
            created_by: "rules".into(),
            ..EntryRow::unmeasured(&entry(text))
        };
        let known = vec![
            known("a", "expired"),
            known("b", "queued"),
            known("c", "queued"),
            known("d", "deployed"),
            known("e", "harmful"),
            known("f", "superseded"),
        ];
        let served = Playbook { entries: ["c", "e", "f", "g"].map(entry).to_vec(), ..Playbook::default() };
        let told = |rows: Vec<EntryRow>| -> Vec<String> {
            rows.iter().map(|row| format!("{} {} by {}", row.lesson, row.status, row.created_by)).collect()
        };
        let expect = [
            "c deployed by rules",
            "f deployed by rules",
            "g deployed by import",
            "b queued by rules",
            "d queued by rules",
            "e harmful by rules",
            "a expired by rules",
        ];
        assert_eq!(told(rows(known.clone(), Some(&served))), expect);
        assert_eq!(told(rows(known, None)).len(), 6);
    }

    #[test]
    fn every_status_has_a_position() {
        let superseded = Status::Superseded(entry("x").id);
        assert!(ORDER.contains(&PROVISIONAL));
        let all = [
            Status::Bundled,
            Status::Queued,
            Status::OnTrial,
            Status::Admitted,
            Status::Deployed,
            Status::Harmful,
            Status::Expired,
        ];
        assert!(all.iter().chain([&superseded]).all(|status| ORDER.contains(&status.name())));
    }
}
