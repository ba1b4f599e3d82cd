//! Lists of stored episodes, single episodes, and all of some runs one after the other.

use crate::runs::{RunChoice, choose_runs, run_id};
use crate::{AppError, RequestError};
use clawhost_core::{
    Episode, EpisodeFilter, EpisodeRow, EpisodeState, FailureFilter, OpenEpisode, RewardFilter, RunId, StoreReader,
};
use serde::Serialize;

/// An episode in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedEpisode {
    /// What is stored about it.
    #[serde(flatten)]
    pub row: EpisodeRow,
    /// Whether learners may take it now.
    pub state: EpisodeState,
}

/// Which episodes, of which runs. Everything that is set must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EpisodeQuery {
    /// Of these runs and their phases.
    pub runs: RunChoice,
    /// Those that could not be completed.
    pub failure: Option<FailureFilter>,
    /// By the reward that they have now.
    pub reward: Option<RewardFilter>,
    /// Of the task of this id; of live episodes the session.
    pub task: Option<String>,
    /// Those that wait for a verdict.
    pub is_pending: bool,
}

impl EpisodeQuery {
    /// All episodes of some runs.
    pub fn of(runs: RunChoice) -> Self {
        Self { runs, ..Self::default() }
    }

    /// The run that is meant, if it is one; and what the store is asked at a time (milliseconds since 1970).
    fn filter(
        &self,
        reader: &dyn StoreReader,
        limit: Option<u64>,
        now: u64,
    ) -> Result<(Option<RunId>, EpisodeFilter), AppError> {
        let run = match &self.runs {
            RunChoice::All => None,
            // A phase is a part of a run, and has episodes of its own.
            RunChoice::One(text) => Some(run_id(reader, text)?),
            RunChoice::Newest => choose_runs(reader, &RunChoice::Newest)?.pop().map(|row| row.id),
        };
        let filter = EpisodeFilter {
            run: run.clone(),
            failure: self.failure.clone(),
            reward: self.reward,
            task: self.task.clone(),
            pending_at: self.is_pending.then_some(now),
            limit,
        };
        Ok((run, filter))
    }

    /// Whether an episode whose end is not recorded is among those that are meant: it has no failure, no reward and waits for no
    /// verdict.
    fn takes(&self, open: &OpenEpisode) -> bool {
        let is_plain = self.failure.is_none() && self.reward.is_none() && !self.is_pending;
        is_plain && self.task.as_ref().is_none_or(|task| *task == open.session.session)
    }
}

/// Episodes in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeList {
    /// The run that they are of; none: of all.
    pub run: Option<RunId>,
    /// Newest run first, in order inside a run. Those whose end is not recorded come first.
    pub episodes: Vec<ListedEpisode>,
}

/// Recorded episodes with their state at a time (milliseconds since 1970), at most so many. The store selects them by its
/// columns.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn list_episodes(
    reader: &dyn StoreReader,
    query: &EpisodeQuery,
    limit: Option<u64>,
    now: u64,
) -> Result<EpisodeList, AppError> {
    let (run, filter) = query.filter(reader, limit, now)?;
    let rows = reader.episodes(&filter)?;
    let open = reader.open_episodes(run.as_ref())?.into_iter().filter(|open| query.takes(open)).map(|open| {
        let OpenEpisode { run, id, session, opened_at, .. } = open;
        let row = EpisodeRow {
            run: run.0,
            id: id.0,
            environment: session.agent,
            task: session.session,
            ending: EpisodeState::Open.name().to_owned(),
            reward: None,
            turns: 0,
            created_at: opened_at,
            live: true,
            pending_until: None,
            revision: 0,
        };
        ListedEpisode { row, state: EpisodeState::Open }
    });
    let recorded = rows.into_iter().map(|row| ListedEpisode { state: row.state(now), row });
    let most = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(EpisodeList { run, episodes: open.chain(recorded).take(most).collect() })
}

/// Where an episode lies that is named by its id or by `RUN/ID`. None: no run has a recorded episode of this id.
///
/// An id without a run must be that of one episode: equal configurations name their episodes alike, and which of them is the
/// newest changes with every run. RUN is the id, the name or a beginning of the id of a run, or the id of a phase; an episode of
/// a learning run lies in one of its phases.
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
/// There is none, several runs have one of this id, or it cannot be read.
pub fn find_episode(reader: &dyn StoreReader, name: &str) -> Result<Episode, AppError> {
    let missing = || RequestError::NoEpisode { name: name.to_owned() };
    let (run, id) = locate(reader, name)?.ok_or_else(missing)?;
    Ok(reader.episode(&format!("{run}/{id}"))?.ok_or_else(missing)?)
}

/// What was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The run that the episodes are of; none: of all.
    pub run: Option<RunId>,
    /// How many.
    pub episodes: u64,
}

/// Hands over every episode that is meant, one after the other. Only one is held in memory. Which are pending is a matter of the
/// time (milliseconds since 1970).
///
/// # Errors
/// There is no such run, a record cannot be read, or `take` fails.
pub fn export_episodes<E: From<AppError>>(
    reader: &dyn StoreReader,
    query: &EpisodeQuery,
    now: u64,
    mut take: impl FnMut(&Episode) -> Result<(), E>,
) -> Result<Exported, E> {
    let (run, filter) = query.filter(reader, None, now)?;
    let mut episodes = 0;
    for row in reader.episodes(&filter).map_err(AppError::from)? {
        // One that was removed meanwhile is left out.
        if let Some(episode) = reader.episode(&format!("{}/{}", row.run, row.id)).map_err(AppError::from)? {
            take(&episode)?;
            episodes += 1;
        }
    }
    Ok(Exported { run, episodes })
}
