//! Selects runs.

use crate::{AppError, RequestError};
use clawhost_core::{
    DamagedRecord, RUN_ID_PREFIX, RunFilter, RunId, RunKind, RunName, RunRow, StoreError, StoreReader,
};

/// The word for the newest run, unless a run has it as its name.
pub(crate) const LAST: &str = "last";
/// Number of runs that an error lists.
const NAMED: u64 = 4;

/// Selects the runs of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunChoice {
    /// The newest. If it is live, all live runs of its day and those with open sessions: each key of a gateway has a run for each day.
    #[default]
    Newest,
    /// One run: by its id, its name, a unique beginning of its id, or `last` for the newest.
    One(String),
    /// These runs, by their ids.
    These(Vec<RunId>),
    /// All runs of the data folder.
    All,
}

/// The selected runs, newest first. There is at least one. A phase is not a run.
///
/// # Errors
/// The named run is unknown, the name is ambiguous, or there are no runs.
pub fn choose_runs(reader: &dyn StoreReader, choice: &RunChoice) -> Result<Vec<RunRow>, AppError> {
    let runs = match choice {
        RunChoice::One(text) => return Ok(vec![find_run(reader, text)?]),
        RunChoice::These(ids) => {
            return ids.iter().map(|id| find_run(reader, &id.0)).collect();
        }
        RunChoice::Newest => newest(reader)?,
        // A run that cannot be read hides no other: `damaged_runs` names it.
        RunChoice::All => reader.select_runs(&RunFilter::default())?.rows,
    };
    if runs.is_empty() { Err(RequestError::NoRuns.into()) } else { Ok(runs) }
}

/// Milliseconds of a day (UTC).
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The runs of [`RunChoice::Newest`], newest first. Empty: there is none.
fn newest(reader: &dyn StoreReader) -> Result<Vec<RunRow>, StoreError> {
    let newest = reader.runs(Some(1))?;
    let Some(live) = newest.first().filter(|row| row.kind == RunKind::Live) else { return Ok(newest) };
    let day = live.created_at - live.created_at % DAY_MS;
    let of_day = RunFilter { kinds: [RunKind::Live].into(), begun_from: Some(day), ..RunFilter::default() };
    let mut runs = reader.select_runs(&of_day)?.rows;
    for open in reader.open_episodes(None)? {
        let run = open.episode.run;
        if runs.iter().all(|row| row.id != run) {
            runs.extend(reader.run(&run)?);
        }
    }
    Ok(runs)
}

/// The runs of a choice that cannot be read: only a choice of all runs passes over them.
pub(crate) fn damaged_runs(reader: &dyn StoreReader, choice: &RunChoice) -> Result<Vec<DamagedRecord>, StoreError> {
    match choice {
        RunChoice::All => Ok(reader.select_runs(&RunFilter::default())?.damaged),
        RunChoice::One(_) | RunChoice::These(_) | RunChoice::Newest => Ok(Vec::new()),
    }
}

/// The run of a text: its id, its name, a unique beginning of its id, or `last` for the newest. A phase is not a run.
///
/// # Errors
/// There is none, or several ids begin with the text.
pub fn find_run(reader: &dyn StoreReader, text: &str) -> Result<RunRow, AppError> {
    let id = run_id(reader, text)?;
    let found = reader.run(&id)?.filter(|row| row.kind != RunKind::Phase);
    Ok(found.ok_or_else(|| RequestError::NoRun { name: text.to_owned() })?)
}

/// As [`find_run`]; a phase is also found, by its whole id.
pub(crate) fn run_id(reader: &dyn StoreReader, text: &str) -> Result<RunId, AppError> {
    let exact = RunId(text.to_owned());
    if reader.run(&exact)?.is_some() {
        return Ok(exact);
    }
    // No name begins like an id, so a text is never ambiguous between the two.
    if let Ok(name) = text.parse::<RunName>()
        && let Some(run) = reader.run_named(&name)?
    {
        return Ok(run);
    }
    if text == LAST
        && let Some(newest) = reader.runs(Some(1))?.pop()
    {
        return Ok(newest.id);
    }
    let missing = || RequestError::NoRun { name: text.to_owned() };
    if text.len() <= RUN_ID_PREFIX.len() || !text.starts_with(RUN_ID_PREFIX) {
        return Err(missing().into());
    }
    let mut found = reader.runs_beginning(text, NAMED)?;
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(missing().into()),
        (Some(one), true) => Ok(one),
        (Some(last), false) => {
            found.push(last);
            Err(RequestError::AmbiguousRun { name: text.to_owned(), runs: found }.into())
        }
    }
}
