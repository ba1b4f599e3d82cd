//! A file with a line of JSON for every iteration, written during the run. A resumed run replaces its last iterations.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Largest journal that is continued: a line of an iteration has about a kilobyte, and a run at most 100,000.
const JOURNAL_BYTES: u64 = 1 << 30;

/// Lines of JSON, each with an iteration.
pub(super) struct Journal {
    path: PathBuf,
    /// `None`: nothing was written yet.
    file: Option<File>,
}

fn iteration(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?.get("iteration")?.as_u64()
}

impl Journal {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None }
    }

    /// Writes the lines of an iteration. Lines of an earlier process about this or later iterations are removed, and so
    /// is an incomplete line.
    pub(super) fn write(&mut self, number: u64, lines: &[Value]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let known = self.known()?;
                let kept = known.into_iter().filter(|(found, _)| *found < number).map(|(_, line)| line);
                self.replace(&kept.collect::<Vec<_>>())?;
                self.file.insert(File::options().append(true).open(&self.path)?)
            }
        };
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let written = file.write_all(text.as_bytes());
        if written.is_err() {
            // The write may have been incomplete: the next write begins by removing it.
            self.file = None;
        }
        written
    }

    /// Adds missing iterations of a run that was killed after it counted them and before it wrote them here.
    pub(super) fn complete(&mut self, all: impl Iterator<Item = (u64, Value)>) -> std::io::Result<()> {
        let mut known = self.known()?;
        let there: BTreeSet<u64> = known.iter().map(|(number, _)| *number).collect();
        let missing =
            all.filter(|(number, _)| !there.contains(number)).map(|(number, line)| (number, line.to_string()));
        let before = known.len();
        known.extend(missing);
        if known.len() == before {
            return Ok(());
        }
        known.sort_by_key(|(number, _)| *number);
        self.file = None;
        self.replace(&known.into_iter().map(|(_, line)| line).collect::<Vec<_>>())
    }

    /// Complete lines with their iterations.
    fn known(&self) -> std::io::Result<Vec<(u64, String)>> {
        let bytes = match clawhost_files::read(&self.path, JOURNAL_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // A line that was cut inside a character is dropped.
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().filter_map(|line| Some((iteration(line)?, line.to_owned()))).collect())
    }

    /// Replaces the file. If the process is killed meanwhile, the old file remains.
    fn replace(&self, lines: &[String]) -> std::io::Result<()> {
        let new = self.path.with_extension("new");
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&new, text)?;
        std::fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replayed_iterations_replace_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let line = |number: u64, run: &str| serde_json::json!({ "iteration": number, "run": run });
        let mut journal = Journal::new(&path);
        for number in 1..=3 {
            journal.write(number, &[line(number, "first"), line(number, "first")]).unwrap();
        }
        // Killed while writing, inside a character.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"iterat\xc3").unwrap();
        let mut journal = Journal::new(&path);
        journal.write(3, &[line(3, "second")]).unwrap();
        journal.write(4, &[]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let found: Vec<(u64, bool)> =
            text.lines().map(|line| (iteration(line).unwrap(), line.contains("second"))).collect();
        assert_eq!(found, [(1, false), (1, false), (2, false), (2, false), (3, true)]);
    }

    #[test]
    fn counted_iterations_without_lines_are_added_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let line = |number: u64, run: &str| serde_json::json!({ "iteration": number, "run": run });
        let mut journal = Journal::new(&path);
        journal.write(1, &[line(1, "first")]).unwrap();
        journal.write(3, &[line(3, "first")]).unwrap();
        journal.complete([1, 2, 3, 4].map(|number| (number, line(number, "later"))).into_iter()).unwrap();
        let found: Vec<(u64, bool)> = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| (iteration(line).unwrap(), line.contains("later")))
            .collect();
        assert_eq!(found, [(1, false), (2, true), (3, false), (4, true)]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "there are no other files");
    }

    #[cfg(unix)]
    #[test]
    fn an_unreadable_file_is_not_treated_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        // A link to itself: it cannot be read, but could be replaced.
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(Journal::new(&path).write(1, &[]).is_err() && path.is_symlink());
    }
}
