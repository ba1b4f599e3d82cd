//! Candidates of a router: what learning runs have learned about a router that is served.
//!
//! The first learning run of a new router is served at once, because it replaces nothing. A later one writes a *candidate*,
//! `NAME.RUN.candidate`: its state, and the last decision of the log at that time. The candidate learns nothing more. It is judged on the
//! decisions that are logged afterwards: those about live sessions, and those of later learning runs. So a later run does not replace
//! a candidate that waits. Its own result waits behind it, and takes the place of what waited there.

use super::files::{read_document, unusable};
use crate::{AppError, small_files};
use clawhost_core::Digest;
use clawhost_learn::Layer as _;
use clawhost_learn::router::{Logged, Router};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};

/// Format of the document.
const FORMAT: u32 = 1;
/// Extension of a candidate.
const ENDING: &str = ".candidate";

/// What a decision in a log is known by: its session, and the state that decided.
pub(super) type DecisionKey = (String, Digest);

/// A candidate of a router.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// The run that learned it.
    pub(super) run: String,
    /// When that run ended: Unix time in milliseconds.
    pub(super) learned_ms: u64,
    /// Decisions in the log at that time.
    pub(super) logged: u64,
    /// Its state.
    pub(super) router: Router,
    /// The last decision of the log at that time.
    last: Option<DecisionKey>,
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Document {
    format: u32,
    run: String,
    learned_ms: u64,
    logged: u64,
    last: Option<DecisionKey>,
    router: Box<RawValue>,
}

impl Candidate {
    /// The decisions of a log that were added after it was learned.
    pub(super) fn later<'l>(&self, log: &'l [Logged]) -> &'l [Logged] {
        let is_last = |logged: &Logged| {
            self.last.as_ref().is_some_and(|(session, state)| {
                logged.decision.session == *session && logged.decision.parameters == *state
            })
        };
        // A log that has dropped its oldest decisions may not have the last one any more: all others are later.
        let begin = log.iter().rposition(is_last).map_or(0, |last| last + 1);
        log.get(begin..).unwrap_or_default()
    }

    /// Removes its file. One that is gone is no error.
    pub(super) fn remove(&self) -> Result<(), AppError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unusable(&self.path, error)),
            _ => Ok(()),
        }
    }
}

/// The run of a candidate of a router, from the name of its file.
fn run_of<'p>(path: &'p Path, name: &str) -> Option<&'p str> {
    let rest = path.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('.')?;
    // Another router may be called `NAME.more`.
    rest.strip_suffix(ENDING).filter(|run| !run.is_empty() && !run.contains('.'))
}

/// All candidates of a router in a folder, the oldest first.
fn all(folder: &Path, name: &str) -> Result<Vec<Candidate>, AppError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for path in entries.filter(|path| run_of(path, name).is_some()) {
        // A file may have been removed since the folder was read.
        let document = small_files::read(&path, FORMAT, |document: &Document| document.format)?;
        let Some(Document { run, learned_ms, logged, last, router, .. }) = document else { continue };
        let router = read_document(&path, &router)?;
        found.push(Candidate { run, learned_ms, logged, router, last, path });
    }
    found.sort_by(|one, other| (one.learned_ms, &one.run).cmp(&(other.learned_ms, &other.run)));
    Ok(found)
}

/// Has the candidates of a router begin behind other decisions of the log: each pair has a decision that is removed from it, and the one before.
///
/// # Errors
/// A file cannot be read or written.
pub(super) fn move_back(
    folder: &Path,
    name: &str,
    moved: &[(DecisionKey, Option<DecisionKey>)],
) -> Result<(), AppError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries.filter(|path| run_of(path, name).is_some()) {
        let document = small_files::read(&path, FORMAT, |document: &Document| document.format)?;
        let (Some(document), Some(file)) = (document, path.file_name().and_then(|file| file.to_str())) else {
            continue;
        };
        let found = moved.iter().rev().find(|(gone, _)| document.last.as_ref() == Some(gone));
        if let Some((_, before)) = found {
            small_files::write(folder, file, &Document { last: before.clone(), ..document })?;
        }
    }
    Ok(())
}

/// The candidates of a router that wait, the first to be judged first: none, one, or one with the result of a later run behind it.
/// `settled`: the run whose result was settled last; its file may still be there.
///
/// # Errors
/// A file cannot be read.
pub(super) fn waiting(folder: &Path, name: &str, settled: Option<&str>) -> Result<Vec<Candidate>, AppError> {
    let mut all = all(folder, name)?;
    all.retain(|candidate| Some(candidate.run.as_str()) != settled);
    Ok(all)
}

