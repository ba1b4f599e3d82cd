//! Lists of stored runs and episodes, single episodes, and all of them one after the other.

use crate::{AppError, RequestError};
use clawhost_core::{
    Episode, EpisodeFilter, EpisodeRow, EpisodeState, OpenEpisode, RunId, RunRow, SpecDocument, StoreReader,
};
use clawhost_run_config::RunSpec;
use serde::Serialize;

/// Lines of a list, unless chosen otherwise.
pub const LIST_LIMIT: u64 = 20;

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRun {
    /// What is stored about it. Its specification is the published one: without paths.
    #[serde(flatten)]
    pub row: RunRow,
    /// The model that acted; none: its specification cannot be read here.
    pub model: Option<String>,
}

impl From<RunRow> for ListedRun {
    fn from(mut row: RunRow) -> Self {
        // A specification that this program cannot read is shown as it is stored.
        let Ok(spec) = RunSpec::from_document(row.config.0.clone()) else { return Self { row, model: None } };
        row.config = SpecDocument(spec.published());
        let model = spec.policy.identity.map_or(spec.policy.model, |identity| identity.model);
        Self { row, model: Some(model) }
    }
}

/// An episode in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedEpisode {
    /// What is stored about it.
    #[serde(flatten)]
    pub row: EpisodeRow,
    /// Whether learners may take it now.
    pub state: EpisodeState,
}

/// Runs, newest first; at most so many.
///
/// # Errors
/// The store cannot be read.
pub fn list_runs(reader: &dyn StoreReader, limit: Option<u64>) -> Result<Vec<ListedRun>, AppError> {
    Ok(reader.runs(limit)?.into_iter().map(ListedRun::from).collect())
}

/// Recorded episodes of a run, or of all, with their state at a time (milliseconds since 1970): newest run first, in order
/// inside a run; at most so many. Those whose end is not recorded come first.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn list_episodes(
    reader: &dyn StoreReader,
    run: Option<&str>,
    limit: Option<u64>,
    now: u64,
) -> Result<Vec<ListedEpisode>, AppError> {
    let rows = rows(reader, run, limit)?;
    let run = run.map(|run| RunId(run.to_owned()));
    let open = reader.open_episodes(run.as_ref())?.into_iter().map(|open| {
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
    Ok(open.chain(recorded).take(most).collect())
}

fn rows(reader: &dyn StoreReader, run: Option<&str>, limit: Option<u64>) -> Result<Vec<EpisodeRow>, AppError> {
    let run = run.map(|run| RunId(run.to_owned()));
    if let Some(run) = &run
        && reader.run(run)?.is_none()
    {
        return Err(RequestError::NoRun { name: run.0.clone() }.into());
    }
    Ok(reader.episodes(&EpisodeFilter { run, limit })?)
}

/// One episode with its verdicts, by its id or by `RUN/ID`.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn find_episode(reader: &dyn StoreReader, name: &str) -> Result<Episode, AppError> {
    Ok(reader.episode(name)?.ok_or_else(|| RequestError::NoEpisode { name: name.to_owned() })?)
}

/// Hands over every episode of a run, or of all, one after the other; gives their number. Only one is held in memory.
///
/// # Errors
/// There is no such run, a record cannot be read, or `take` fails.
pub fn export_episodes<E: From<AppError>>(
    reader: &dyn StoreReader,
    run: Option<&str>,
    mut take: impl FnMut(&Episode) -> Result<(), E>,
) -> Result<u64, E> {
    let mut taken = 0;
    for row in rows(reader, run, None)? {
        // One that was removed meanwhile is left out.
        if let Some(episode) = reader.episode(&format!("{}/{}", row.run, row.id)).map_err(AppError::from)? {
            take(&episode)?;
            taken += 1;
        }
    }
    Ok(taken)
}
