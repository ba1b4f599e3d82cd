//! The sessions of a step, in `steps/N.json`: which versions learned from what is forgotten.

use crate::{AppError, small_files};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const FORMAT: u32 = 3;

/// Sessions as `RUN/EPISODE`, each with the names of its scopes.
pub(super) type Taught = BTreeMap<String, BTreeSet<String>>;

/// The sessions of a step.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepSessions {
    format: u32,
    /// Those that are not forgotten.
    #[serde(default)]
    taught: Taught,
    /// The number of those that are.
    #[serde(default)]
    forgotten: usize,
    /// Sessions of a file that has the names of their scopes together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sessions: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    traces: BTreeSet<String>,
}

impl StepSessions {
    pub(super) fn new(taught: Taught) -> Self {
        Self { format: FORMAT, taught, ..Self::default() }
    }

    /// The sessions of a file. `None`: there are none, or they cannot be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        small_files::read(path, FORMAT, |step: &Self| step.format).ok().flatten()
    }

    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, folder: &Path, name: &str) -> Result<(), AppError> {
        small_files::write(folder, name, self)
    }

    /// Whether one of these names is that of a session or of one of its scopes.
    pub(super) fn has_any(&self, names: &BTreeSet<String>) -> bool {
        let is_named = |name: &String| names.contains(name);
        self.taught.iter().any(|(session, scopes)| is_named(session) || scopes.iter().any(is_named))
            || self.sessions.iter().chain(&self.traces).any(is_named)
    }

    /// Removes the named sessions, and the sessions of the named scopes, with the digests of all their scopes. A digest that stays would let a guessed name be
    /// checked. Their number stays.
    pub(super) fn forget(&mut self, names: &BTreeSet<String>) {
        let before = self.taught.len() + self.sessions.len();
        let is_named = |name: &String| names.contains(name);
        self.taught.retain(|session, scopes| !is_named(session) && !scopes.iter().any(is_named));
        self.sessions.retain(|session| !is_named(session));
        self.traces.retain(|trace| !is_named(trace));
        self.forgotten += before - self.taught.len() - self.sessions.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn forgotten_sessions_leave_their_number_and_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let taught = [("r/1", &["ada", "shop"][..]), ("r/2", &["ben", "shop"]), ("r/3", &["cy"])];
        let taught: Taught = taught.into_iter().map(|(session, scopes)| (session.to_owned(), names(scopes))).collect();
        let check = |forgotten: &[&str], expect: (bool, &[&str], usize)| {
            let mut step = StepSessions::new(taught.clone());
            let has = step.has_any(&names(forgotten));
            step.forget(&names(forgotten));
            step.write(folder.path(), "1.json").unwrap();
            let step = StepSessions::read(&folder.path().join("1.json")).unwrap();
            let left: Vec<&str> = step.taught.keys().map(String::as_str).collect();
            assert_eq!((has, left.as_slice(), step.forgotten), expect, "{forgotten:?}");
            let text = std::fs::read_to_string(folder.path().join("1.json")).unwrap();
            assert!(forgotten.iter().all(|name| !text.contains(&format!("\"{name}\""))), "{text}");
        };
        check(&["r/1"], (true, &["r/2", "r/3"], 1));
        check(&["ada"], (true, &["r/2", "r/3"], 1));
        check(&["shop"], (true, &["r/3"], 2));
        check(&["dan", "r/9"], (false, &["r/1", "r/2", "r/3"], 0));
    }

    #[test]
    fn a_file_with_the_names_of_all_scopes_together_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.json");
        std::fs::write(&path, r#"{"format": 3, "sessions": ["r/1", "r/2"], "traces": ["ada", "shop"]}"#).unwrap();
        let mut step = StepSessions::read(&path).unwrap();
        assert!(step.has_any(&names(&["r/2"])) && step.has_any(&names(&["ada"])) && !step.has_any(&names(&["ben"])));
        step.forget(&names(&["r/2", "ada"]));
        assert_eq!((step.sessions, step.traces, step.forgotten), (vec!["r/1".to_owned()], names(&["shop"]), 1));
    }
}
