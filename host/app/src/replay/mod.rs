//! Replay: plays stored episodes again with the stored plugins, and compares them with their records; the same for
//! their verdicts. Models are not called: their answers are in the record.

pub(crate) mod group;
pub(crate) mod plugins;
pub(crate) mod records;
mod report;

pub use report::{Finding, ReplayReport, Tally};

use crate::episodes::find_episode;
use crate::events::{Event, EventSink};
use crate::runs::{RunChoice, choose_runs, damaged_runs};
use crate::stored::StoredEpisodes;
use crate::{AppError, HostSettings, RequestError, Workspace};
use clawhost_core::{DamagedRecord, Discrepancy, EpisodeId, LedgerReport, RunId, standing};
use clawhost_play::{Cancel, EpisodeSource as _, PlayError};
use group::{Assembled, Replayed};
pub(crate) use plugins::KeptPlugins;
use records::RecordCheck;
use serde::Serialize;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Default number of groups that are replayed concurrently.
pub const REPLAY_CONCURRENCY: u16 = 16;

/// The episodes to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayOf {
    /// One, by its id or by `RUN/ID`. An id that several runs have is refused.
    Episode(String),
    /// All episodes of some runs.
    Runs(RunChoice),
}

/// The settings of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Which episodes.
    pub of: ReplayOf,
    /// Groups that are replayed concurrently; never changes a result.
    pub concurrency: u16,
}

impl ReplayRequest {
    /// These episodes with default settings.
    pub fn new(of: ReplayOf) -> Self {
        Self { of, concurrency: REPLAY_CONCURRENCY }
    }
}

/// A run that was replayed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayedRun {
    /// The run, or the phase that contains the one episode.
    pub run: RunId,
    /// The one episode, if only one was requested.
    #[serde(skip)]
    pub episode: Option<EpisodeId>,
    /// Its report.
    pub report: ReplayReport,
}

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayedRecords {
    /// The runs.
    pub runs: Vec<ReplayedRun>,
    /// The check of the ledger against all records, if all runs were replayed. Otherwise each run has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerReport>,
}

impl ReplayedRecords {
    /// Whether everything could be replayed and agrees.
    pub fn is_clean(&self) -> bool {
        self.runs.iter().all(|one| one.report.is_clean()) && self.ledger.as_ref().is_none_or(LedgerReport::is_clean)
    }
}

/// Replays stored episodes and their verdicts, run by run, the newest first. An unreadable record is a finding and does
/// not end the replay. If all runs are replayed, those without episodes are skipped.
///
/// # Errors
/// There is no such run or episode, or the store cannot be read. A cancelled replay reports nothing.
pub async fn replay(
    workspace: &Workspace,
    request: &ReplayRequest,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<ReplayedRecords, AppError> {
    let reader = workspace.reader()?;
    let ledger = match &request.of {
        ReplayOf::Runs(RunChoice::All) => Some(reader.check_ledger(None, workspace.ledger_key())?),
        _ => None,
    };
    // One episode is found by its name. Its group is read too, because a verdict may be about the group.
    let (runs, only) = match &request.of {
        ReplayOf::Episode(name) => {
            let episode = find_episode(&*reader, name)?;
            (vec![episode.run.clone()], Some(episode))
        }
        ReplayOf::Runs(choice) => match choose_runs(&*reader, choice) {
            Ok(rows) => (rows.into_iter().map(|row| row.id).collect(), None),
            // Where runs ought to be, that there is none is what the ledger says.
            Err(_) if is_unclean(ledger.as_ref()) => (Vec::new(), None),
            Err(error) => return Err(error),
        },
    };
    // Plugins of any kind may be stored here.
    let host = workspace.host_as(&HostSettings { allow_interpreters: true, ..workspace.settings().host.clone() })?;
    let mut plugins = KeptPlugins::new(&host, &*reader, events);
    let mut all = Vec::new();
    if let ReplayOf::Runs(choice) = &request.of {
        all.extend(damaged_runs(&*reader, choice)?.into_iter().map(unreadable));
    }
    for run in &runs {
        let stored = match &only {
            Some(episode) => StoredEpisodes::group_of(&*reader, episode)?,
            None => StoredEpisodes::of_run(&*reader, run)?,
        };
        if stored.remaining() == 0 && (runs.len() > 1 || is_unclean(ledger.as_ref())) {
            continue;
        }
        if stored.remaining() == 0 {
            return Err(RequestError::NoEpisodes { run: run.0.clone() }.into());
        }
        let replaying = Replaying { workspace, concurrency: request.concurrency, cancel, events };
        let only = only.as_ref().map(|episode| episode.id.clone());
        let mut records = RecordCheck::new(&*reader);
        let mut report = replaying.conduct(stored, only.as_ref(), (&mut plugins, &mut records)).await?;
        report.discrepancies = match only {
            Some(_) => records.found(),
            None => records.run(run, report.has_damage())?,
        };
        if only.is_none() {
            report.take_absent(reader.run(run)?.as_ref());
            if ledger.is_none() {
                report.ledger = Some(reader.check_ledger(Some(run), workspace.ledger_key())?);
            }
        }
        report.findings.sort_by(|one, other| one.episode.cmp(&other.episode));
        all.push(ReplayedRun { run: run.clone(), episode: only, report });
    }
    match runs.first() {
        Some(newest) if all.is_empty() && !is_unclean(ledger.as_ref()) => {
            Err(RequestError::NoEpisodes { run: newest.0.clone() }.into())
        }
        _ => Ok(ReplayedRecords { runs: all, ledger }),
    }
}

fn is_unclean(ledger: Option<&LedgerReport>) -> bool {
    ledger.is_some_and(|ledger| !ledger.is_clean())
}

/// A run that cannot be read.
fn unreadable(DamagedRecord { record, why }: DamagedRecord) -> ReplayedRun {
    let what = format!("its record is damaged: {why}; it");
    let damage = Discrepancy { record: record.clone(), what, recorded: None, expected: Some("readable".to_owned()) };
    let report = ReplayReport { discrepancies: vec![damage], ..ReplayReport::default() };
    ReplayedRun { run: RunId(record), episode: None, report }
}

/// The state of a replay.
struct Replaying<'a> {
    workspace: &'a Workspace,
    concurrency: u16,
    cancel: &'a Cancel,
    events: &'a dyn EventSink,
}

