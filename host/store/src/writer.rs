//! The only writer: a thread that commits all waiting writes in one transaction.

use crate::blobs::Blobs;
use crate::compressor::{Compressor, SUBJECTS};
use crate::dictionaries::{self, Loaded};
use crate::door::{Checked, Door};
use crate::episode_rows::EpisodeRows;
use crate::error::{Fault, explain};
use crate::ledger::{EntryKind, Ledger, of_state};
use crate::reader::Reader;
use crate::{learning, live, playbooks, plugins, pool, records, retention, routing, runs, schema};
use clawhost_core::{
    Admission, Digest, Episode, ExchangeBatch, Judged, KnownSecrets, LabelChange, LedgerKey, PlaybookLedger,
    PlaybookVersion, PoolChange, PoolOutcome, Relabelled, Removal, Removed, RoutedMarks, RunId, RunRecord, RunState,
    StoreError,
};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use tokio::sync::oneshot;

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// Largest size of the database. Reaching it is reported as a full disk. `None`: only the disk limits it. Blobs do
    /// not count.
    pub max_bytes: Option<u64>,
    /// Keys that no record may repeat: they are scrubbed from every text.
    pub secrets: KnownSecrets,
    /// The key that authenticates the ledger. By default it is one that everybody knows.
    pub ledger_key: LedgerKey,
    /// After this commit, counted from 1, the writer ends as if the process had died: the write gets no answer, and
    /// later writes fail. `None`: never.
    #[cfg(feature = "failpoints")]
    pub fail_after_commit: Option<u64>,
}

impl StoreOptions {
    /// Options with a largest size of the database and defaults otherwise, so that a caller builds with and without the
    /// feature `failpoints`.
    pub fn bounded(max_bytes: Option<u64>) -> Self {
        Self {
            max_bytes,
            secrets: KnownSecrets::default(),
            ledger_key: LedgerKey::default(),
            #[cfg(feature = "failpoints")]
            fail_after_commit: None,
        }
    }
}

/// Length of the queue of writes, and the largest number of writes per transaction: enough to keep the thread busy, and
/// few enough to bound memory.
const WAITING: usize = 1024;

pub(crate) enum Write {
    Begin(Box<RunRecord>),
    Append { run: RunId, rows: Vec<EpisodeRows>, spent: String },
    Resume(RunId),
    Exchanges(ExchangeBatch),
    Routed(RoutedMarks),
    Finish { run: RunId, state: RunState, summary: String, spent: String },
    Checkpoint(Box<learning::CheckpointRows>),
    Version(Box<PlaybookVersion>, Option<PlaybookLedger>),
    Plugin(plugins::PluginRow),
}

/// Content to which a write refers, with its digest.
pub(crate) struct NewBlob {
    pub(crate) digest: Digest,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    Component(Vec<u8>),
    State(Arc<[u8]>),
    /// An artefact of an episode, by its position.
    Artefact(Arc<Episode>, usize),
}

impl Content {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Component(bytes) => bytes,
            Self::State(bytes) => bytes,
            Self::Artefact(episode, position) => {
                episode.artefacts.get(*position).map_or(&[], |artefact| artefact.bytes.as_slice())
            }
        }
    }
}

struct Waiting {
    write: Write,
    blobs: Vec<NewBlob>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

enum Job {
    Write(Waiting),
    Judge(Vec<Judged>, oneshot::Sender<Result<Vec<Admission>, StoreError>>),
    Remove(Removal, oneshot::Sender<Result<Removed, StoreError>>),
    Relabel(RunId, LabelChange, oneshot::Sender<Result<Relabelled, StoreError>>),
    Pool(PoolChange, oneshot::Sender<Result<PoolOutcome, StoreError>>),
    /// A change with a result of its own.
    Change(Box<dyn FnOnce(&mut Writer) -> ControlFlow<()> + Send>),
}

/// The writing handle of a database. Dropping it waits for pending writes.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    sender: Option<mpsc::SyncSender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// An idle reader.
    idle: Arc<Mutex<Option<Reader>>>,
    compressor: Compressor,
    door: Door,
    #[cfg(feature = "failpoints")]
    failpoint: crate::failpoints::Failpoint,
}

