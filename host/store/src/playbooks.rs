//! Playbooks: their versions and ledgers.

use crate::documents::{self, Form, Kind};
use crate::error::{Fault, damaged};
use crate::integers::{signed, unsigned};
use crate::reader::Reader;
use clawhost_core::{PlaybookLedger, PlaybookReader, PlaybookVersion, RunId, StoreError};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

/// Adds a version with the next number, unless it has the digest of the newest version.
pub(crate) fn add_version(transaction: &Transaction<'_>, version: &PlaybookVersion) -> Result<(), Fault> {
    let newest: Option<(i64, String)> = transaction
        .prepare_cached("SELECT number, digest FROM playbooks WHERE name = ? ORDER BY number DESC LIMIT 1")?
        .query_row([&version.name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let digest = version.digest.to_string();
    if newest.as_ref().is_some_and(|(_, known)| *known == digest) {
        return Ok(());
    }
    transaction
        .prepare_cached(
            "INSERT INTO playbooks (name, number, digest, document, why, run, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            version.name,
            newest.map_or(0, |(number, _)| number) + 1,
            digest,
            form(&version.name, &version.document)?,
            version.why,
            version.run.as_ref().map(|run| &run.0),
            signed(version.created_at)
        ])?;
    Ok(())
}

fn form(name: &str, document: &serde_json::Value) -> Result<Form, StoreError> {
    documents::encode_alone(Kind::Playbook, &document.to_string())
        .map_err(|error| StoreError::Other(format!("playbook {name}: {error}")))
}

pub(crate) fn write_ledger(transaction: &Transaction<'_>, ledger: &PlaybookLedger) -> Result<(), Fault> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO ledgers (name, document) VALUES (?, ?)")?
        .execute(params![ledger.name, form(&ledger.name, &ledger.document)?])?;
    Ok(())
}

/// A row before its digest and its document are decoded.
struct VersionColumns {
    name: String,
    number: i64,
    digest: String,
    document: Form,
    why: String,
    run: Option<String>,
    created_at: i64,
}

impl VersionColumns {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            name: row.get("name")?,
            number: row.get("number")?,
            digest: row.get("digest")?,
            document: row.get("document")?,
            why: row.get("why")?,
            run: row.get("run")?,
            created_at: row.get("created_at")?,
        })
    }
}

impl Reader {
    /// Versions of a playbook, newest first. A negative limit means all.
    fn newest_versions(&self, name: &str, limit: i64) -> Result<Vec<PlaybookVersion>, StoreError> {
        let rows: Vec<VersionColumns> = self.query(|connection| {
            connection
                .prepare_cached("SELECT * FROM playbooks WHERE name = ? ORDER BY number DESC LIMIT ?")?
                .query_map(params![name, limit], VersionColumns::read)?
                .collect()
        })?;
        rows.into_iter().map(|columns| self.version(columns)).collect()
    }

    fn version(&self, columns: VersionColumns) -> Result<PlaybookVersion, StoreError> {
        let VersionColumns { name, number, digest, document, why, run, created_at } = columns;
        let what = format!("version {number} of playbook {name}");
        let digest = digest.parse().map_err(|error| damaged(self.path(), &what, &error))?;
        let document = self.json(Kind::Playbook, &document, &what)?;
        let (number, created_at) = (unsigned(number), unsigned(created_at));
        Ok(PlaybookVersion { name, number, digest, document, why, run: run.map(RunId), created_at })
    }
}

impl PlaybookReader for Reader {
    fn playbooks(&self) -> Result<Vec<String>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT name FROM playbooks UNION SELECT name FROM ledgers ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    fn versions(&self, name: &str) -> Result<Vec<PlaybookVersion>, StoreError> {
        self.newest_versions(name, -1)
    }

    fn newest_version(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError> {
        Ok(self.newest_versions(name, 1)?.into_iter().next())
    }

    fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError> {
        let form: Option<Form> = self.query(|connection| {
            connection
                .prepare_cached("SELECT document FROM ledgers WHERE name = ?")?
                .query_row([name], |row| row.get(0))
                .optional()
        })?;
        let what = format!("the ledger of playbook {name}");
        form.map(|form| {
            let document = self.json(Kind::Playbook, &form, &what)?;
            Ok(PlaybookLedger { name: name.to_owned(), document })
        })
        .transpose()
    }
}