impl Replaying<'_> {
    /// Replays episodes, several groups concurrently. `only`: only this episode of the group.
    async fn conduct(
        &self,
        mut source: StoredEpisodes<'_>,
        only: Option<&EpisodeId>,
        (plugins, records): (&mut KeptPlugins<'_>, &mut RecordCheck<'_>),
    ) -> Result<ReplayReport, AppError> {
        let total = if only.is_some() { 1 } else { source.remaining() };
        let episode_bytes = plugins.host().limits().episode_bytes;
        let mut report = ReplayReport::default();
        let mut replaying: JoinSet<Vec<Replayed>> = JoinSet::new();
        let mut is_read = false;
        loop {
            while !is_read && replaying.len() < usize::from(self.concurrency).max(1) {
                match next_group(&mut source, plugins).await? {
                    Some(group) => {
                        for episode in group.group.iter().filter(|one| only.is_none_or(|id| one.id == *id)) {
                            records.episode(episode)?;
                        }
                        let (only, clock) = (only.cloned(), self.workspace.clock());
                        // The answers are those of the record.
                        replaying.spawn(async move { group.replay(episode_bytes, only, &[], clock).await });
                    }
                    None => is_read = true,
                }
            }
            let replayed = tokio::select! {
                biased;
                () = self.cancel.requested() => return Err(PlayError::Cancelled.into()),
                replayed = replaying.join_next() => replayed,
            };
            let Some(replayed) = replayed else { break };
            let replayed = replayed.map_err(|error| AppError::Host(error.to_string()))?;
            replayed.into_iter().for_each(|replayed| report.take(replayed));
            self.events.event(Event::Progress { done: report.episodes.all(), total });
        }
        source.take_damaged().into_iter().for_each(|record| report.take_damaged(record));
        Ok(report)
    }
}

/// The next group with its plugins.
async fn next_group(
    source: &mut StoredEpisodes<'_>,
    plugins: &mut KeptPlugins<'_>,
) -> Result<Option<Assembled>, AppError> {
    let Some(group) = source.next_group()? else { return Ok(None) };
    let mut assembled =
        Assembled { group: group.into_iter().map(Arc::new).collect(), environments: Vec::new(), verdicts: Vec::new() };
    for (of, episode) in assembled.group.iter().enumerate() {
        assembled.environments.push(plugins.environment(episode).await?);
        for (position, record) in episode.verdicts.iter().enumerate() {
            // Verdicts of people are not replayed, and neither are replaced verdicts.
            let stands = standing(&episode.verdicts).any(|one| std::ptr::eq(one, record));
            if !stands || record.is_feedback() {
                continue;
            }
            assembled.verdicts.push((of, position, plugins.reward(record).await?));
        }
    }
    Ok(Some(assembled))
}