impl Store {
    /// Opens or creates the database in a data folder. The caller holds a shared lease of the folder.
    ///
    /// # Errors
    /// The folder or file cannot be used.
    pub fn open(folder: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let path = folder.join(crate::FILE);
        let connection = schema::open(&path)?;
        if let Some(bytes) = options.max_bytes {
            let pages = i64::try_from(bytes / schema::PAGE_BYTES).unwrap_or(i64::MAX).max(1);
            connection.pragma_update(None, "max_page_count", pages).map_err(|error| explain(&path, &error))?;
        }
        let newest = dictionaries::newest(&connection, SUBJECTS).map_err(|error| explain(&path, &error))?;
        let compressor = Compressor::new(newest);
        #[cfg(feature = "failpoints")]
        let failpoint = crate::failpoints::Failpoint::new(options.fail_after_commit);
        let writer = Writer {
            path: path.clone(),
            connection,
            blobs: Blobs::new(folder),
            compressor: compressor.clone(),
            dictionaries: Loaded::default(),
            ledger_key: options.ledger_key,
            #[cfg(feature = "failpoints")]
            failpoint: failpoint.clone(),
        };
        let (sender, receiver) = mpsc::sync_channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("clawhost-store".into())
            .spawn(move || {
                let _ = writer.run(&receiver);
            })
            .map_err(|error| StoreError::Other(format!("no thread for the store: {error}")))?;
        Ok(Self {
            path,
            sender: Some(sender),
            thread: Some(thread),
            idle: Arc::default(),
            compressor,
            door: Door::new(options.secrets),
            #[cfg(feature = "failpoints")]
            failpoint,
        })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn compressor(&self) -> &Compressor {
        &self.compressor
    }

    /// The door for records of one kind, which errors name.
    pub(crate) fn checked<'a>(&self, what: &'a str) -> Checked<'a> {
        self.door.checked(what)
    }

    /// Commits since this store was opened.
    #[cfg(feature = "failpoints")]
    pub fn commits(&self) -> u64 {
        self.failpoint.commits()
    }

    pub(crate) async fn write(&self, write: Write) -> Result<(), StoreError> {
        self.write_with(write, Vec::new()).await
    }

    /// Writes a record and the blobs that it refers to.
    pub(crate) async fn write_with(&self, write: Write, blobs: Vec<NewBlob>) -> Result<(), StoreError> {
        self.send(|reply| Job::Write(Waiting { write, blobs, reply })).await
    }

    pub(crate) async fn remove_records(&self, removal: Removal) -> Result<Removed, StoreError> {
        self.send(|reply| Job::Remove(removal, reply)).await
    }

    pub(crate) async fn add_verdicts(&self, judged: Vec<Judged>) -> Result<Vec<Admission>, StoreError> {
        self.send(|reply| Job::Judge(judged, reply)).await
    }

    pub(crate) async fn change_labels(&self, run: RunId, change: LabelChange) -> Result<Relabelled, StoreError> {
        self.send(|reply| Job::Relabel(run, change, reply)).await
    }

    pub(crate) async fn pool_job(&self, change: PoolChange) -> Result<PoolOutcome, StoreError> {
        self.send(|reply| Job::Pool(change, reply)).await
    }

    /// Changes records in a transaction of its own, whose result it returns.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.change_checked(|transaction| Ok(work(transaction)?)).await
    }

    /// The same with work that can fail for other reasons than the database.
    pub(crate) async fn change_checked<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.with_writer(move |writer| writer.transact(|transaction, _| work(transaction))).await
    }

    /// Has the writer do something between two transactions of others. `Break`: a failpoint ended it.
    pub(crate) async fn with_writer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> ControlFlow<(), Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(|reply| {
            Job::Change(Box::new(move |writer| {
                drop(reply.send(work(writer)?));
                ControlFlow::Continue(())
            }))
        })
        .await
    }

    async fn send<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job) -> Result<T, StoreError> {
        let stopped = || StoreError::Other(format!("{}: the store has stopped", self.path.display()));
        let (reply, answer) = oneshot::channel();
        let sender = self.sender.as_ref().ok_or_else(stopped)?.clone();
        // The channel may be full: waiting for it must not block the executor.
        match sender.try_send(job(reply)) {
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

    /// Reads concurrently with the writer, off the executor. One reader is kept open: opening one costs more than most
    /// reads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = self.path.parent().map(Path::to_owned).unwrap_or_default();
        let idle = self.idle.clone();
        off_executor(move || {
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).take();
            let reader = kept.map_or_else(|| Reader::open(&folder), Ok)?;
            let result = read(&reader);
            *idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
            result
        })
        .await
    }
}

