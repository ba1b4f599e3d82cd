//! The one writer: a thread that puts everything waiting into one transaction.

use crate::error::explain;
use crate::schema;
use async_trait::async_trait;
use clawhost_core::{
    Checkpoint, Digest, Episode, EpisodeId, EpisodeStore, Judged, PlaybookLedger, PlaybookVersion, Recorded,
    RewardRecord, RunId, RunRecord, StoreError, Usage, effective_reward,
};
use rusqlite::{Connection, Transaction, params};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// How a store is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoreOptions {
    /// The database never grows past this; reaching it reads as a full disk. None: no limit but the disk.
    pub max_bytes: Option<u64>,
}

/// Bytes of a database page: SQLite's default, used to turn a size into pages.
const PAGE_BYTES: u64 = 4096;

/// Writes that may wait before senders do: enough to keep the thread busy, little enough to bound memory.
const WAITING: usize = 1024;

/// An episode made ready for its rows, so that the writer thread only writes.
pub(crate) struct Row {
    recorded: Recorded,
    document: String,
    verdicts: Vec<(RewardRecord, String)>,
}

pub(crate) enum Write {
    Begin(Box<RunRecord>, String),
    Append { run: RunId, rows: Vec<Row>, spent: String },
    Resume(RunId),
    Judge(Vec<Judged>),
    Finish { run: RunId, summary: String, spent: String },
    Checkpoint(Box<Checkpoint>),
    Version(Box<PlaybookVersion>, Option<PlaybookLedger>),
    Plugin { digest: Digest, name: String, version: String, world: String, bytes: Vec<u8> },
}

type Waiting = (Write, oneshot::Sender<Result<(), StoreError>>);

/// The writer's end of a database. Dropping it waits for writes under way.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    sender: Option<mpsc::SyncSender<Waiting>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Store {
    /// Opens or creates the database in a data folder.
    ///
    /// # Errors
    /// The folder or file cannot be used; the error says what to do.
    pub fn open(folder: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let path = folder.join(crate::FILE);
        let connection = schema::open(&path)?;
        if let Some(bytes) = options.max_bytes {
            let pages = i64::try_from(bytes / PAGE_BYTES).unwrap_or(i64::MAX).max(1);
            connection.pragma_update(None, "max_page_count", pages).map_err(|error| explain(&path, &error))?;
        }
        let (sender, receiver) = mpsc::sync_channel(WAITING);
        let name = path.clone();
        let thread = std::thread::Builder::new()
            .name("clawhost-store".into())
            .spawn(move || run(&name, connection, &receiver))
            .map_err(|error| StoreError::Other(format!("no thread for the store: {error}")))?;
        Ok(Self { path, sender: Some(sender), thread: Some(thread) })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a plugin by its digest.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn keep_plugin(
        &self,
        digest: Digest,
        name: &str,
        version: &str,
        world: &str,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        let (name, version, world) = (name.to_owned(), version.to_owned(), world.to_owned());
        self.write(Write::Plugin { digest, name, version, world, bytes }).await
    }

    pub(crate) async fn write(&self, write: Write) -> Result<(), StoreError> {
        let stopped = || StoreError::Other(format!("{}: the store has stopped", self.path.display()));
        let (reply, answer) = oneshot::channel();
        let sender = self.sender.as_ref().ok_or_else(stopped)?.clone();
        // The channel may be full: waiting for it must not hold up the executor.
        match sender.try_send((write, reply)) {
            Ok(()) => {}
            Err(mpsc::TrySendError::Full(waiting)) => {
                let sent = tokio::task::spawn_blocking(move || sender.send(waiting).is_ok()).await;
                if !sent.unwrap_or(false) {
                    return Err(stopped());
                }
            }
            Err(mpsc::TrySendError::Disconnected(_)) => return Err(stopped()),
        }
        answer.await.map_err(|_| stopped())?
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has answered nobody, so nobody believes that it wrote.
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl EpisodeStore for Store {
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        self.write(Write::Begin(Box::new(run.clone()), run.config.to_string())).await
    }

    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError> {
        self.write(Write::Resume(run.clone())).await
    }

    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, spent: Usage) -> Result<(), StoreError> {
        let mut rows = Vec::with_capacity(episodes.len());
        for recorded in episodes {
            let episode = &recorded.episode;
            let text = |value: serde_json::Result<String>| {
                value.map_err(|error| StoreError::Other(format!("episode {}: {error}", episode.id)))
            };
            let document = text(serde_json::to_string(&crate::reader::Stored(episode)))?;
            let mut verdicts = Vec::with_capacity(episode.verdicts.len());
            for record in &episode.verdicts {
                verdicts.push((record.clone(), text(serde_json::to_string(record))?));
            }
            rows.push(Row { recorded, document, verdicts });
        }
        let spent = serde_json::json!(spent).to_string();
        self.write(Write::Append { run: run.clone(), rows, spent }).await
    }

    async fn judge(&self, judged: Vec<Judged>) -> Result<(), StoreError> {
        self.write(Write::Judge(judged)).await
    }

    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, spent: Usage) -> Result<(), StoreError> {
        let (summary, spent) = (summary.to_string(), serde_json::json!(spent).to_string());
        self.write(Write::Finish { run: run.clone(), summary, spent }).await
    }
}

