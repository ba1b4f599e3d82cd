//! Lists of stored episodes, single episodes, and exports of whole runs.

use crate::runs::{RunChoice, choose_runs, run_id};
use crate::{AppError, RequestError};
use clawhost_capture::{Exchange, assemble};
use clawhost_core::{
    DamagedRecord, Ending, Episode, EpisodeFilter, EpisodeOrder, EpisodeProgress, EpisodeRow, EpisodeState,
    FailureFilter, Limits, OpenEpisode, RewardFilter, RunId, RunKind, StoreError, StoreReader,
};
use serde::Serialize;
use std::cmp::Reverse;

/// An episode in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedEpisode {
    /// Its row.
    #[serde(flatten)]
    pub row: EpisodeRow,
    /// Whether learners may use it now.
    pub state: EpisodeState,
    /// The session of a live episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether nothing is missing: the last answer of a live episode came whole, another episode could be completed.
    pub complete: bool,
}

/// A query for episodes. All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpisodeQuery {
    /// In these runs and their phases.
    pub runs: RunChoice,
    /// Failed episodes.
    pub failure: Option<FailureFilter>,
    /// By the current reward.
    pub reward: Option<RewardFilter>,
    /// With this task id; for live episodes, the session.
    pub task: Option<String>,
    /// Pending episodes.
    pub is_pending: bool,
}

impl EpisodeQuery {
    /// All episodes of some runs.
    pub fn of(runs: RunChoice) -> Self {
        Self { runs, ..Self::default() }
    }

    /// The selected runs with the store's filters at a time (milliseconds since 1970).
    fn selection(&self, reader: &dyn StoreReader, now: u64) -> Result<Selection, AppError> {
        let filter = EpisodeFilter {
            failure: self.failure.clone(),
            reward: self.reward,
            task: self.task.clone(),
            pending_at: self.is_pending.then_some(now),
            ..EpisodeFilter::default()
        };
        let runs = match &self.runs {
            RunChoice::All => return Ok(Selection { runs: None, filters: vec![filter], is_live: true }),
            // A phase is a part of a run, and has its own episodes.
            RunChoice::One(text) => vec![run_id(reader, text)?],
            several => choose_runs(reader, several)?.into_iter().map(|row| row.id).collect(),
        };
        let first = runs.first().map(|run| reader.run(run)).transpose()?.flatten();
        let is_live = first.is_some_and(|row| row.kind == RunKind::Live);
        let of = |run: &RunId| EpisodeFilter { run: Some(run.clone()), ..filter.clone() };
        Ok(Selection { filters: runs.iter().map(of).collect(), runs: Some(runs), is_live })
    }

    /// Whether an open episode matches: it has no failure and no reward, and waits for no verdict.
    fn takes(&self, open: &OpenEpisode) -> bool {
        let is_plain = self.failure.is_none() && self.reward.is_none() && !self.is_pending;
        is_plain && self.task.as_ref().is_none_or(|task| *task == open.session.session)
    }
}

/// The runs of a query.
struct Selection {
    /// The runs, newest first. `None`: all.
    runs: Option<Vec<RunId>>,
    /// One for each run, or one for all.
    filters: Vec<EpisodeFilter>,
    /// Whether live runs may be among them.
    is_live: bool,
}

/// Episodes in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeList {
    /// The runs of the episodes. `None`: all runs.
    pub runs: Option<Vec<RunId>>,
    /// Open episodes first, those with the latest exchange in front. Then newest run first, in order inside a run; live episodes are
    /// newest first, over all runs if the newest ones are live.
    pub episodes: Vec<ListedEpisode>,
    /// Number of matching episodes, those behind the limit included.
    pub matching: u64,
    /// Episodes that cannot be read.
    pub damaged: Vec<DamagedRecord>,
}

