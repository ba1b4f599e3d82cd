//! Forgetting: removes what somebody said from every record, in one transaction, and then from the files.
//!
//! The transaction also trains the dictionaries anew that had learned from it, erases the digests of its entries in the ledger, and leaves
//! tombstones there. It notes that the files remain: blobs, and the pages of the database that still hold what was removed. That note
//! goes when the files are done, so an interrupted forgetting is finished by the next one.

use crate::blobs::Blobs;
use crate::error::Fault;
use crate::integers::{signed, unsigned};
use crate::keys::EpisodeKey;
use crate::ledger::{EntryKind, Ledger, of_erased};
use crate::reader::Reader;
use crate::retraining::{Subjects, counted, retrain};
use crate::writer::{Store, Writer, off_executor};
use crate::{dictionaries, episode_rows, memory, retention, schema};
use async_trait::async_trait;
use clawhost_core::{EpisodeId, Forgetting, ForgettingStore, Forgotten, LedgerKey, RunId, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Params, Transaction, TransactionBehavior, params};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

/// The tables of this module.
pub(crate) const TABLES: &str = "
    -- Where the positions of live runs go on whose last episodes were forgotten, so that no id is used again.
    CREATE TABLE taken_positions (
        run TEXT PRIMARY KEY NOT NULL,
        next INTEGER NOT NULL
    ) WITHOUT ROWID;
    -- Episodes whose records were forgotten while their traces in files remain, and further names of these traces, as a JSON array; at most one row.
    CREATE TABLE forgetting (
        number INTEGER PRIMARY KEY CHECK (number = 1),
        episodes TEXT NOT NULL
    );
";

/// Whether something is done, or only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// The transaction is rolled back. What takes long is only counted: other processes wait for it.
    Rehearsal,
    Forgetting,
}

/// The first position of a run behind those that were ever used, as far as records say.
pub(crate) const NEXT_POSITION: &str = "
    SELECT coalesce(max(next), 0) FROM (
    SELECT max(e.position) + 1 AS next FROM episodes e JOIN runs r ON r.number = e.run WHERE r.id = ?1
    UNION ALL SELECT max(position) + 1 FROM open_episodes WHERE run = ?1
    UNION ALL SELECT next FROM taken_positions WHERE run = ?1)";

#[async_trait]
impl ForgettingStore for Store {
    async fn rehearse_forgetting(&self, what: Forgetting) -> Result<Forgotten, StoreError> {
        let path = self.path().to_owned();
        off_executor(move || {
            let all = || -> Result<Forgotten, Fault> {
                let mut connection = schema::open(&path)?;
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                // Nothing is committed, so any key will do.
                let key = LedgerKey::default();
                let blobs = Blobs::new(path.parent().unwrap_or(Path::new("")));
                let mut ledger = Ledger::new(&transaction, &key);
                let forgotten = forget(&transaction, &what, (&blobs, Doing::Rehearsal), &mut ledger)?;
                transaction.rollback()?;
                Ok(forgotten)
            };
            all().map_err(|fault| fault.explain(&path))
        })
        .await
    }

    async fn forget(&self, what: Forgetting) -> Result<Forgotten, StoreError> {
        let door = self.checked("live trials");
        let clean = |(playbook, state)| Ok::<_, StoreError>((playbook, door.document(state)?));
        let trials = what.trials.into_iter().map(clean).collect::<Result<_, _>>()?;
        let what = Forgetting { trials, ..what };
        self.with_writer(move |writer| {
            let blobs = writer.blobs.clone();
            let doing = Doing::Forgetting;
            let forgotten =
                writer.transact(|transaction, ledger| forget(transaction, &what, (&blobs, doing), ledger))?;
            ControlFlow::Continue(forgotten.and_then(|forgotten| {
                // The compressor has samples and dictionaries of what was forgotten.
                writer.compressor.restart(newest(writer)?);
                Ok(forgotten)
            }))
        })
        .await
    }

    async fn unfinished_forgetting(&self) -> Result<Option<Vec<String>>, StoreError> {
        self.read(Reader::unfinished_forgetting).await
    }

    async fn clean_forgotten(&self) -> Result<u64, StoreError> {
        self.with_writer(|writer| {
            let path = writer.path.clone();
            ControlFlow::Continue(clean(writer).map_err(|fault| fault.explain(&path)))
        })
        .await
    }

    async fn end_forgetting(&self) -> Result<(), StoreError> {
        self.with_writer(|writer| {
            let noted = writer.transact(|transaction, _| Ok(transaction.execute("DELETE FROM forgetting", [])?))?;
            ControlFlow::Continue(noted.map(drop))
        })
        .await
    }
}

