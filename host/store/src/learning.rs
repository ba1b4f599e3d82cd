//! What learning keeps beside runs and episodes: checkpoints, iterations, versions of playbooks, ledgers.

use crate::Filter;
use crate::error::{document, explain};
use crate::reader::Reader;
use crate::writer::{Store, Write};
use async_trait::async_trait;
use clawhost_core::{
    Checkpoint, Digest, Episode, LearningStore, PhaseState, PlaybookLedger, PlaybookVersion, RunId, StoreError,
};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use std::sync::Arc;

/// Bytes of weights in one row: SQLite takes 1,000,000,000 at most, and handles a row as a whole in memory.
const PART: usize = 16 << 20;

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Writes the end of an iteration.
pub(crate) fn checkpoint(transaction: &Transaction<'_>, checkpoint: &Checkpoint) -> rusqlite::Result<()> {
    let Checkpoint { run, iteration, state, report, versions, ledger, weights, spent } = checkpoint;
    let spent = serde_json::json!(spent).to_string();
    transaction.prepare_cached("UPDATE runs SET spent = ? WHERE id = ?")?.execute(params![spent, run.0])?;
    transaction
        .prepare_cached("INSERT OR REPLACE INTO checkpoints (run, iteration, state) VALUES (?, ?, ?)")?
        .execute(params![run.0, signed(*iteration), state.to_string()])?;
    if let Some(weights) = weights {
        transaction.prepare_cached("DELETE FROM weights WHERE run = ?")?.execute([&run.0])?;
        let mut insert = transaction.prepare_cached("INSERT INTO weights (run, part, bytes) VALUES (?, ?, ?)")?;
        for (part, bytes) in weights.chunks(PART).enumerate() {
            insert.execute(params![run.0, signed(part as u64), bytes])?;
        }
    }
    if !report.is_null() {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO iterations (run, number, report) VALUES (?, ?, ?)")?
            .execute(params![run.0, signed(*iteration), report.to_string()])?;
    }
    versions.iter().try_for_each(|new| version(transaction, new))?;
    ledger.iter().try_for_each(|new| write_ledger(transaction, new))
}

/// Adds a version with the next number; one that says what the newest says is none.
pub(crate) fn version(transaction: &Transaction<'_>, version: &PlaybookVersion) -> rusqlite::Result<()> {
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
            version.document.to_string(),
            version.why,
            version.run.as_ref().map(|run| &run.0),
            signed(version.created_at)
        ])?;
    Ok(())
}

pub(crate) fn write_ledger(transaction: &Transaction<'_>, ledger: &PlaybookLedger) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO ledgers (name, document) VALUES (?, ?)")?
        .execute(params![ledger.name, ledger.document.to_string()])?;
    Ok(())
}

/// name, number, digest, document, why, run, time.
type VersionColumns = (String, i64, String, String, String, Option<String>, i64);

fn version_columns(row: &Row<'_>) -> rusqlite::Result<VersionColumns> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
}

impl Reader {
    fn version(&self, columns: VersionColumns) -> Result<PlaybookVersion, StoreError> {
        let (name, number, digest, text, why, run, created_at) = columns;
        let what = format!("version {number} of playbook {name}");
        let digest: Digest = digest.parse().map_err(|error: clawhost_core::ParseDigestError| {
            StoreError::Damaged(self.path().display().to_string(), what.clone(), error.to_string())
        })?;
        let document = serde_json::from_str(&text).map_err(|error| document(self.path(), &what, &error))?;
        let (number, created_at) = (unsigned(number), unsigned(created_at));
        Ok(PlaybookVersion { name, number, digest, document, why, run: run.map(RunId), created_at })
    }