/// Recorded episodes with their state at a time (milliseconds since 1970), at most `limit`. The store selects them by
/// its columns.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn list_episodes(
    reader: &dyn StoreReader,
    query: &EpisodeQuery,
    limit: Option<u64>,
    now: u64,
) -> Result<EpisodeList, AppError> {
    let Selection { runs, filters, is_live } = query.selection(reader, now)?;
    let (mut rows, mut damaged, mut matching) = (Vec::new(), Vec::new(), 0);
    for filter in filters {
        let order = if is_live { EpisodeOrder::LiveNewestFirst } else { EpisodeOrder::OfRuns };
        let filter = EpisodeFilter { order, limit, ..filter };
        let listed = reader.list_episodes(&filter)?;
        rows.extend(listed.rows);
        damaged.extend(listed.damaged);
        matching += reader.count_episodes(&filter)?;
    }
    if runs.as_ref().is_some_and(|runs| runs.len() > 1) {
        rows.sort_by_key(|row| Reverse(row.created_at));
    }
    let is_selected = |open: &EpisodeProgress| {
        query.takes(&open.episode) && runs.as_ref().is_none_or(|runs| runs.contains(&open.episode.run))
    };
    let mut open: Vec<EpisodeProgress> = reader.open_episodes(None)?.into_iter().filter(is_selected).collect();
    open.sort_by_key(|open| Reverse(open.last_at));
    matching += open.len() as u64;
    let recorded = rows.into_iter().map(|row| recorded(row, now));
    let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let episodes = open.into_iter().map(in_progress).chain(recorded).take(most).collect();
    Ok(EpisodeList { runs, episodes, matching, damaged })
}

fn in_progress(open: EpisodeProgress) -> ListedEpisode {
    let EpisodeProgress { episode, turns, is_complete, .. } = open;
    let OpenEpisode { run, id, session, opened_at, .. } = episode;
    let name = session.session.clone();
    let row = EpisodeRow {
        run: run.0,
        id: id.0,
        environment: session.agent,
        task: session.session,
        ending: EpisodeState::Open.name().to_owned(),
        reward: None,
        turns,
        created_at: opened_at,
        live: true,
        pending_until: None,
        revision: 0,
    };
    ListedEpisode { row, state: EpisodeState::Open, session: Some(name), complete: is_complete }
}

fn recorded(row: EpisodeRow, now: u64) -> ListedEpisode {
    let complete = match row.live {
        true => row.ending == Ending::Terminated.label(),
        false => !row.ending.starts_with("failed"),
    };
    let session = row.live.then(|| row.task.clone());
    ListedEpisode { state: row.state(now), row, session, complete }
}

/// The run and id of an episode that is given as an id or as `RUN/ID`. `None`: no run has a recorded episode with this
/// id.
///
/// An id without a run must be unique: equal configurations give equal episode ids, and the newest of them changes with
/// every run. RUN is the id, the name or a beginning of the id of a run, or the id of a phase. An episode of a learning
/// run belongs to one of its phases.
pub(crate) fn locate(reader: &dyn StoreReader, name: &str) -> Result<Option<(RunId, String)>, AppError> {
    let (run, id) = match name.split_once('/') {
        Some((run, id)) => (Some(run_id(reader, run)?), id),
        None => (None, name),
    };
    let is_meant = |owner: &RunId| match &run {
        None => true,
        Some(run) => owner == run || owner.0.strip_prefix(&run.0).is_some_and(|rest| rest.starts_with('.')),
    };
    let mut found: Vec<RunId> = reader.runs_of_episode(id)?.into_iter().filter(is_meant).collect();
    if found.len() > 1 {
        return Err(RequestError::AmbiguousEpisode { name: id.to_owned(), runs: found }.into());
    }
    Ok(found.pop().map(|run| (run, id.to_owned())))
}

