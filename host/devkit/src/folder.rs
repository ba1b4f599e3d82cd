//! Checks of the data folder: whether it can be written, the state of the database, and the size of compiled code.

use crate::doctor::Finding;
use clawhost_core::{EpisodeReader as _, Hint};
use clawhost_store::Reader;
use std::path::{Path, PathBuf};

const FOLDER: &str = "data folder";
const DATABASE: &str = "database";
const CACHE: &str = "compile cache";

pub(crate) fn examine(data: &Path) -> Vec<Finding> {
    let mut findings = vec![folder(data)];
    if data.is_dir() {
        findings.push(database(data));
        findings.push(cache(data));
    }
    findings
}

/// The folder itself, or the nearest existing folder above it.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|folder| folder.exists()).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn folder(data: &Path) -> Finding {
    let shown = data.display();
    if data.exists() && !data.is_dir() {
        let (says, remedy) = (format!("{shown} is a file, not a folder"), "move the file away");
        return Finding::broken(FOLDER, says, "nothing can be recorded", remedy).with_hints([Hint::OtherDataFolder]);
    }
    let place = existing(data);
    // A file without a name: the system removes it when it is closed.
    match tempfile::tempfile_in(&place).map(|_| ()) {
        Ok(()) if data.exists() => Finding::good(FOLDER, format!("{shown} can be written")),
        Ok(()) => Finding::good(FOLDER, format!("{shown} is made by the first run")),
        Err(error) => Finding::broken(
            FOLDER,
            format!("{} cannot be written: {error}", place.display()),
            "nothing can be recorded",
            "fix its permissions",
        )
        .with_hints([Hint::OtherDataFolder]),
    }
}

fn database(data: &Path) -> Finding {
    let path = data.join(clawhost_store::FILE);
    if !path.exists() {
        return Finding::good(DATABASE, "none yet: made by the first run");
    }
    let mib = std::fs::metadata(&path).map_or(0, |facts| facts.len()) >> 20;
    let checked = Reader::open(data).and_then(|reader| Ok((reader.check()?, reader.runs(None)?.len())));
    match checked {
        Ok((None, runs)) => Finding::good(DATABASE, format!("{runs} runs, {mib} MiB, no damage found")),
        Ok((Some(damage), _)) => Finding::broken(
            DATABASE,
            format!("damaged: {damage}"),
            "episodes may be lost",
            "copy the file away, then `sqlite3 FILE .recover`, or continue in another data folder",
        )
        .with_hints([Hint::OtherDataFolder]),
        Err(error) => {
            Finding::broken(DATABASE, error.to_string(), "nothing can be recorded", "fix what the message names")
                .with_hints(error.hints())
        }
    }
}

fn cache(data: &Path) -> Finding {
    let folder = data.join("cache");
    let files: Vec<u64> = std::fs::read_dir(&folder)
        .map(|entries| entries.flatten().flat_map(|entry| entry.metadata()).map(|facts| facts.len()).collect())
        .unwrap_or_default();
    let mib = files.iter().sum::<u64>() >> 20;
    Finding::good(
        CACHE,
        format!("{} compiled components, {mib} MiB; deleting {} loses nothing", files.len(), folder.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    fn states(data: &Path) -> Vec<(String, State)> {
        examine(data).into_iter().map(|finding| (finding.topic, finding.state)).collect()
    }

    #[test]
    fn a_folder_is_checked_without_creating_or_changing_it() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("not/yet");
        assert_eq!(states(&new), [(FOLDER.to_owned(), State::Good)]);
        assert!(!new.exists());

        let good = |topic: &str| (topic.to_owned(), State::Good);
        assert_eq!(states(folder.path()), [good(FOLDER), good(DATABASE), good(CACHE)]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the check leaves no files");

        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let broken = examine(&file).remove(0);
        assert_eq!((broken.topic.as_str(), broken.state), (FOLDER, State::Broken));
        assert_eq!(broken.hints, [Hint::OtherDataFolder]);
    }

    #[test]
    fn a_damaged_database_is_reported_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(clawhost_store::FILE), "no database".repeat(1000)).unwrap();
        let found = examine(folder.path()).into_iter().find(|finding| finding.topic == DATABASE).unwrap();
        assert_eq!(found.state, State::Broken);
        assert!(found.says.contains("not a usable database"), "{found:?}");
        assert_eq!(found.remedy.as_deref(), Some("fix what the message names"));
        assert_eq!(found.hints, [Hint::OtherDataFolder]);
    }
}