/// What is written of a candidate.
pub(super) struct NewCandidate<'c> {
    pub(super) run: &'c str,
    pub(super) learned_ms: u64,
    /// Number of decisions in the log, and the last of them.
    pub(super) log: (u64, Option<DecisionKey>),
    pub(super) router: &'c Router,
}

/// Writes a candidate. It waits behind the first one, if there is one, and replaces what waited there. Returns whether it is the first.
///
/// # Errors
/// It cannot be written, or the others cannot be read.
pub(super) fn add(
    folder: &Path,
    name: &str,
    settled: Option<&str>,
    NewCandidate { run, learned_ms, log: (logged, last), router }: NewCandidate<'_>,
) -> Result<bool, AppError> {
    let others = waiting(folder, name, settled)?;
    if let Some(at) = others.iter().position(|known| known.run == run) {
        // A run that was killed after this, and resumed. What came to the log since then was not learned from, but may be taken
        // for it: the candidate stays as it is.
        return Ok(at == 0);
    }
    let state = String::from_utf8_lossy(&router.snapshot()?).into_owned();
    let file = format!("{name}.{run}{ENDING}");
    let router = RawValue::from_string(state).map_err(|error| unusable(&folder.join(&file), error))?;
    let document = Document { format: FORMAT, run: run.to_owned(), learned_ms, logged, last, router };
    small_files::write(folder, &file, &document)?;
    // After the new one: a process that is killed here leaves one more, and the next run removes it.
    others.iter().skip(1).try_for_each(Candidate::remove)?;
    Ok(others.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::router::{Simulation, WorldSettings, simulation};

    fn world() -> Simulation {
        simulation(&WorldSettings { decisions: 12, fresh: 1, ..WorldSettings::default() }, 1).unwrap()
    }

    fn key(logged: &Logged) -> DecisionKey {
        (logged.decision.session.clone(), logged.decision.parameters)
    }

    #[test]
    fn the_first_candidate_stays_and_the_latest_result_waits_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let Simulation { router, log, .. } = world();
        let add = |run: &str, at: u64| {
            let log = (3, Some(key(&log[2])));
            add(folder.path(), "r", None, NewCandidate { run, learned_ms: at, log, router: &router }).unwrap()
        };
        let runs = |settled: Option<&str>| -> Vec<String> {
            waiting(folder.path(), "r", settled).unwrap().into_iter().map(|candidate| candidate.run).collect()
        };
        assert_eq!((add("run-1", 10), add("run-2", 20), add("run-3", 30)), (true, false, false));
        assert_eq!(runs(None), ["run-1", "run-3"]);
        assert!(add("run-1", 40), "a run that was resumed finds its candidate");
        assert_eq!(waiting(folder.path(), "r", None).unwrap()[0].learned_ms, 10);
        // Killed after it was settled, and before its file was removed.
        assert_eq!(runs(Some("run-1")), ["run-3"]);
        let other = NewCandidate { run: "run-9", learned_ms: 5, log: (0, None), router: &router };
        assert!(super::add(folder.path(), "r.more", None, other).unwrap(), "a router of its own");
        assert_eq!((runs(None).len(), waiting(folder.path(), "r.more", None).unwrap().len()), (2, 1));
        let first = waiting(folder.path(), "r", None).unwrap().remove(0);
        first.remove().unwrap();
        first.remove().unwrap();
        assert_eq!(runs(None), ["run-3"]);
    }

    #[test]
    fn only_decisions_that_were_logged_after_it_are_later() {
        let folder = tempfile::tempdir().unwrap();
        let Simulation { router, log, .. } = world();
        let check = |last: Option<DecisionKey>, log: &[Logged], expect: usize| {
            let new = NewCandidate { run: "run-1", learned_ms: 1, log: (0, last), router: &router };
            add(folder.path(), "r", None, new).unwrap();
            let candidate = waiting(folder.path(), "r", None).unwrap().remove(0);
            assert_eq!(candidate.later(log).len(), expect);
            assert_eq!(candidate.later(log), &log[log.len() - expect..]);
            candidate.remove().unwrap();
        };
        check(Some(key(&log[7])), &log, 4);
        check(Some(key(&log[11])), &log, 0);
        check(Some(key(&log[7])), &log[8..], 4);
        check(None, &log, 12);
    }
}
