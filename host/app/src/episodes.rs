//! Lists of stored runs and episodes, single episodes, and all of them one after the other.

use crate::{AppError, RequestError};
use clawhost_core::{Episode, EpisodeFilter, EpisodeRow, RunId, RunRow, SpecDocument, StoreReader};
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

/// Runs, newest first; at most so many.
///
/// # Errors
/// The store cannot be read.
pub fn list_runs(reader: &dyn StoreReader, limit: Option<u64>) -> Result<Vec<ListedRun>, AppError> {
    Ok(reader.runs(limit)?.into_iter().map(ListedRun::from).collect())
}

/// Episodes of a run, or of all: newest run first, in order inside a run; at most so many.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn list_episodes(
    reader: &dyn StoreReader,
    run: Option<&str>,
    limit: Option<u64>,
) -> Result<Vec<EpisodeRow>, AppError> {
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
    for row in list_episodes(reader, run, None)? {
        // One that was removed meanwhile is left out.
        if let Some(episode) = reader.episode(&format!("{}/{}", row.run, row.id)).map_err(AppError::from)? {
            take(&episode)?;
            taken += 1;
        }
    }
    Ok(taken)
}
