//! Which runs are meant.

use crate::{AppError, RequestError};
use clawhost_core::{RUN_ID_PREFIX, RunId, RunKind, RunName, RunRow, StoreReader};

/// Runs that an error names.
const NAMED: u64 = 4;

/// Which runs an operation is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunChoice {
    /// The newest.
    #[default]
    Newest,
    /// One: by its id, its name, or a beginning of its id that no other run has.
    One(String),
    /// All of the data folder.
    All,
}

/// The runs that are meant, newest first. There is at least one. A phase is no run of its own.
///
/// # Errors
/// The run that is named is not here, several are meant where one is named, or there is none at all.
pub fn choose_runs(reader: &dyn StoreReader, choice: &RunChoice) -> Result<Vec<RunRow>, AppError> {
    let limit = match choice {
        RunChoice::One(text) => return Ok(vec![find_run(reader, text)?]),
        RunChoice::Newest => Some(1),
        RunChoice::All => None,
    };
    let runs = reader.runs(limit)?;
    if runs.is_empty() { Err(RequestError::NoRuns.into()) } else { Ok(runs) }
}

/// The run that a text names: by its id, its name, or a beginning of its id that no other run has. A phase is no run of its own.
///
/// # Errors
/// There is none, or the text is the beginning of several ids.
pub fn find_run(reader: &dyn StoreReader, text: &str) -> Result<RunRow, AppError> {
    let id = run_id(reader, text)?;
    let found = reader.run(&id)?.filter(|row| row.kind != RunKind::Phase);
    Ok(found.ok_or_else(|| RequestError::NoRun { name: text.to_owned() })?)
}

/// As [`find_run`]; a phase is found by its whole id, too.
pub(crate) fn run_id(reader: &dyn StoreReader, text: &str) -> Result<RunId, AppError> {
    let exact = RunId(text.to_owned());
    if reader.run(&exact)?.is_some() {
        return Ok(exact);
    }
    // No name begins as ids do, so that one text never means two runs.
    if let Ok(name) = text.parse::<RunName>()
        && let Some(run) = reader.run_named(&name)?
    {
        return Ok(run);
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