    /// Versions of a playbook, newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn versions(&self, name: &str) -> Result<Vec<PlaybookVersion>, StoreError> {
        let read = || -> rusqlite::Result<Vec<VersionColumns>> {
            self.connection()
                .prepare_cached(
                    "SELECT name, number, digest, document, why, run, created_at FROM playbooks WHERE name = ?
                     ORDER BY number DESC",
                )?
                .query_map([name], version_columns)?
                .collect()
        };
        let rows = read().map_err(|error| explain(self.path(), &error))?;
        rows.into_iter().map(|columns| self.version(columns)).collect()
    }

    /// Names of all playbooks, of those too of which nothing is deployed yet.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn playbooks(&self) -> Result<Vec<String>, StoreError> {
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection()
                .prepare_cached("SELECT name FROM playbooks UNION SELECT name FROM ledgers ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect()
        };
        read().map_err(|error| explain(self.path(), &error))
    }

    /// The ledger of a playbook.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError> {
        let text: Option<String> = self
            .connection()
            .prepare_cached("SELECT document FROM ledgers WHERE name = ?")
            .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
            .map_err(|error| explain(self.path(), &error))?;
        let what = format!("the ledger of playbook {name}");
        text.map(|text| {
            let document = serde_json::from_str(&text).map_err(|error| document(self.path(), &what, &error))?;
            Ok(PlaybookLedger { name: name.to_owned(), document })
        })
        .transpose()
    }

    /// The last checkpoint of a learning run.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError> {
        let row: Option<(i64, String)> = self
            .connection()
            .prepare_cached("SELECT iteration, state FROM checkpoints WHERE run = ?")
            .and_then(|mut statement| statement.query_row([&run.0], |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .map_err(|error| explain(self.path(), &error))?;
        row.map(|(iteration, text)| {
            let what = format!("the checkpoint of {run}");
            let state = serde_json::from_str(&text).map_err(|error| document(self.path(), &what, &error))?;
            Ok((unsigned(iteration), state))
        })
        .transpose()
    }

    /// The weights of the last checkpoint of a learning run that had some.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn weights(&self, run: &RunId) -> Result<Option<Vec<u8>>, StoreError> {
        let read = || -> rusqlite::Result<Option<Vec<u8>>> {
            let mut statement =
                self.connection().prepare_cached("SELECT bytes FROM weights WHERE run = ? ORDER BY part")?;
            let mut rows = statement.query([&run.0])?;
            let mut all: Option<Vec<u8>> = None;
            while let Some(row) = rows.next()? {
                let part = row.get_ref(0)?.as_blob()?;
                all.get_or_insert_default().extend_from_slice(part);
            }
            Ok(all)
        };
        read().map_err(|error| explain(self.path(), &error))
    }

    /// What every iteration of a learning run came to.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError> {
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection()
                .prepare_cached("SELECT report FROM iterations WHERE run = ? ORDER BY number")?
                .query_map([&run.0], |row| row.get(0))?
                .collect()
        };
        let rows = read().map_err(|error| explain(self.path(), &error))?;
        let what = format!("an iteration of {run}");
        rows.iter()
            .map(|text| serde_json::from_str(text).map_err(|error| document(self.path(), &what, &error)))
            .collect()
    }

    /// How far a phase has come.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn phase(&self, phase: &RunId) -> Result<PhaseState, StoreError> {
        let open: Option<bool> = self
            .connection()
            .prepare_cached(
                "SELECT summary IS NULL OR json_extract(summary, '$.stopped') IS NOT NULL FROM runs WHERE id = ?",
            )
            .and_then(|mut statement| statement.query_row([&phase.0], |row| row.get(0)).optional())
            .map_err(|error| explain(self.path(), &error))?;
        Ok(match open {
            None => PhaseState::Absent,
            Some(true) => PhaseState::Open,
            Some(false) => PhaseState::Finished,
        })
    }
}

impl Store {
    /// Reads beside the writer, off the executor.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = self.path().parent().map(std::path::Path::to_owned).unwrap_or_default();
        let reading = tokio::task::spawn_blocking(move || read(&Reader::open(&folder)?));
        reading.await.map_err(|error| StoreError::Other(format!("reading stopped: {error}")))?
    }
}

#[async_trait]
impl LearningStore for Store {
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.write(Write::Checkpoint(Box::new(checkpoint))).await
    }

    async fn last_checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError> {
        let run = run.clone();
        self.read(move |reader| reader.checkpoint(&run)).await
    }

    async fn weights(&self, run: &RunId) -> Result<Option<Vec<u8>>, StoreError> {
        let run = run.clone();
        self.read(move |reader| reader.weights(&run)).await
    }

    async fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError> {
        let run = run.clone();
        self.read(move |reader| reader.iterations(&run)).await
    }

    async fn phase(&self, phase: &RunId) -> Result<PhaseState, StoreError> {
        let phase = phase.clone();
        self.read(move |reader| reader.phase(&phase)).await
    }

    async fn episodes(&self, phase: &RunId) -> Result<Vec<Arc<Episode>>, StoreError> {
        let filter = Filter { run: Some(phase.0.clone()), limit: None };
        self.read(move |reader| {
            let mut episodes = Vec::new();
            let each = |episode: Episode| {
                episodes.push(Arc::new(episode));
                Ok::<_, std::convert::Infallible>(())
            };
            // The second result is of `each`, which cannot fail.
            let _ = reader.export(&filter, each)?;
            Ok(episodes)
        })
        .await
    }

    async fn playbook(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError> {
        let name = name.to_owned();
        self.read(move |reader| Ok(reader.versions(&name)?.into_iter().next())).await
    }

    async fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError> {
        let name = name.to_owned();
        self.read(move |reader| reader.ledger(&name)).await
    }

    async fn add_version(&self, version: PlaybookVersion, ledger: Option<PlaybookLedger>) -> Result<(), StoreError> {
        self.write(Write::Version(Box::new(version), ledger)).await
    }
}
