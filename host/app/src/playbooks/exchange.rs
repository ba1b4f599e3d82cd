//! Import and export of playbooks: JSON documents, and skills in the format of other agents.

use super::served::{check_name, contents, document, ledger, pick};
use super::versions::{PlaybookWriter, add};
use crate::{AppError, RequestError, Workspace};
use clawhost_core::{StoreReader, escaped};
use clawhost_files::Refused;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::playbook::exchange::{SKILL_FILE, Transferred, from_json, from_skills, to_json, to_skills};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Largest file for an import: a playbook is text for people.
const IMPORT_BYTES: u64 = 4 << 20;
/// Largest number of files in a folder of skills.
const IMPORT_FILES: usize = 10_000;
/// Longest part of a path that a message repeats, in bytes.
const SHOWN_BYTES: usize = 200;

/// Whether a file name has this extension, in any case.
fn is_kind(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(kind))
}

fn unusable(path: &Path, error: &std::io::Error) -> RequestError {
    RequestError::File { path: path.display().to_string(), why: error.to_string() }
}

/// Refuses target names that suggest a format other than JSON or a folder of skills.
fn check_target(path: &Path) -> Result<(), RequestError> {
    let text = path.to_string_lossy();
    let names_folder = path.is_dir() || text.ends_with(std::path::is_separator);
    if path.extension().is_some() && !is_kind(path, "json") && !names_folder {
        return Err(RequestError::Target(format!(
            "`{}`: a playbook is not written in this format; name a file ending in .json, or a folder for a SKILL.md of every lesson (followed by a `/`, if the name has a dot)",
            escaped(&text, SHOWN_BYTES)
        )));
    }
    Ok(())
}

/// The result of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The playbook.
    pub name: String,
    /// The version.
    pub version: u64,
    /// Number of entries.
    pub entries: usize,
    /// Number of sections.
    pub sections: usize,
    /// The file or the folder.
    pub path: PathBuf,
}

/// Exports a version, by default the newest: as JSON to a file ending in .json, otherwise as skills into a folder.
/// Nothing is overwritten.
///
/// # Errors
/// The version does not exist or cannot be read, or the target exists or cannot be written.
pub fn export(reader: &dyn StoreReader, name: &str, number: Option<u64>, path: &Path) -> Result<Exported, AppError> {
    check_target(path)?;
    let version = pick(reader, name, number)?;
    let playbook = document(&version)?;
    if is_kind(path, "json") {
        let lineage = ledger(reader, name)?.map(|ledger| ledger.lineage);
        write_json(path, &Transferred { playbook: playbook.clone(), lineage })?;
    } else {
        write_skills(path, &playbook)?;
    }
    Ok(Exported {
        name: name.to_owned(),
        version: version.number,
        entries: playbook.entries.len(),
        sections: playbook.sections.len(),
        path: path.to_owned(),
    })
}

fn write_json(path: &Path, transferred: &Transferred) -> Result<(), AppError> {
    if path.exists() {
        return Err(RequestError::Target(format!("{} exists already; name a new file", path.display())).into());
    }
    Ok(std::fs::write(path, to_json(transferred)?).map_err(|error| unusable(path, &error))?)
}

fn write_skills(folder: &Path, playbook: &Playbook) -> Result<(), RequestError> {
    let failed = |error: std::io::Error| unusable(folder, &error);
    if folder.exists() && std::fs::read_dir(folder).map_err(failed)?.next().is_some() {
        let folder = folder.display();
        return Err(RequestError::Target(format!(
            "{folder} is not empty; name a new folder, or a file ending in .json"
        )));
    }
    for (file, text) in to_skills(playbook) {
        let file = folder.join(file);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(&file, text).map_err(failed)?;
    }
    Ok(())
}