fn run(path: &Path, mut connection: Connection, receiver: &mpsc::Receiver<Waiting>) {
    while let Ok(first) = receiver.recv() {
        // Everything that is waiting goes into one transaction.
        let batch: Vec<Waiting> = std::iter::once(first).chain(receiver.try_iter()).collect();
        let together = commit(&mut connection, batch.iter().map(|(write, _)| write));
        if together.is_ok() || batch.len() == 1 {
            let result = together.map_err(|error| explain(path, &error));
            batch.into_iter().for_each(|(_, reply)| drop(reply.send(result.clone())));
        } else {
            // One bad write must not take its neighbours with it.
            for (write, reply) in batch {
                let alone = commit(&mut connection, std::iter::once(&write));
                drop(reply.send(alone.map_err(|error| explain(path, &error))));
            }
        }
    }
}

fn commit<'a>(connection: &mut Connection, writes: impl Iterator<Item = &'a Write>) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for write in writes {
        apply(&transaction, write)?;
    }
    transaction.commit()
}

fn apply(transaction: &Transaction<'_>, write: &Write) -> rusqlite::Result<()> {
    match write {
        Write::Begin(run, config) => {
            transaction
                .prepare_cached(
                    "INSERT INTO runs (id, state_id, config, created_at, digest, parent) VALUES (?, ?, ?, ?, ?, ?)",
                )?
                .execute(params![
                    run.id.0,
                    run.state_id.to_string(),
                    config,
                    signed(run.created_at),
                    run.digest.to_string(),
                    run.parent.as_ref().map(|parent| &parent.0)
                ])?;
        }
        Write::Resume(run) => {
            transaction.prepare_cached("UPDATE runs SET summary = NULL WHERE id = ?")?.execute(params![run.0])?;
        }
        Write::Append { run, rows, spent } => {
            transaction.prepare_cached("UPDATE runs SET spent = ? WHERE id = ?")?.execute(params![spent, run.0])?;
            for row in rows.iter().filter(|row| row.recorded.again) {
                forget(transaction, &row.recorded.episode)?;
            }
            let mut episodes = transaction.prepare_cached(
                "INSERT INTO episodes (run, id, position, task, split, environment, environment_digest, state_id, ending,
                 reward, turns, format, created_at, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            for Row { recorded: Recorded { episode, notes, .. }, document, verdicts: records } in rows {
                episodes.execute(params![
                    episode.run.0,
                    episode.id.0,
                    signed(episode.index),
                    episode.task.id,
                    episode.task.split,
                    episode.environment.name,
                    episode.environment.digest.to_string(),
                    episode.state_id.to_string(),
                    episode.ending.label(),
                    episode.reward,
                    signed(episode.turns.len() as u64),
                    episode.format,
                    signed(episode.created_at),
                    document,
                ])?;
                for (position, (record, document)) in records.iter().enumerate() {
                    verdict(transaction, &episode.run, &episode.id, record, Some(position), document)?;
                }
                for (key, value) in notes {
                    transaction
                        .prepare_cached("INSERT INTO episode_notes (run, position, key, value) VALUES (?, ?, ?, ?)")?
                        .execute(params![episode.run.0, signed(episode.index), key, value])?;
                }
            }
        }
        Write::Judge(rows) => {
            for judged in rows {
                judge(transaction, judged)?;
            }
        }
        Write::Finish { run, summary, spent } => {
            transaction
                .prepare_cached("UPDATE runs SET summary = ?, spent = ? WHERE id = ?")?
                .execute(params![summary, spent, run.0])?;
            // The last writer of a key, in the order of the plan; one that deleted it leaves none. The notes of the episodes
            // stay: a run that is taken up again merges anew.
            transaction.prepare_cached("DELETE FROM notes WHERE run = ?")?.execute(params![run.0])?;
            transaction
                .prepare_cached(
                    "INSERT INTO notes (run, key, value) SELECT run, key, value FROM episode_notes AS last
                     WHERE run = ?1 AND value IS NOT NULL AND position =
                     (SELECT max(position) FROM episode_notes WHERE run = ?1 AND key = last.key)",
                )?
                .execute(params![run.0])?;
        }
        Write::Checkpoint(checkpoint) => crate::learning::checkpoint(transaction, checkpoint)?,
        Write::Version(version, ledger) => {
            crate::learning::version(transaction, version)?;
            ledger.iter().try_for_each(|new| crate::learning::write_ledger(transaction, new))?;
        }
        Write::Plugin { digest, name, version, world, bytes } => {
            transaction
                .prepare_cached(
                    "INSERT OR IGNORE INTO plugins (digest, name, version, world, bytes) VALUES (?, ?, ?, ?, ?)",
                )?
                .execute(params![digest.to_string(), name, version, world, bytes])?;
        }
    }
    Ok(())
}

/// Takes out what stands at an episode's position.
fn forget(transaction: &Transaction<'_>, episode: &Episode) -> rusqlite::Result<()> {
    let id = params![episode.run.0, episode.id.0];
    transaction.prepare_cached("DELETE FROM verdicts WHERE run = ? AND episode = ?")?.execute(id)?;
    transaction.prepare_cached("DELETE FROM episodes WHERE run = ? AND id = ?")?.execute(id)?;
    transaction
        .prepare_cached("DELETE FROM episode_notes WHERE run = ? AND position = ?")?
        .execute(params![episode.run.0, signed(episode.index)])?;
    Ok(())
}

/// Takes a later verdict in, by what stands in the database now: another process may have judged meanwhile.
fn judge(transaction: &Transaction<'_>, judged: &Judged) -> rusqlite::Result<()> {
    let broken = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
    let Judged { run, episode, record } = judged;
    let known = transaction
        .prepare_cached("SELECT 1 FROM episodes WHERE run = ? AND id = ?")?
        .exists(params![run.0, episode.0])?;
    if !known {
        return Ok(());
    }
    let mut statement =
        transaction.prepare_cached("SELECT document FROM verdicts WHERE run = ? AND episode = ? ORDER BY position")?;
    let documents: Vec<String> =
        statement.query_map(params![run.0, episode.0], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut records: Vec<RewardRecord> = Vec::with_capacity(documents.len());
    for document in documents {
        records.push(serde_json::from_str(&document).map_err(broken)?);
    }
    let question = record.question();
    if !record.clone().admit(&mut records) {
        return Ok(());
    }
    if let Some(admitted) = records.iter().find(|known| known.question() == question) {
        let document = serde_json::to_string(admitted).map_err(broken)?;
        verdict(transaction, run, episode, admitted, None, &document)?;
    }
    transaction.prepare_cached("UPDATE episodes SET reward = ? WHERE run = ? AND id = ?")?.execute(params![
        effective_reward(&records),
        run.0,
        episode.0
    ])?;
    Ok(())
}

/// Writes a verdict at a position; without one, where a verdict of the same key stands, else behind all others.
fn verdict(
    transaction: &Transaction<'_>,
    run: &RunId,
    episode: &EpisodeId,
    record: &RewardRecord,
    position: Option<usize>,
    document: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO verdicts (run, episode, reward_digest, options_digest, judge, group_digest, position, document)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, (SELECT coalesce(max(position) + 1, 0) FROM verdicts
             WHERE run = ?1 AND episode = ?2)), ?8)
             ON CONFLICT DO UPDATE SET document = excluded.document",
        )?
        .execute(params![
            run.0,
            episode.0,
            record.reward.digest.to_string(),
            record.options_digest.to_string(),
            record.judge.as_deref().unwrap_or(""),
            record.group_digest.map(|digest| digest.to_string()).unwrap_or_default(),
            position.map(|position| signed(position as u64)),
            document,
        ])?;
    Ok(())
}

/// SQLite's integers are signed; none of ours comes near the top bit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
