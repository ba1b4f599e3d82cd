//! Forgets decisions about sessions in the logs of all routers of a data folder. What routers learned from them are sums over many sessions,
//! which stay.

use super::candidate::{self, DecisionKey};
use super::files::routers_folder;
use super::log::{LOG, lines_of, replace};
use crate::AppError;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is done with decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogChange {
    /// They are counted.
    Rehearse,
    /// They are removed.
    Remove,
}

/// A line of a log, as far as it is looked at.
#[derive(Deserialize)]
struct Line {
    decision: Named,
}

#[derive(Deserialize)]
struct Named {
    session: String,
    parameters: clawhost_core::Digest,
}

/// The logs of a folder, with the names of their routers.
fn logs(folder: &Path) -> Vec<(String, PathBuf)> {
    // A folder that is not there has no routers.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |path: PathBuf| Some((path.file_stem()?.to_str()?.to_owned(), path));
    entries.filter(|path| path.extension().is_some_and(|ending| ending == LOG)).filter_map(named).collect()
}

/// Counts or removes the decisions about these sessions (`RUN/EPISODE`). The caller holds the exclusive lease of the folder where it removes.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn change_logs(data: &Path, sessions: &BTreeSet<String>, change: LogChange) -> Result<u64, AppError> {
    let folder = routers_folder(data);
    let mut count = 0;
    for (name, path) in logs(&folder) {
        let text = lines_of(&path)?;
        let (mut kept, mut gone) = (Vec::with_capacity(text.len()), 0);
        // The last kept decision before each that goes: candidates are judged on what came after one of them.
        let (mut last, mut moved): (Option<DecisionKey>, Vec<(DecisionKey, Option<DecisionKey>)>) = (None, Vec::new());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            // What is no decision stays: reading the log names it.
            let key =
                serde_json::from_slice::<Line>(line).ok().map(|line| (line.decision.session, line.decision.parameters));
            match key {
                Some(key) if sessions.contains(&key.0) => {
                    gone += 1;
                    moved.push((key, last.clone()));
                }
                key => {
                    kept.extend_from_slice(line);
                    last = key.or(last);
                }
            }
        }
        count += gone;
        if change == LogChange::Remove && gone > 0 {
            candidate::move_back(&folder, &name, &moved)?;
            replace(&folder, &path, &kept)?;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routers::candidate::{NewCandidate, add, waiting};
    use crate::routers::log::{decided, write_log};
    use crate::routers::read_decisions;
    use clawhost_learn::router::{Simulation, WorldSettings, simulation};

    #[test]
    fn decisions_about_forgotten_sessions_go_and_candidates_are_judged_on_what_came_after_them() {
        let data = tempfile::tempdir().unwrap();
        let folder = routers_folder(data.path());
        std::fs::create_dir_all(&folder).unwrap();
        let settings = WorldSettings { decisions: 12, fresh: 1, ..WorldSettings::default() };
        let Simulation { router, log, .. } = simulation(&settings, 1).unwrap();
        let path = folder.join("r.jsonl");
        write_log(&folder, &path, &log).unwrap();
        let new = NewCandidate { run: "run-1", learned_ms: 1, log: (7, Some(decided(&log[6]))), router: &router };
        add(&folder, "r", None, new).unwrap();
        let gone: BTreeSet<String> = [5, 6, 9].map(|at| log[at].decision.session.clone()).into();
        let change = |what| change_logs(data.path(), &gone, what).unwrap();
        assert_eq!((change(LogChange::Rehearse), read_decisions(&path).unwrap().len()), (3, 12));
        assert_eq!(change(LogChange::Remove), 3);
        let left = read_decisions(&path).unwrap();
        let expected: Vec<_> =
            log.iter().enumerate().filter(|(at, _)| ![5, 6, 9].contains(at)).map(|(_, one)| one.clone()).collect();
        assert_eq!(left, expected);
        let candidate = waiting(&folder, "r", None).unwrap().remove(0);
        assert_eq!(candidate.later(&left), &left[5..], "as before: the decisions 7 to 11 without 9");
        assert_eq!(candidate.router.identity(), router.identity());
        assert_eq!(change(LogChange::Remove), 0);
    }
}
