//! Retention: the contents of a data folder, and their removal.
//!
//! A removal is one transaction. Afterwards files that no record refers to are deleted. If the process dies before
//! that, the next removal deletes them.

use crate::blobs::{self, Blobs};
use crate::episode_rows;
use crate::error::{Fault, file};
use crate::integers::unsigned;
use crate::keys::EpisodeKey;
use crate::ledger::{self, EntryKind, Ledger};
use crate::reader::{self, Reader};
use crate::writer::Store;
use async_trait::async_trait;
use clawhost_core::{Digest, EpisodeId, Holdings, Removal, Removed, Retention, RunHoldings, RunId, StoreError};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, Rows, Transaction, TransactionBehavior};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All references to blobs.
const REFERENCES: &str =
    "SELECT digest FROM plugins UNION SELECT digest FROM large_states UNION SELECT digest FROM episode_blobs";

/// Bytes and episodes by run, including its phases. One pass over each table; `octet_length` of a stored text reads
/// only the row's header.
const BY_RUN: &str = "
    SELECT coalesce(runs.parent, runs.id), sum(episodes), sum(bytes) FROM (
        SELECT id AS run, 0 AS episodes, octet_length(config) + coalesce(octet_length(summary), 0) AS bytes FROM runs
        UNION ALL SELECT id, episodes, bytes FROM runs JOIN (
            SELECT run, count(*) AS episodes, sum(octet_length(document)) AS bytes FROM episodes GROUP BY run
            UNION ALL SELECT run, 0, sum(octet_length(verdicts.document))
            FROM verdicts JOIN episodes ON episodes.number = verdicts.episode GROUP BY run
            UNION ALL SELECT run, 0, sum(octet_length(key) + coalesce(octet_length(value), 0)) FROM episode_notes GROUP BY run
        ) AS part ON part.run = runs.number
        UNION ALL SELECT run, 0, sum(octet_length(key) + octet_length(value)) FROM notes GROUP BY run
        UNION ALL SELECT run, 0, octet_length(state) FROM checkpoints
        UNION ALL SELECT run, 0, sum(octet_length(report)) FROM iterations GROUP BY run
    ) AS part JOIN runs ON runs.id = part.run GROUP BY 1";

/// Bytes of blobs by run. A blob counts once for each run that refers to it.
const BLOBS_BY_RUN: &str = "
    SELECT owner, 0, sum(size) FROM (
        SELECT coalesce(runs.parent, runs.id) AS owner, blob.digest, size
        FROM large_states AS blob JOIN runs ON runs.id = run
        UNION SELECT coalesce(runs.parent, runs.id), blob.digest, size
        FROM episode_blobs AS blob JOIN episodes ON episodes.number = blob.episode JOIN runs ON runs.number = episodes.run
    ) GROUP BY owner";

/// Removes plugins that nothing refers to. Runs refer to their plugins by digest in their configuration.
const UNUSED_PLUGINS: &str = "
    DELETE FROM plugins WHERE digest NOT IN (SELECT environment_digest FROM settings)
    AND digest NOT IN (SELECT digest FROM rewards)
    AND NOT EXISTS (SELECT 1 FROM runs WHERE instr(config, plugins.digest) > 0)";

/// The digest of an entry that adds nothing: those of what it removes are in earlier entries.
const NOTHING: Digest = Digest::from_bytes([0; 32]);

#[async_trait]
impl Retention for Store {
    async fn holdings(&self) -> Result<Holdings, StoreError> {
        self.read(holdings).await
    }

    async fn rehearse(&self, removal: Removal) -> Result<Removed, StoreError> {
        self.rehearse_removal(removal).await
    }

    async fn remove(&self, removal: Removal) -> Result<Removed, StoreError> {
        self.remove_records(removal).await
    }
}

/// The digests in the first column of some rows.
pub(crate) fn digests(mut rows: Rows<'_>) -> rusqlite::Result<BTreeSet<Digest>> {
    let mut all = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        let digest = text.parse();
        all.insert(digest.map_err(|why| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(why)))?);
    }
    Ok(all)
}

pub(crate) fn referred_to(connection: &Connection) -> rusqlite::Result<BTreeSet<Digest>> {
    digests(connection.prepare_cached(REFERENCES)?.query([])?)
}

/// Whether any record refers to a blob.
pub(crate) fn is_referred_to(connection: &Connection, digest: &Digest) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM plugins WHERE digest = ?1 UNION ALL SELECT 1 FROM large_states WHERE digest = ?1
             UNION ALL SELECT 1 FROM episode_blobs WHERE digest = ?1",
        )?
        .exists([digest.to_string()])
}