/// The paths of the files of a folder of skills, sorted.
fn skill_paths(folder: &Path) -> Result<Vec<PathBuf>, RequestError> {
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(here) = waiting.pop() {
        let failed = |error: std::io::Error| unusable(&here, &error);
        for entry in std::fs::read_dir(&here).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            // Links are not followed: only the folder's own files are read.
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() && is_kind(&path, "md") {
                files.push(path);
            }
            if files.len() > IMPORT_FILES {
                return Err(RequestError::Target(format!("{}: more than {IMPORT_FILES} files", folder.display())));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The files of a folder of skills, by their path in it.
fn skill_files(folder: &Path) -> Result<BTreeMap<String, String>, RequestError> {
    let named = |path: PathBuf| {
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        Ok((name, text_of(&path)?))
    };
    skill_paths(folder)?.into_iter().map(named).collect()
}

/// What tells whether the files of a folder of skills have changed: their paths, sizes and times of change.
pub(crate) type SkillStamp = Vec<(PathBuf, u64, Option<SystemTime>)>;

/// The files of a folder of skills as they are now; none if it cannot be read.
pub(crate) fn skill_stamp(folder: &Path) -> SkillStamp {
    let stamp = |path: PathBuf| {
        let file = std::fs::metadata(&path).ok();
        let changed = file.as_ref().and_then(|file| file.modified().ok());
        (path, file.map_or(0, |file| file.len()), changed)
    };
    skill_paths(folder).unwrap_or_default().into_iter().map(stamp).collect()
}

fn text_of(path: &Path) -> Result<String, RequestError> {
    let failed = |error: std::io::Error| unusable(path, &error);
    let refused = |why: String| RequestError::File { path: path.display().to_string(), why };
    let bytes = clawhost_files::read(path, IMPORT_BYTES).map_err(|error| match Refused::of(&error) {
        Some(Refused::TooLarge { .. }) => refused(format!("larger than {} MiB", IMPORT_BYTES >> 20)),
        _ => failed(error),
    })?;
    String::from_utf8(bytes).map_err(|_| refused("not a text file".to_owned()))
}

/// Reads a playbook from the bytes of a JSON file. `what` is for messages.
///
/// # Errors
/// They contain no playbook or an empty one.
pub fn playbook_of(what: &str, bytes: Vec<u8>) -> Result<Transferred, RequestError> {
    let refused = |why: String| RequestError::File { path: what.to_owned(), why };
    let text = String::from_utf8(bytes).map_err(|_| refused("not a text file".to_owned()))?;
    let transferred = from_json(&text).map_err(|error| refused(error.to_string()))?;
    not_empty(transferred, refused)
}

fn not_empty(transferred: Transferred, refused: impl Fn(String) -> RequestError) -> Result<Transferred, RequestError> {
    let Transferred { playbook, .. } = &transferred;
    match playbook.entries.is_empty() && playbook.sections.is_empty() {
        true => Err(refused("it contains nothing to import".to_owned())),
        false => Ok(transferred),
    }
}

/// Reads a playbook from a JSON file, a skill, or a folder of skills.
///
/// # Errors
/// The files cannot be read, or contain no playbook or an empty one.
pub fn read_playbook(path: &Path) -> Result<Transferred, RequestError> {
    let skills = |playbook| Transferred { playbook, lineage: None };
    let read = if path.is_dir() {
        from_skills(&skill_files(path)?).map(skills)
    } else if is_kind(path, "md") {
        // A single skill, whatever its file name is.
        from_skills(&BTreeMap::from([(SKILL_FILE.to_owned(), text_of(path)?)])).map(skills)
    } else {
        from_json(&text_of(path)?)
    };
    let refused = |why: String| RequestError::File { path: path.display().to_string(), why };
    not_empty(read.map_err(|error| refused(error.to_string()))?, refused)
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The playbook.
    pub name: String,
    /// The version that is served now.
    pub version: u64,
    /// Whether the version is new. If not, the newest version had the same content.
    pub added: bool,
    /// Number of entries.
    pub entries: usize,
    /// Number of sections.
    pub sections: usize,
    /// The version that was served before, with its number of entries, if the import replaced it.
    pub replaced: Option<(u64, usize)>,
}

/// Serves the content of files ([`read_playbook`]) as a new version. Evidence is not imported: runs measure it anew. What runs elsewhere
/// have used counts: the next run goes on behind it.
///
/// # Errors
/// The name is invalid, another process learns or edits the playbook, or the store cannot be written.
pub async fn import(workspace: &Workspace, name: &str, from: &Transferred) -> Result<Imported, AppError> {
    let Transferred { playbook, lineage } = from;
    check_name(name)?;
    let (entries, sections) = (playbook.entries.len(), playbook.sections.len());
    let _held = workspace.hold_playbook(name)?;
    let before = workspace.reader()?.newest_version(name)?;
    let before =
        before.map(|version| Ok::<_, AppError>((version.number, document(&version)?.entries.len()))).transpose()?;
    let why = format!("imported, {}", contents(entries, sections));
    let added = add(&PlaybookWriter::new(workspace), name, playbook, *lineage, why).await?;
    let replaced = before.filter(|_| added.is_new);
    Ok(Imported { name: name.to_owned(), version: added.version, added: added.is_new, entries, sections, replaced })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkspaceSettings;
    use crate::playbooks::{diff, list, rollback, show};
    use clawhost_learn::playbook::Lineage;
    use clawhost_learn::{Entry, Lesson};

    #[test]
    fn a_playbook_is_exported_only_as_json_or_as_a_folder() {
        let check = |path: &str, expect: Option<&str>| match (check_target(Path::new(path)), expect) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => {
                let error = error.to_string();
                assert!(error.contains(part) && error.contains(".json"), "{path}: {error}");
            }
            (got, _) => panic!("{path}: {got:?}"),
        };
        check("p.json", None);
        check("p.JSON", None);
        check("skills", None);
        check("../a.b/skills/", None);
        check("skills.d/", None);
        check("p.yaml", Some("not written in this format"));
        check("SKILL.md", Some("not written in this format"));
        check(&std::env::temp_dir().display().to_string(), None);
    }

    fn playbook(lessons: &[&str]) -> Transferred {
        let entries = lessons.iter().map(|text| Entry::new(Lesson::read(text), "import")).collect();
        Transferred { playbook: Playbook { entries, ..Playbook::default() }, lineage: None }
    }

    #[tokio::test]
    async fn what_runs_elsewhere_have_used_is_imported_and_exported() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(folder.path().join("data"))).unwrap();
        let lineage = |candidates, test| Lineage { order: 7, runs: 1, candidates, train: 5, gate: 6, test };
        let used = |candidates, test| Transferred { lineage: Some(lineage(candidates, test)), ..playbook(&["a"]) };
        let stored = || ledger(&*workspace.reader().unwrap(), "p").unwrap().map(|ledger| ledger.lineage);
        import(&workspace, "p", &playbook(&["a"])).await.unwrap();
        assert_eq!(stored(), None);
        assert!(!import(&workspace, "p", &used(3, 40)).await.unwrap().added, "the content is known");
        assert_eq!(stored(), Some(lineage(3, 40)));
        import(&workspace, "p", &used(2, 90)).await.unwrap();
        import(&workspace, "p", &playbook(&["b"])).await.unwrap();
        assert_eq!(stored(), Some(lineage(3, 90)), "nothing becomes unused");
        let path = folder.path().join("copy.json");
        export(&*workspace.reader().unwrap(), "p", None, &path).unwrap();
        assert_eq!(read_playbook(&path).unwrap().lineage, Some(lineage(3, 90)));
    }

    #[tokio::test]
    async fn an_imported_playbook_is_served_shown_compared_rolled_back_and_exported() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(folder.path().join("data"))).unwrap();
        let (one, two) = (playbook(&["a"]), playbook(&["a", "b"]));
        let served = |imported: Imported| (imported.version, imported.added);
        assert_eq!(served(import(&workspace, "p", &one).await.unwrap()), (1, true));
        assert_eq!(served(import(&workspace, "p", &one).await.unwrap()), (1, false));
        assert_eq!(served(import(&workspace, "p", &two).await.unwrap()), (2, true));
        assert!(import(&workspace, "a/b", &one).await.is_err());

        let reader = workspace.reader().unwrap();
        let changed = diff(&*reader, "p", None, None).unwrap();
        assert_eq!((changed.from, changed.to, changed.differences.len()), (1, 2, 1));
        assert!(serde_json::json!(changed)["differences"][0].as_str().unwrap().starts_with("+ "));
        assert_eq!(diff(&*reader, "p", Some(0), None).unwrap().differences.len(), 2);

        let shown = show(&*reader, "p").unwrap();
        assert_eq!(shown.why.as_deref(), Some("imported, 2 entries"));
        let document = reader.newest_version("p").unwrap().unwrap().document;
        assert_eq!(serde_json::json!(shown)["deployed"], document);
        let rows = list(&*reader).unwrap();
        assert_eq!((rows.len(), rows[0].version, rows[0].entries, &rows[0].learned), (1, Some(2), Some(2), &None));

        let back = rollback(&workspace, "p", None).await.unwrap();
        assert_eq!((back.version, back.added, back.says_what), (3, true, 1));
        let again = rollback(&workspace, "p", Some(1)).await.unwrap();
        assert_eq!((again.version, again.added, again.says_what), (3, false, 1));
        let none = rollback(&workspace, "p", Some(7)).await.unwrap_err().to_string();
        assert_eq!(none, "playbook p has no version 7; it has 3, 2, 1");

        for name in ["back.json", "skills"] {
            let path = folder.path().join(name);
            let exported = export(&*reader, "p", Some(2), &path).unwrap();
            assert_eq!((exported.version, exported.entries, exported.sections), (2, 2, 0));
            assert_eq!(read_playbook(&path).unwrap().playbook.digest(), two.playbook.digest());
            assert!(export(&*reader, "p", None, &path).is_err(), "nothing is overwritten");
        }
    }

    #[tokio::test]
    async fn a_playbook_that_a_run_learns_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(folder.path())).unwrap();
        let held = workspace.hold_playbook("p").unwrap();
        let refused = import(&workspace, "p", &playbook(&["a"])).await.unwrap_err();
        assert!(matches!(refused, AppError::Request(RequestError::PlaybookBusy { .. })), "{refused}");
        drop(held);
        assert_eq!(import(&workspace, "p", &playbook(&["a"])).await.unwrap().version, 1);
    }
}