/// Lets other threads run that wait for this processor. It costs a call of the system, so it is for steps of some 40 us: a thread that is not interrupted runs for up to
/// three milliseconds while an answer waits.
pub(crate) fn give_way() {
    std::thread::yield_now();
}

/// Runs long work off the executor.
pub(crate) async fn off_executor<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Other(format!("the store was interrupted: {error}")))?
}

impl Drop for Store {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has sent no answer, so no caller assumes that its write succeeded.
            let _ = thread.join();
        }
    }
}

/// The state of the writer thread.
pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) blobs: Blobs,
    pub(crate) compressor: Compressor,
    /// Compresses stored verdicts.
    dictionaries: Loaded,
    ledger_key: LedgerKey,
    #[cfg(feature = "failpoints")]
    failpoint: crate::failpoints::Failpoint,
}

impl Writer {
    /// Largest number of writes per transaction. A failpoint counts commits: with one, every write is a commit.
    fn together(&self) -> usize {
        #[cfg(feature = "failpoints")]
        if self.failpoint.is_set() {
            return 1;
        }
        WAITING
    }

    /// Writes until the last sender is dropped. `Break`: a failpoint ended it.
    fn run(mut self, receiver: &mpsc::Receiver<Job>) -> ControlFlow<()> {
        let together = self.together();
        while let Ok(first) = receiver.recv() {
            let mut batch = Vec::new();
            for job in std::iter::once(first).chain(receiver.try_iter().take(together - 1)) {
                match job {
                    Job::Write(waiting) => batch.push(waiting),
                    Job::Judge(judged, reply) => {
                        self.write(std::mem::take(&mut batch))?;
                        let (compressor, loaded) = (self.compressor.clone(), std::mem::take(&mut self.dictionaries));
                        let admitted = self.transact(|transaction, ledger| {
                            let judge = |judged| records::judge(transaction, judged, (&compressor, &loaded), ledger);
                            judged.iter().map(judge).collect()
                        })?;
                        // Dictionaries that a failed transaction has read may not exist in the database.
                        if admitted.is_ok() {
                            self.dictionaries = loaded;
                        }
                        drop(reply.send(admitted));
                    }
                    Job::Relabel(run, change, reply) => {
                        self.write(std::mem::take(&mut batch))?;
                        let labelled =
                            self.transact(|transaction, ledger| runs::relabel(transaction, &run, &change, ledger))?;
                        drop(reply.send(labelled));
                    }
                    Job::Pool(change, reply) => {
                        self.write(std::mem::take(&mut batch))?;
                        let changed = self.transact(|transaction, _| pool::change(transaction, &change))?;
                        drop(reply.send(changed));
                    }
                    Job::Change(change) => {
                        self.write(std::mem::take(&mut batch))?;
                        change(&mut self)?;
                    }
                    Job::Remove(removal, reply) => {
                        self.write(std::mem::take(&mut batch))?;
                        let removed = self.remove(&removal)?;
                        drop(reply.send(removed));
                    }
                }
            }
            self.write(batch)?;
        }
        ControlFlow::Continue(())
    }

    fn write(&mut self, batch: Vec<Waiting>) -> ControlFlow<()> {
        let mut ready = Vec::with_capacity(batch.len());
        for waiting in batch {
            // Before the transaction, so that it is short.
            match waiting.blobs.iter().try_for_each(|blob| self.blobs.put(&blob.digest, blob.content.bytes())) {
                Ok(()) => ready.push(waiting),
                Err(error) => drop(waiting.reply.send(Err(error))),
            }
        }
        if ready.is_empty() {
            return ControlFlow::Continue(());
        }
        let together = self.commit(&ready)?;
        if together.is_ok() || ready.len() == 1 {
            ready.into_iter().for_each(|waiting| drop(waiting.reply.send(together.clone())));
        } else {
            // An invalid write must not fail the other writes of its batch.
            for waiting in ready {
                let alone = self.commit(std::slice::from_ref(&waiting))?;
                drop(waiting.reply.send(alone));
            }
        }
        ControlFlow::Continue(())
    }

