//! What a run writes down on its way, a line of JSON for every iteration: a table that grows. A run that is taken up again writes
//! its last iterations anew.

use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Lines of JSON, each of an iteration.
pub(super) struct Journal {
    path: PathBuf,
    /// None: nothing was written yet.
    file: Option<File>,
}

fn iteration(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?.get("iteration")?.as_u64()
}

impl Journal {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None }
    }

    /// Writes lines of an iteration. What an earlier process wrote of it, and of those behind it, is gone after that; so is a line
    /// that it did not finish.
    pub(super) fn write(&mut self, number: u64, lines: &[Value]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let known = std::fs::read_to_string(&self.path).unwrap_or_default();
                let kept = known.lines().filter(|line| iteration(line).is_some_and(|found| found < number));
                let text: String = kept.map(|line| format!("{line}\n")).collect();
                std::fs::write(&self.path, text)?;
                self.file.insert(File::options().append(true).open(&self.path)?)
            }
        };
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        file.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_that_are_played_again_stand_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let line = |number: u64, run: &str| serde_json::json!({ "iteration": number, "run": run });
        let mut journal = Journal::new(&path);
        for number in 1..=3 {
            journal.write(number, &[line(number, "first"), line(number, "first")]).unwrap();
        }
        // Killed while it wrote.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"iterat").unwrap();
        let mut journal = Journal::new(&path);
        journal.write(3, &[line(3, "second")]).unwrap();
        journal.write(4, &[]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let found: Vec<(u64, bool)> =
            text.lines().map(|line| (iteration(line).unwrap(), line.contains("second"))).collect();
        assert_eq!(found, [(1, false), (1, false), (2, false), (2, false), (3, true)]);
    }
}