impl Reader {
    /// The names of what was forgotten while its traces in files remain. `None`: nothing.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unfinished_forgetting(&self) -> Result<Option<Vec<String>>, StoreError> {
        Ok(self.query(unfinished)?.map(|names| names.into_iter().collect()))
    }
}

fn newest(writer: &Writer) -> Result<Vec<std::sync::Arc<dictionaries::Dictionary>>, StoreError> {
    dictionaries::newest(&writer.connection, crate::compressor::SUBJECTS)
        .map_err(|error| crate::error::explain(&writer.path, &error))
}

/// Deletes blobs that no record refers to. Then writes the database anew, because its free pages and its log still hold what was removed.
fn clean(writer: &mut Writer) -> Result<u64, Fault> {
    let blobs = retention::collect(&mut writer.connection, &writer.blobs)?;
    writer.connection.execute_batch("VACUUM")?;
    let is_read: bool = writer.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_read {
        return Err(StoreError::Locked { path: writer.path.display().to_string() }.into());
    }
    Ok(blobs)
}

fn unfinished(connection: &Connection) -> rusqlite::Result<Option<BTreeSet<String>>> {
    let noted: Option<String> =
        connection.prepare_cached("SELECT episodes FROM forgetting")?.query_row([], |row| row.get(0)).optional()?;
    // What cannot be read is still unfinished.
    Ok(noted.map(|text| serde_json::from_str(&text).unwrap_or_default()))
}

/// Removes records of one kind. Returns how many.
fn delete(transaction: &Transaction<'_>, sql: &str, values: impl Params) -> rusqlite::Result<u64> {
    Ok(transaction.prepare_cached(sql)?.execute(values)? as u64)
}

/// Forgets in one transaction, without the files.
fn forget(
    transaction: &Transaction<'_>,
    what: &Forgetting,
    (blobs, doing): (&Blobs, Doing),
    ledger: &mut Ledger<'_>,
) -> Result<Forgotten, Fault> {
    let Forgetting { episodes, memories, submitters, draws, trials, traces, retrains_all } = what;
    let mut gone = Forgotten::default();
    for (number, document) in draws {
        let anonymous = "UPDATE drawn SET run = '', episode = 'forgotten-' || number, at = 0, document = ?
                         WHERE number = ? AND place IS NOT NULL";
        gone.anonymous += delete(transaction, anonymous, params![document, signed(*number)])?;
    }
    let runs: BTreeSet<&RunId> = episodes.iter().map(|(run, _)| run).collect();
    for run in runs {
        let next: i64 = transaction.prepare_cached(NEXT_POSITION)?.query_row([&run.0], |row| row.get(0))?;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO taken_positions (run, next) VALUES (?, ?)")?
            .execute(params![run.0, next])?;
    }
    let mut subjects = if *retrains_all { Subjects::of_live(transaction)? } else { Subjects::default() };
    let mut ended = BTreeMap::new();
    for (run, id) in episodes {
        // Responses are known by the ids of their answers.
        live_records(transaction, (run, id), &mut gone)?;
        if let Some(number) = episode_rows::episode_number(transaction, run, id)? {
            subjects.add(transaction, number)?;
            gone.verdicts += recorded(transaction, number)?;
            gone.episodes += 1;
            ended.insert((ledger.begun(run)?, id.0.clone()), run);
        }
    }
    let erased = erase_digests(transaction, &ended)?;
    for (key, run) in &ended {
        let erased = erased.get(key).map(Vec::as_slice).unwrap_or_default();
        ledger.add(EntryKind::Forgotten, run, Some(&key.1), &of_erased(erased))?;
    }
    for (scope, id) in memories {
        gone.memories += u64::from(memory::forget(transaction, scope, id)?);
    }
    for owner in submitters {
        gone.trajectories += delete(transaction, "DELETE FROM trajectories WHERE owner = ? AND run IS NULL", [owner])?;
    }
    for (playbook, state) in trials {
        delete(transaction, "UPDATE trials SET state = ? WHERE playbook = ?", [state, playbook])?;
    }
    let retrained = match doing {
        Doing::Rehearsal => counted(transaction, &subjects)?,
        Doing::Forgetting => retrain(transaction, &subjects)?,
    };
    (gone.dictionaries, gone.recompressed) = (retrained.dictionaries, retrained.documents);
    for sql in episode_rows::REMOVE_UNUSED {
        transaction.execute(sql, [])?;
    }
    let referred = retention::referred_to(transaction)?;
    gone.blobs = blobs.files()?.blobs.iter().filter(|(digest, _)| !referred.contains(digest)).count() as u64;
    note(transaction, (episodes, traces))?;
    Ok(gone)
}

