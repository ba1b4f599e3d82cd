//! `clawhost playbook export|import`: JSON files, and skills as other agents read them.

use super::versions::{Added, add};
use super::{check_name, chosen, contents, document, pick, print_json};
use crate::args::Common;
use crate::data;
use crate::exit::{Exit, UsageError};
use clawhost_core::escaped;
use clawhost_learn::playbook::exchange::{SKILL_FILE, from_json, from_skills, to_json, to_skills};
use clawhost_store::Reader;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

/// Largest file that is imported: a playbook is text that people can read.
const IMPORT_BYTES: u64 = 4 << 20;
/// Most files of a folder of skills.
const IMPORT_FILES: usize = 10_000;

/// A file of this name is meant to be of that kind, however it is written.
fn is_kind(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(kind))
}

/// Refuses names by which something else was meant than a file or a folder of skills.
fn check_target(path: &Path) -> Result<(), UsageError> {
    let possible = "name a file ending in .json, or a folder for a SKILL.md of every lesson";
    let text = path.to_string_lossy();
    let said = || escaped(&text, 200);
    if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('-')) {
        return Err(UsageError(format!(
            "`{}`: nothing is written to standard output, and no name begins with `-`; {possible}",
            said()
        )));
    }
    let names_folder = path.is_dir() || text.ends_with(std::path::is_separator);
    if path.extension().is_some() && !is_kind(path, "json") && !names_folder {
        return Err(UsageError(format!(
            "`{}`: a playbook is not written in this format; {possible} (with a `/` behind it, if there is a dot in it)",
            said()
        )));
    }
    Ok(())
}

pub(super) fn export(
    common: &Common,
    folder: &Path,
    name: &str,
    path: &Path,
    number: Option<u64>,
) -> anyhow::Result<Exit> {
    check_target(path)?;
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, Some(name))?;
    let version = pick(&reader, &name, number)?;
    let playbook = document(&version)?;
    let unusable = |error: std::io::Error| UsageError(format!("{}: {error}", path.display()));
    if is_kind(path, "json") {
        if path.exists() {
            return Err(UsageError(format!("{} is there already; name a new file", path.display())).into());
        }
        std::fs::write(path, to_json(&playbook)?).map_err(unusable)?;
    } else {
        if path.exists() && std::fs::read_dir(path).map_err(unusable)?.next().is_some() {
            let path = path.display();
            return Err(UsageError(format!("{path} is not empty; name a new folder, or a file ending in .json")).into());
        }
        for (file, text) in to_skills(&playbook) {
            let file = path.join(file);
            if let Some(parent) = file.parent() {
                std::fs::create_dir_all(parent).map_err(unusable)?;
            }
            std::fs::write(&file, text).map_err(unusable)?;
        }
    }
    if common.json {
        let (entries, sections) = (playbook.entries.len(), playbook.sections.len());
        return print_json(&serde_json::json!({
            "name": name, "version": version.number, "entries": entries, "sections": sections, "path": path,
        }));
    }
    let said = contents(&playbook);
    writeln!(anstream::stdout(), "{name}, version {}: {said} in {}", version.number, path.display())?;
    Ok(Exit::Ok)
}

/// The files of a folder that a playbook is read from, by their path in it.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(here) = waiting.pop() {
        let unusable = |error: std::io::Error| UsageError(format!("{}: {error}", here.display()));
        for entry in std::fs::read_dir(&here).map_err(unusable)? {
            let entry = entry.map_err(unusable)?;
            let path = entry.path();
            // Links are not followed: a folder says what lies in it.
            let kind = entry.file_type().map_err(unusable)?;
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() && is_kind(&path, "md") {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                files.insert(name, text_of(&path)?);
            }
            if files.len() > IMPORT_FILES {
                return Err(UsageError(format!("{}: more than {IMPORT_FILES} files", folder.display())).into());
            }
        }
    }
    Ok(files)
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    use std::io::Read as _;
    let unusable = |error: std::io::Error| UsageError(format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(unusable)?.take(IMPORT_BYTES + 1).read_to_end(&mut bytes).map_err(unusable)?;
    if bytes.len() as u64 > IMPORT_BYTES {
        return Err(UsageError(format!("{}: larger than {} MiB", path.display(), IMPORT_BYTES >> 20)).into());
    }
    String::from_utf8(bytes).map_err(|_| UsageError(format!("{}: not a text file", path.display())).into())
}

pub(super) fn import(common: &Common, folder: &Path, name: &str, path: &Path) -> anyhow::Result<Exit> {
    check_name(name)?;
    let refused = |error: clawhost_learn::LearnError| UsageError(format!("{}: {error}", path.display()));
    let playbook = if path.is_dir() {
        from_skills(&files(path)?).map_err(refused)?
    } else if is_kind(path, "md") {
        // One skill, whatever its file is called.
        from_skills(&BTreeMap::from([(SKILL_FILE.to_owned(), text_of(path)?)])).map_err(refused)?
    } else {
        from_json(&text_of(path)?).map_err(refused)?
    };
    if playbook.entries.is_empty() && playbook.sections.is_empty() {
        return Err(UsageError(format!("{}: nothing to import is in it", path.display())).into());
    }
    data::prepare(folder)?;
    let said = contents(&playbook);
    let added = add(folder, name, &playbook, format!("imported, {said}"))?;
    if common.json {
        return print_json(&serde_json::json!({
            "name": name, "version": added.number(), "added": added.is_new(),
            "entries": playbook.entries.len(), "sections": playbook.sections.len(),
        }));
    }
    let mut out = anstream::stdout();
    match added {
        Added::New(number) => {
            writeln!(out, "{name}, version {number} is served from now on: {said}")?;
            let how = format!("see `clawhost eval PLUGIN.wasm --reward R.wasm --playbook {name}`");
            writeln!(out, "nothing is known yet about what they are worth: {how}")?;
        }
        Added::Served(number) => writeln!(out, "{name}: version {number} is what is served already: {said}")?,
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_playbook_is_exported_as_json_or_as_a_folder_and_as_nothing_else() {
        let check = |path: &str, expect: Option<&str>| match (check_target(Path::new(path)), expect) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => assert!(error.0.contains(part) && error.0.contains(".json"), "{path}: {error}"),
            (got, _) => panic!("{path}: {got:?}"),
        };
        check("p.json", None);
        check("p.JSON", None);
        check("skills", None);
        check("../a.b/skills/", None);
        check("skills.d/", None);
        check("-", Some("nothing is written to standard output"));
        check("folder/-x.json", Some("no name begins with `-`"));
        check("p.yaml", Some("not written in this format"));
        check("SKILL.md", Some("not written in this format"));
        check(&std::env::temp_dir().display().to_string(), None);
    }
}