    fn commit(&mut self, batch: &[Waiting]) -> ControlFlow<(), Result<(), StoreError>> {
        let (blobs, compressor) = (self.blobs.clone(), self.compressor.clone());
        let released = self.transact(|transaction, ledger| {
            let mut released = BTreeSet::new();
            for waiting in batch {
                for NewBlob { digest, content } in &waiting.blobs {
                    // Another process may have deleted it since, with the last record that referred to it.
                    if !blobs.contains(digest, content.bytes().len() as u64) {
                        blobs.put(digest, content.bytes())?;
                    }
                }
                apply(transaction, &waiting.write, &mut released, &compressor, ledger)?;
            }
            Ok(released)
        })?;
        ControlFlow::Continue(released.map(|released| self.release(released)))
    }

    /// Commits work in a transaction of its own.
    pub(crate) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Ledger<'_>) -> Result<T, Fault>,
    ) -> ControlFlow<(), Result<T, StoreError>> {
        let all = || -> Result<T, Fault> {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction, &mut Ledger::new(&transaction, &self.ledger_key))?;
            transaction.commit()?;
            Ok(value)
        };
        let done = all();
        #[cfg(feature = "failpoints")]
        if done.is_ok() {
            self.failpoint.committed()?;
        }
        ControlFlow::Continue(done.map_err(|fault| fault.explain(&self.path)))
    }

    /// Deletes blobs that lost their last reference. If a deletion fails, `remove` repeats it.
    fn release(&mut self, digests: BTreeSet<Digest>) {
        if digests.is_empty() {
            return;
        }
        // Under the write lock: no process can commit a new reference between the check and the deletion.
        let Ok(transaction) = self.connection.transaction_with_behavior(TransactionBehavior::Immediate) else { return };
        for digest in digests {
            if retention::is_referred_to(&transaction, &digest).is_ok_and(|referred| !referred) {
                let _ = self.blobs.delete(&digest);
            }
        }
    }

    fn remove(&mut self, removal: &Removal) -> ControlFlow<(), Result<Removed, StoreError>> {
        let folder = self.path.parent().map(Path::to_owned).unwrap_or_default();
        let before = retention::folder_bytes(&folder, &self.blobs);
        let removed = self.transact(|transaction, ledger| retention::remove(transaction, removal, ledger))?;
        if removal.records_only {
            return ControlFlow::Continue(removed);
        }
        let all = || -> Result<Removed, StoreError> {
            let mut removed = removed?;
            removed.blobs = retention::collect(&mut self.connection, &self.blobs).map_err(|f| f.explain(&self.path))?;
            retention::shrink(&self.connection);
            removed.bytes = before?.saturating_sub(retention::folder_bytes(&folder, &self.blobs)?);
            Ok(removed)
        };
        ControlFlow::Continue(all())
    }
}

/// Applies a write. Adds blobs that lost a reference to `released`.
fn apply(
    transaction: &Transaction<'_>,
    write: &Write,
    released: &mut BTreeSet<Digest>,
    compressor: &Compressor,
    ledger: &mut Ledger<'_>,
) -> Result<(), Fault> {
    match write {
        Write::Begin(run) => records::begin(transaction, run, ledger)?,
        Write::Resume(run) => records::resume(transaction, run, ledger)?,
        Write::Append { run, rows, spent } => {
            records::append(transaction, (run, rows), spent, released, compressor, ledger)?;
        }
        Write::Exchanges(batch) => live::record(transaction, batch)?,
        Write::Routed(marks) => routing::mark(transaction, marks)?,
        Write::Finish { run, state, summary, spent } => {
            records::finish(transaction, run, *state, summary, spent)?;
            ledger.add(EntryKind::State, run, None, &of_state(transaction, run)?)?;
        }
        Write::Checkpoint(rows) => learning::checkpoint(transaction, rows, released, ledger)?,
        Write::Version(version, trials) => {
            playbooks::add_version(transaction, version)?;
            trials.iter().try_for_each(|new| playbooks::write_ledger(transaction, new))?;
        }
        Write::Plugin(row) => plugins::keep(transaction, row)?,
    }
    Ok(())
}