/// Removes what was recorded of a live episode beside the episode itself.
fn live_records(
    transaction: &Transaction<'_>,
    (run, id): (&RunId, &EpisodeId),
    gone: &mut Forgotten,
) -> rusqlite::Result<()> {
    let key = [&run.0, &id.0];
    gone.responses += delete(
        transaction,
        "DELETE FROM responses WHERE number IN (SELECT r.number FROM answers a
         JOIN responses r ON r.owner = a.owner AND r.id = a.id AND r.run = a.run WHERE a.run = ? AND a.episode = ?)",
        key,
    )?;
    let of = |sql: &str| delete(transaction, sql, key);
    gone.names += of("DELETE FROM answers WHERE run = ? AND episode = ?")?;
    gone.names += of("DELETE FROM sessions WHERE run = ? AND episode = ?")?;
    gone.in_progress += of("DELETE FROM open_episodes WHERE run = ? AND id = ?")?;
    gone.exchanges += of("DELETE FROM exchanges WHERE run = ? AND episode = ?")?;
    gone.feedback += of("DELETE FROM feedback WHERE run = ? AND episode = ?")?;
    gone.trajectories += of("DELETE FROM trajectories WHERE run = ? AND episode = ?")?;
    gone.draws += of("DELETE FROM drawn WHERE run = ? AND episode = ?")?;
    let key = params![run.0, EpisodeKey::of(&id.0)];
    gone.decisions += delete(transaction, "DELETE FROM routed WHERE run = ? AND episode = ?", key)?;
    Ok(())
}

/// Removes the rows of an episode. Returns the number of its verdicts.
fn recorded(transaction: &Transaction<'_>, number: i64) -> rusqlite::Result<u64> {
    let verdicts: i64 = transaction
        .prepare_cached("SELECT count(*) FROM verdicts WHERE number BETWEEN ? AND ?")?
        .query_row(episode_rows::verdict_numbers(number), |row| row.get(0))?;
    let notes =
        "DELETE FROM episode_notes WHERE (run, position) = (SELECT run, position FROM episodes WHERE number = ?)";
    delete(transaction, notes, [number])?;
    episode_rows::remove(transaction, number)?;
    Ok(unsigned(verdicts))
}

/// Erases the digests of episodes and their later verdicts in the ledger. Their codes stay, so that the chain holds. Returns the numbers and kinds of the
/// entries of each episode, in their order.
fn erase_digests(
    transaction: &Transaction<'_>,
    ended: &BTreeMap<(i64, String), &RunId>,
) -> rusqlite::Result<BTreeMap<(i64, String), Vec<(i64, i64)>>> {
    let mut erased: BTreeMap<(i64, String), Vec<(i64, i64)>> = BTreeMap::new();
    if ended.is_empty() {
        return Ok(erased);
    }
    {
        let kinds = [EntryKind::Episode, EntryKind::Replaced, EntryKind::Verdict].map(|kind| kind as i64);
        let sql = "SELECT sequence, run, subject, kind FROM ledger WHERE kind IN (?, ?, ?) ORDER BY sequence";
        let mut entries = transaction.prepare(sql)?;
        let mut rows = entries.query(kinds)?;
        while let Some(row) = rows.next()? {
            // An entry of another type is damage, which checking shows.
            let (Ok(run), Ok(subject)) = (row.get::<_, i64>(1), row.get::<_, EpisodeKey>(2)) else { continue };
            let key = (run, subject.0);
            if ended.contains_key(&key) {
                erased.entry(key).or_default().push((row.get(0)?, row.get(3)?));
            }
        }
    }
    let mut erase = transaction.prepare_cached("UPDATE ledger SET digest = x'' WHERE sequence = ?")?;
    for (sequence, _) in erased.values().flatten() {
        erase.execute([sequence])?;
    }
    drop(erase);
    Ok(erased)
}

/// Notes that the traces of these episodes in files remain, with further names of these traces, beside those of earlier ones.
fn note(
    transaction: &Transaction<'_>,
    (episodes, traces): (&BTreeSet<(RunId, EpisodeId)>, &BTreeSet<String>),
) -> Result<(), Fault> {
    let mut all = unfinished(transaction)?.unwrap_or_default();
    all.extend(episodes.iter().map(|(run, id)| format!("{run}/{id}")));
    all.extend(traces.iter().cloned());
    let text = serde_json::json!(all).to_string();
    transaction
        .prepare_cached("INSERT OR REPLACE INTO forgetting (number, episodes) VALUES (1, ?)")?
        .execute([text])?;
    Ok(())
}
