//! Takes records over from the spool into the store, and makes episodes of sessions that have ended.

use super::guides::Guides;
use super::record::{self, Label};
use super::recorder::Recorder;
use super::routes::Routes;
use super::runs::{self, LiveRun};
use crate::GatewayError;
use crate::store::CaptureStore;
use clawhost_capture::{Exchange, assemble};
use clawhost_core::{
    Admission, Episode, EpisodeId, ExchangeBatch, ExchangeRow, Expectation, ExpectedVerdict, Judged, OpenEpisode,
    Recorded, RunId, RunKind, RunState, SpoolPlace, StoreError, Usage, WaitingFeedback, Withheld,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How long records gather before they are flushed and taken over: one flush and one transaction for all of them.
const GATHER: Duration = Duration::from_millis(30);
/// How often sessions are looked at that may have been idle for too long.
const IDLE_CHECK: Duration = Duration::from_secs(1);
/// Pause after the store failed.
const PAUSE: Duration = Duration::from_millis(500);
/// Feedback that is added to episodes in one transaction.
const FEEDBACK_AT_ONCE: usize = 256;
/// Deadlines of verdicts are whole minutes: the store keeps equal ones of many episodes once.
const DEADLINE_STEP_MS: u64 = 60_000;
/// Episodes that are written in one transaction.
const EPISODES_AT_ONCE: usize = 64;

/// Moves records on.
pub(crate) struct Importer {
    store: Arc<CaptureStore>,
    recorder: Arc<Recorder>,
    place: SpoolPlace,
    known_runs: HashSet<RunId>,
    /// Tokens by run, of this start and earlier ones.
    spent: HashMap<RunId, Usage>,
    episode_bytes: usize,
    /// The verdicts that ended sessions wait for.
    expects: Vec<Expectation>,
    /// Whether feedback may still wait for episodes that have ended.
    has_feedback: bool,
}

/// An exchange of the store or the spool.
fn parsed(document: &str) -> Option<Exchange> {
    serde_json::from_str(document).ok()
}

impl Importer {
    /// Takes over what an earlier start left, and takes its open sessions up again.
    pub(crate) async fn restore(
        store: Arc<CaptureStore>,
        recorder: Arc<Recorder>,
        now_ms: u64,
        episode_bytes: usize,
    ) -> Result<Self, GatewayError> {
        let reader = store.reader()?;
        let place = reader.spool_place()?;
        let mut importer = Self {
            store,
            recorder,
            place,
            known_runs: HashSet::new(),
            spent: HashMap::new(),
            episode_bytes,
            expects: Vec::new(),
            has_feedback: true,
        };
        drop(reader);
        while importer.take_over().await? > 0 {}
        let reader = importer.store.reader()?;
        let today = runs::day(now_ms);
        for row in reader.runs(None)?.into_iter().filter(|row| row.kind == RunKind::Live) {
            importer.known_runs.insert(row.id.clone());
            importer.spent.insert(row.id.clone(), row.spent);
            if runs::day(row.created_at) == today && row.state == RunState::Open && !row.pruned {
                let next = reader.next_position(&row.id)?;
                let owner = runs::owner(&row.basis);
                importer.recorder.charge_usage(&owner, now_ms, row.spent);
                importer.recorder.restore_run(owner, today, LiveRun { id: row.id, next });
            }
        }
        let mut open = reader.open_episodes(None)?;
        // The newest sessions are remembered if there are too many.
        open.sort_by_key(|progress| progress.last_at);
        for progress in open {
            let OpenEpisode { run, id, index, session, opened_at } = progress.episode;
            let documents = reader.exchanges(&run, &id)?;
            let exchanges: Vec<Exchange> = documents.iter().filter_map(|document| parsed(document)).collect();
            let routes = Routes::recorded(&exchanges);
            let guides = Guides::recorded(&exchanges);
            let label = Label { run, episode: id, index, session, opened_at, routes, guides };
            for exchange in &exchanges {
                importer.recorder.charge(&exchange.client.owner, exchange.at, &exchange.answer);
            }
            importer.recorder.restore_session(&exchanges, label);
        }
        Ok(importer)
    }

    /// Starts it on a thread of its own: it reads files and parses records, which would hold up the answers of others. It runs until
    /// `stopping` says so and then once more, or until `killed` ends it at once.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        self,
        stopping: watch::Receiver<bool>,
        mut killed: watch::Receiver<bool>,
    ) -> std::io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new().name("clawhost-import".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = self.run(stopping) => {}
                    _ = killed.changed() => {}
                }
            });
        })
    }

    async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        loop {
            let is_last = *stopping.borrow();
            let asked = self.recorder.rounds.asked();
            match self.step().await {
                Ok(()) => self.recorder.rounds.end(asked),
                Err(error) => {
                    // The spool keeps what is not taken over.
                    tracing::error!("captured exchanges wait in the spool: {error}");
                    if !is_last {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
            if is_last {
                return;
            }
            let woken = tokio::select! {
                () = self.recorder.wake.notified() => true,
                () = tokio::time::sleep(IDLE_CHECK) => false,
                _ = stopping.changed() => false,
            };
            if woken && !self.recorder.rounds.is_awaited() {
                tokio::time::sleep(GATHER).await;
            }
        }
    }

    /// Takes over what is in the spool now, then makes episodes of sessions that have ended. Records that come meanwhile wait for the next
    /// step, so that one flush and one transaction serve many of them under load, too.
    async fn step(&mut self) -> Result<(), GatewayError> {
        if let Err(error) = self.recorder.spool.flush() {
            tracing::error!("the spool cannot be flushed to the disk: {error}");
        }
        let end = self.recorder.spool.end();
        while self.place < end && self.take_over().await? > 0 {}
        self.close_ended().await
    }

    /// Takes records over. Returns how many.
    async fn take_over(&mut self) -> Result<usize, GatewayError> {
        let (records, through) = self.recorder.spool.read(self.place)?;
        if records.is_empty() {
            return Ok(0);
        }
        let count = records.len();
        let read = records.into_iter().filter_map(|text| {
            give_way();
            record::read(text)
        });
        let read: Vec<record::Read> = read.collect();
        if read.len() < count {
            tracing::error!("{} records of the spool cannot be read", count - read.len());
        }
        let mut batch = ExchangeBatch { through, ..ExchangeBatch::default() };
        for record::Read { exchange, response } in read {
            batch.exchanges.extend(exchange);
            batch.responses.extend(response);
        }
        for row in &batch.exchanges {
            if !self.known_runs.contains(&row.episode.run) {
                self.begin_run(row).await?;
            }
        }
        self.store.live.record_exchanges(batch).await?;
        self.place = through;
        self.recorder.spool.forget(through);
        Ok(count)
    }

    async fn begin_run(&mut self, row: &ExchangeRow) -> Result<(), GatewayError> {
        let OpenEpisode { run, opened_at, .. } = &row.episode;
        if self.store.reader()?.run(run)?.is_none() {
            let Some(exchange) = parsed(&row.document) else { return Ok(()) };
            let owner = exchange.client.owner.clone();
            let Ok(episode) = assemble(&[exchange], usize::MAX, *opened_at) else { return Ok(()) };
            self.store.episodes.begin_run(&runs::record(run, &owner, episode.state_id, *opened_at)).await?;
        }
        self.known_runs.insert(run.clone());
        Ok(())
    }

    /// Makes episodes of the sessions that have ended, with the feedback that waited for them.
    pub(crate) async fn close_ended(&mut self) -> Result<(), GatewayError> {
        let mut ended = self.recorder.take_ended(self.place);
        self.has_feedback |= !ended.is_empty();
        while !ended.is_empty() {
            let rest = ended.split_off(ended.len().min(EPISODES_AT_ONCE));
            if let Err(error) = self.close(&ended).await {
                ended.extend(rest);
                self.recorder.give_back(ended);
                return Err(error);
            }
            ended = rest;
        }
        if self.has_feedback {
            self.add_feedback().await?;
            self.has_feedback = false;
        }
        Ok(())
    }

    /// The same with verdicts that sessions wait for when they have ended.
    pub(crate) fn expecting(self, expects: Vec<Expectation>) -> Self {
        Self { expects, ..self }
    }

    /// The verdicts that an episode waits for from now on.
    fn expected(&self, episode: &Episode) -> Vec<ExpectedVerdict> {
        let now = self.recorder.clock.now_ms();
        let at = now.checked_next_multiple_of(DEADLINE_STEP_MS).unwrap_or(now);
        let is_judged = episode.origin.withheld().is_none_or(Withheld::is_judged);
        self.expects.iter().filter(|_| is_judged).map(|expected| expected.from(at)).collect()
    }

    /// Looks at feedback that still waits though its episode has ended. What waited was added when the episode was recorded, so the episode has
    /// refused this: it is reported and dropped. A process that dies in between does so again, which changes nothing.
    async fn add_feedback(&self) -> Result<(), GatewayError> {
        loop {
            let due = self.store.reader()?.due_feedback(FEEDBACK_AT_ONCE)?;
            if due.is_empty() {
                return Ok(());
            }
            let numbers = due.iter().map(|feedback| feedback.number).collect();
            let judged = due.into_iter().map(|WaitingFeedback { number, run, episode, record, at, key }| {
                let key = key.or_else(|| Some(format!("waited-{number}")));
                Judged { run, episode, record, at, key }
            });
            for judged in judged {
                // One damaged record holds up no other.
                match self.store.episodes.judge(vec![judged]).await {
                    Ok(admissions) => admissions.iter().for_each(|admission| {
                        if let Admission::Refused(why) = admission {
                            tracing::warn!("feedback was not added to its episode: {why}");
                        }
                    }),
                    Err(error @ (StoreError::Damaged { .. } | StoreError::Other(_))) => {
                        tracing::error!("feedback was not added to its episode: {error}");
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.store.feedback.drop_feedback(numbers).await?;
        }
    }

    async fn close(&mut self, labels: &[Label]) -> Result<(), GatewayError> {
        let mut by_run: BTreeMap<RunId, Vec<Recorded>> = BTreeMap::new();
        {
            let reader = self.store.reader()?;
            for label in labels {
                give_way();
                let documents = reader.exchanges(&label.run, &label.episode)?;
                let exchanges: Vec<Exchange> = documents.iter().filter_map(|document| parsed(document)).collect();
                let now = exchanges.last().map_or(label.opened_at, |last| last.at + last.answered_us / 1000);
                let Ok(mut episode) = assemble(&exchanges, self.episode_bytes, now) else { continue };
                episode.expects = self.expected(&episode);
                let spent = self.spent.entry(label.run.clone()).or_default();
                exchanges.iter().for_each(|exchange| *spent += exchange.answer.usage());
                let recorded =
                    Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false };
                by_run.entry(label.run.clone()).or_default().push(recorded);
            }
        }
        for (run, episodes) in by_run {
            let count = episodes.len() as u64;
            let made: HashSet<EpisodeId> = episodes.iter().map(|recorded| recorded.episode.id.clone()).collect();
            let spent = self.spent.get(&run).copied().unwrap_or_default();
            self.store.episodes.append(&run, episodes, spent).await?;
            self.recorder.counts.episodes.fetch_add(count, Ordering::Relaxed);
            let closed = labels.iter().filter(|label| label.run == run && made.contains(&label.episode));
            closed.for_each(|label| self.recorder.note_episode(label));
        }
        Ok(())
    }
}

/// Lets answers go first that wait for this processor. It costs a call of the system: a thread that is not interrupted runs for up to three milliseconds.
fn give_way() {
    std::thread::yield_now();
}

impl From<StoreError> for GatewayError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