/// One episode with its verdicts, by its id or by `RUN/ID`.
///
/// # Errors
/// There is no such episode, several runs have this id, or it cannot be read.
pub fn find_episode(reader: &dyn StoreReader, name: &str) -> Result<Episode, AppError> {
    let missing = || RequestError::NoEpisode { name: name.to_owned() };
    match locate(reader, name) {
        Ok(Some((run, id))) => Ok(reader.episode(&format!("{run}/{id}"))?.ok_or_else(missing)?),
        Ok(None) => Ok(open_episode(reader, name)?.ok_or_else(missing)?),
        // The name of a session may look like `RUN/ID`.
        Err(error) => open_episode(reader, name)?.ok_or(error),
    }
}

/// A live episode in progress as it would be if its session ended now, by its id, by `RUN/ID` or by its session's name.
fn open_episode(reader: &dyn StoreReader, name: &str) -> Result<Option<Episode>, AppError> {
    let of_run = name.split_once('/').and_then(|(run, id)| Some((run_id(reader, run).ok()?, id)));
    let is_meant = |open: &OpenEpisode| {
        let is_named = of_run.as_ref().is_some_and(|(run, id)| open.run == *run && open.id.0 == *id);
        open.id.0 == name || open.session.session == name || is_named
    };
    let open = reader.open_episodes(None)?;
    let Some(found) = open.into_iter().map(|progress| progress.episode).find(|open| is_meant(open)) else {
        return Ok(None);
    };
    let damaged = |why: String| StoreError::Damaged {
        path: clawhost_store::FILE.to_owned(),
        what: format!("{}/{}", found.run, found.id),
        why,
    };
    let mut exchanges: Vec<Exchange> = Vec::new();
    for document in reader.exchanges(&found.run, &found.id)? {
        exchanges.push(serde_json::from_str(&document).map_err(|error| damaged(error.to_string()))?);
    }
    let limit = Limits::default().episode_bytes;
    let episode = assemble(&exchanges, limit, found.opened_at).map_err(|error| damaged(error.to_string()))?;
    Ok(Some(episode))
}

/// The result of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The runs of the episodes, newest first. `None`: all runs.
    pub runs: Option<Vec<RunId>>,
    /// Number of episodes.
    pub episodes: u64,
}

/// Passes all matching episodes to `take`, one after the other. Only one is in memory at a time. Pending episodes are
/// determined at a time (milliseconds since 1970).
///
/// # Errors
/// There is no such run, or `take` fails. A record that cannot be read is passed over; it is the error after all others were
/// passed on.
pub fn export_episodes<E: From<AppError>>(
    reader: &dyn StoreReader,
    query: &EpisodeQuery,
    now: u64,
    mut take: impl FnMut(&Episode) -> Result<(), E>,
) -> Result<Exported, E> {
    let Selection { runs, filters, .. } = query.selection(reader, now)?;
    let mut episodes = 0;
    let mut unreadable = None;
    let (mut rows, mut damaged) = (Vec::new(), Vec::new());
    for filter in &filters {
        let listed = reader.list_episodes(filter).map_err(AppError::from)?;
        rows.extend(listed.rows);
        damaged.extend(listed.damaged);
    }
    for row in rows {
        match reader.episode(&format!("{}/{}", row.run, row.id)) {
            Ok(Some(episode)) => {
                take(&episode)?;
                episodes += 1;
            }
            // It was removed meanwhile.
            Ok(None) => {}
            Err(
                error @ (StoreError::Damaged { .. } | StoreError::BlobMissing { .. } | StoreError::BlobDamaged { .. }),
            ) => {
                unreadable.get_or_insert(error);
            }
            Err(error) => return Err(AppError::from(error).into()),
        }
    }
    if !damaged.is_empty() && unreadable.is_none() {
        // The same question, asked strictly, names the first of them.
        for filter in &filters {
            reader.episodes(filter).map_err(AppError::from)?;
        }
    }
    match unreadable {
        Some(error) => Err(AppError::from(error).into()),
        None => Ok(Exported { runs, episodes }),
    }
}