/// Removes records, without their blobs.
pub(crate) fn remove(
    transaction: &Transaction<'_>,
    removal: &Removal,
    ledger: &mut Ledger<'_>,
) -> Result<Removed, Fault> {
    let mut removed = Removed::default();
    let kept = kept_episodes(transaction, removal)?;
    for run in &removal.runs {
        let phases: Vec<RunId> = transaction
            .prepare_cached("SELECT id FROM runs WHERE parent = ?")?
            .query_map([&run.0], |row| Ok(RunId(row.get(0)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let keep_record = removal.keep_records.contains(run);
        let keeps_phase = phases.iter().any(|phase| kept.contains_key(phase));
        for phase in &phases {
            let episodes = kept.get(phase);
            removed.episodes += remove_content(transaction, phase, episodes, ledger)?;
            remove_record(transaction, phase, (false, episodes.is_some()), ledger)?;
        }
        let episodes = kept.get(run);
        removed.episodes += remove_content(transaction, run, episodes, ledger)?;
        let keep_row = keep_record || keeps_phase || episodes.is_some();
        removed.runs += remove_record(transaction, run, (keep_record, keep_row), ledger)?;
    }
    for sql in episode_rows::REMOVE_UNUSED {
        transaction.execute(sql, [])?;
    }
    if removal.unused_plugins {
        removed.plugins = transaction.execute(UNUSED_PLUGINS, [])? as u64;
    }
    Ok(removed)
}

/// The numbers of episodes that are kept and exist, by run.
fn kept_episodes(transaction: &Transaction<'_>, removal: &Removal) -> rusqlite::Result<BTreeMap<RunId, Vec<i64>>> {
    let mut kept: BTreeMap<RunId, Vec<i64>> = BTreeMap::new();
    for (run, id) in removal.keep_episodes.iter().filter_map(|name| name.split_once('/')) {
        let run = RunId(run.to_owned());
        if let Some(number) = episode_rows::episode_number(transaction, &run, &EpisodeId(id.to_owned()))? {
            kept.entry(run).or_default().push(number);
        }
    }
    Ok(kept)
}

/// Removes the content of a run or a phase, except its row and its reports. Returns the number of removed episodes.
fn remove_content(
    transaction: &Transaction<'_>,
    run: &RunId,
    kept: Option<&Vec<i64>>,
    ledger: &mut Ledger<'_>,
) -> Result<u64, Fault> {
    let mut episodes = 0;
    let known = episode_rows::run_number(transaction, run)?;
    let is_known = known.is_some();
    if let Some(number) = known {
        let mut gone: BTreeSet<i64> = transaction
            .prepare_cached("SELECT number FROM episodes WHERE run = ?")?
            .query_map([number], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for kept in kept.into_iter().flatten() {
            gone.remove(kept);
        }
        // Their digests stay in the ledger: these entries say that they were removed on request.
        if kept.is_none() {
            ledger.add(EntryKind::PrunedEpisodes, run, None, &NOTHING)?;
        } else {
            for episode in &gone {
                let id: EpisodeKey = transaction
                    .prepare_cached("SELECT id FROM episodes WHERE number = ?")?
                    .query_row([episode], |row| row.get(0))?;
                ledger.add(EntryKind::PrunedEpisode, run, Some(&id.0), &NOTHING)?;
            }
        }
        gone.iter().try_for_each(|episode| episode_rows::remove(transaction, *episode))?;
        episodes = gone.len();
        transaction.prepare_cached("DELETE FROM episode_notes WHERE run = ?")?.execute([number])?;
    }
    if is_known {
        ledger.add(EntryKind::PrunedCheckpoint, run, None, &NOTHING)?;
    }
    for table in [
        "notes",
        "large_states",
        "checkpoints",
        "open_episodes",
        "exchanges",
        "responses",
        "trajectories",
        "routed",
        "drawn",
        "answers",
        "sessions",
        "feedback",
        "taken_positions",
    ] {
        transaction.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?"))?.execute([&run.0])?;
    }
    Ok(episodes as u64)
}

/// Removes the reports and the row of a run or a phase, unless they are kept. Returns the number of removed runs.
fn remove_record(
    transaction: &Transaction<'_>,
    run: &RunId,
    (keep_reports, keep_row): (bool, bool),
    ledger: &mut Ledger<'_>,
) -> Result<u64, Fault> {
    if episode_rows::run_number(transaction, run)?.is_none() {
        return Ok(0);
    }
    if !keep_reports {
        ledger.add(EntryKind::PrunedReports, run, None, &NOTHING)?;
        transaction.prepare_cached("DELETE FROM iterations WHERE run = ?")?.execute([&run.0])?;
    }
    if keep_row {
        transaction.prepare_cached("UPDATE runs SET pruned = 1 WHERE id = ?")?.execute([&run.0])?;
        return Ok(0);
    }
    ledger.add(EntryKind::Removed, run, None, &ledger::of_run(transaction, run)?)?;
    let runs = transaction.prepare_cached("DELETE FROM runs WHERE id = ? AND parent IS NULL")?.execute([&run.0])?;
    transaction.prepare_cached("DELETE FROM runs WHERE id = ?")?.execute([&run.0])?;
    Ok(runs as u64)
}

/// Deletes blobs that no record refers to, and unfinished files. Returns the number of blobs. The caller holds the
/// exclusive lease of the folder.
pub(crate) fn collect(connection: &mut Connection, blobs: &Blobs) -> Result<u64, Fault> {
    // Under the write lock: no process can commit a new reference meanwhile.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let referred = referred_to(&transaction)?;
    let files = blobs.files()?;
    let mut deleted = 0;
    for (digest, _) in files.blobs.iter().filter(|(digest, _)| !referred.contains(digest)) {
        deleted += u64::from(blobs.delete(digest)?);
    }
    for (path, _) in &files.temporary {
        blobs::delete(path)?;
    }
    Ok(deleted)
}

/// Returns free pages to the file system. It may fail, for example without room for a copy. Then later writes use the
/// free pages.
pub(crate) fn shrink(connection: &Connection) {
    let _ = connection.execute_batch("VACUUM");
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

/// Bytes of the database and of all blob files.
pub(crate) fn folder_bytes(data: &Path, blobs: &Blobs) -> Result<u64, StoreError> {
    let files = blobs.files()?;
    let blobs: u64 = files.blobs.iter().map(|(_, size)| size).sum();
    let temporary: u64 = files.temporary.iter().map(|(_, size)| size).sum();
    Ok(database_bytes(data)? + blobs + temporary)
}

/// Bytes of the database with its log.
fn database_bytes(data: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for ending in ["", "-wal", "-shm"] {
        let path = data.join(format!("{}{ending}", crate::FILE));
        match std::fs::metadata(&path) {
            Ok(found) => bytes += found.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(file(&path, &error)),
        }
    }
    Ok(bytes)
}

/// Owner, episodes, bytes.
type Sums = BTreeMap<String, (u64, u64)>;

fn sums(connection: &Connection, sql: &str) -> rusqlite::Result<Sums> {
    let columns = |row: &Row<'_>| Ok((row.get(0)?, (unsigned(row.get(1)?), unsigned(row.get(2)?))));
    connection.prepare_cached(sql)?.query_map([], columns)?.collect()
}

/// Two sums of one query.
fn pair(connection: &Connection, sql: &str) -> rusqlite::Result<(u64, u64)> {
    connection.query_row(sql, [], |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?))))
}

/// A row of a run: id, kind, environment, time, state.
type RunColumns = (String, String, String, i64, String);

fn holdings(reader: &Reader) -> Result<Holdings, StoreError> {
    // One transaction: all numbers belong to the same moment.
    let (rows, by_run, blobs_by_run, referred, plugins, playbooks) = reader.query(|connection| {
        let snapshot = connection.unchecked_transaction()?;
        let rows: Vec<RunColumns> = snapshot
            .prepare_cached(
                "SELECT id, kind, environment, CASE typeof(created_at) WHEN 'integer' THEN created_at ELSE 0 END, state FROM runs WHERE parent IS NULL ORDER BY number DESC",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))?
            .collect::<rusqlite::Result<_>>()?;
        Ok((
            rows,
            sums(&snapshot, BY_RUN)?,
            sums(&snapshot, BLOBS_BY_RUN)?,
            referred_to(&snapshot)?,
            pair(&snapshot, "SELECT count(*), coalesce(sum(size), 0) FROM plugins")?,
            pair(
                &snapshot,
                "SELECT (SELECT count(*) FROM (SELECT name FROM playbooks UNION SELECT name FROM ledgers)),
                 (SELECT count(*) FROM playbooks)",
            )?,
        ))
    })?;
    let mut runs = Vec::with_capacity(rows.len());
    for (id, kind, environment, created_at, state) in rows {
        let what = format!("run {id}");
        // A run that cannot be read hides no other.
        let (Ok(kind), Ok(state)) =
            (reader::kind(reader.path(), &what, &kind), reader::state(reader.path(), &what, &state))
        else {
            continue;
        };
        let (episodes, bytes) = by_run.get(&id).copied().unwrap_or_default();
        runs.push(RunHoldings {
            kind,
            environment,
            created_at: unsigned(created_at),
            state,
            episodes,
            bytes,
            blob_bytes: blobs_by_run.get(&id).map_or(0, |(_, bytes)| *bytes),
            run: RunId(id),
        });
    }
    let files = reader.blobs().files()?;
    let sum = |only_unused: bool| {
        let counted = files.blobs.iter().filter(|(digest, _)| !(only_unused && referred.contains(digest)));
        counted.fold((0, 0), |(count, bytes), (_, size)| (count + 1, bytes + size))
    };
    let data = reader.path().parent().unwrap_or(Path::new(""));
    Ok(Holdings {
        runs,
        database_bytes: database_bytes(data)?,
        blobs: sum(false),
        unused_blobs: sum(true),
        plugins,
        playbooks,
    })
}
