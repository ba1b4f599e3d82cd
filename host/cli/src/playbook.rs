//! `clawhost playbook`: entries, versions, rollback, export and import; and playbooks that are served.

use crate::args::{Common, Playbook as Command};
use crate::data::{self, SystemClock};
use crate::exit::{Exit, UsageError};
use crate::learn_summary;
use crate::setup::Setup;
use anyhow::Context as _;
use clawhost_core::{Clock as _, LearningStore as _, PlaybookLedger, PlaybookVersion, RunId, escaped};
use clawhost_learn::harness::Showing;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::playbook::exchange::{from_json, from_skills, to_json, to_skills};
use clawhost_runtime::ChatPolicy;
use clawhost_runtime::learn::{Everybody, Ledger};
use clawhost_store::{Reader, Store, StoreOptions};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Longest name of a playbook: it is part of a file name.
const NAME_BYTES: usize = 128;
/// Largest file that is imported: a playbook is text that people can read.
const IMPORT_BYTES: u64 = 4 << 20;
/// Most files of a folder of skills.
const IMPORT_FILES: usize = 10_000;

/// Refuses names that cannot stand in a file name.
pub(crate) fn check_name(name: &str) -> Result<(), UsageError> {
    let fits = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(fits) || name.starts_with('.') {
        return Err(UsageError(format!(
            "`{}` is no name for a playbook: letters, digits, `-`, `_` and `.`, at most {NAME_BYTES}",
            escaped(name, 80)
        )));
    }
    Ok(())
}

/// What a version says.
pub(crate) fn document(version: &PlaybookVersion) -> anyhow::Result<Playbook> {
    serde_json::from_value(version.document.clone())
        .with_context(|| format!("version {} of playbook {} cannot be read", version.number, version.name))
}

fn pick(reader: &Reader, name: &str, number: Option<u64>) -> anyhow::Result<PlaybookVersion> {
    let versions = reader.versions(name)?;
    let known = versions.iter().map(|version| version.number.to_string()).collect::<Vec<_>>().join(", ");
    let found = versions.into_iter().find(|version| number.is_none_or(|number| version.number == number));
    found.ok_or_else(|| {
        let why = match (number, known.is_empty()) {
            (_, true) => {
                format!("playbook {name} has no version yet: nothing has passed the gate, nothing was imported")
            }
            (Some(number), _) => format!("playbook {name} has no version {number}; it has {known}"),
            (None, _) => format!("playbook {name} has no version"),
        };
        UsageError(why).into()
    })
}

/// A version that is to be served.
pub(crate) async fn served(setup: &Setup<'_>, name: &str, number: Option<u64>) -> anyhow::Result<PlaybookVersion> {
    check_name(name)?;
    let version = pick(&Reader::open(&setup.folder)?, name, number)?;
    document(&version)?;
    Ok(version)
}

/// What is known that entries are worth.
pub(crate) fn worth(folder: &Path, name: &str) -> anyhow::Result<BTreeMap<clawhost_learn::EntryId, f64>> {
    let ledger = Reader::open(folder)?.ledger(name)?;
    let read = |ledger: PlaybookLedger| serde_json::from_value::<Ledger>(ledger.document);
    Ok(ledger
        .map(read)
        .transpose()
        .with_context(|| format!("the ledger of playbook {name}"))?
        .map(|ledger| ledger.worth)
        .unwrap_or_default())
}

/// The same policy with a playbook.
pub(crate) fn guided(
    setup: &Setup<'_>,
    policy: &ChatPolicy,
    version: &PlaybookVersion,
    token_budget: u64,
) -> anyhow::Result<ChatPolicy> {
    // The same choice among its entries as the gate had before it.
    let worth = worth(&setup.folder, &version.name)?;
    Ok(policy.guided(Arc::new(Everybody(Showing::serving(document(version)?, &worth, token_budget)))))
}

pub(crate) fn main(common: &Common, command: &Command) -> anyhow::Result<Exit> {
    let folder = data::folder(common)?;
    match command {
        Command::Show { name, version } => show(common, &folder, name.as_deref(), *version),
        Command::Log { name } => log(common, &folder, name.as_deref()),
        Command::Diff { name, from, to } => diff(common, &folder, name, *from, *to),
        Command::Rollback { name, to } => rollback(common, &folder, name, *to),
        Command::Export { name, path, version } => export(common, &folder, name, path, *version),
        Command::Import { name, path } => import(common, &folder, name, path),
    }
}

/// The playbook that is meant where none is named: the only one.
fn chosen(reader: &Reader, name: Option<&str>) -> anyhow::Result<String> {
    let known = reader.playbooks()?;
    match (name, known.as_slice()) {
        (Some(name), _) if known.iter().any(|one| one == name) => Ok(name.to_owned()),
        (Some(name), _) => {
            let nearest = crate::plugin::nearest(name, known.iter().map(String::as_str));
            let hint = nearest.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let all = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(UsageError(format!("there is no playbook `{}`; there is {all}{hint}", escaped(name, 80))).into())
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(UsageError(
            "there is no playbook yet; learn one with `clawhost run PLUGIN.wasm --learn harness`, or import one".into(),
        )
        .into()),
        (None, several) => Err(UsageError(format!("which playbook? There are {}", several.join(", "))).into()),
    }
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<Exit> {
    writeln!(anstream::stdout(), "{value:#}")?;
    Ok(Exit::Ok)
}

fn show(common: &Common, folder: &Path, name: Option<&str>, number: Option<u64>) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, name)?;
    let mut out = anstream::stdout();
    if let Some(number) = number {
        let version = pick(&reader, &name, Some(number))?;
        if common.json {
            return print_json(&version.document);
        }
        let playbook = document(&version)?;
        for (section, text) in &playbook.sections {
            writeln!(out, "[{section}]\n{}\n", escaped(text, usize::MAX))?;
        }
        playbook.entries.iter().try_for_each(|entry| writeln!(out, "{}", entry.lesson.prompt()))?;
        return Ok(Exit::Ok);
    }
    let newest = reader.versions(&name)?.into_iter().next();
    let ledger = reader.ledger(&name)?;
    let ledger: Option<Ledger> = ledger.map(|ledger| serde_json::from_value(ledger.document)).transpose()?;
    if common.json {
        return print_json(&serde_json::json!({
            "name": name, "version": newest.as_ref().map(|version| version.number),
            "digest": newest.as_ref().map(|version| version.digest),
            "deployed": newest.as_ref().map(|version| &version.document),
            "entries": ledger.as_ref().map(|ledger| &ledger.entries),
        }));
    }
    match &newest {
        Some(version) => writeln!(out, "{name}, version {}: {}", version.number, escaped(&version.why, 200))?,
        None => writeln!(out, "{name}: nothing is deployed yet")?,
    }
    let mut rows = ledger.map(|ledger| ledger.entries).unwrap_or_default();
    // What was imported or rolled back since is served without being in the last run's table.
    if let Some(version) = &newest {
        for entry in document(version)?.entries {
            if !rows.iter().any(|row| row.id == entry.id) {
                rows.push(clawhost_learn::harness::EntryRow::unmeasured(&entry));
            }
        }
    }
    let order = ["deployed", "admitted", "on trial", "queued", "harmful", "expired", "superseded", "removed"];
    rows.sort_by_key(|row| order.iter().position(|status| *status == row.status));
    crate::episodes::print(&mut out, &learn_summary::entries(&rows))?;
    Ok(Exit::Ok)
}

fn log(common: &Common, folder: &Path, name: Option<&str>) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, name)?;
    let versions = reader.versions(&name)?;
    if common.json {
        return print_json(&serde_json::json!(versions));
    }
    let mut table = crate::episodes::table(&["version", "digest", "entries", "when", "run", "why"]);
    for version in &versions {
        let entries = document(version).map_or("?".to_owned(), |playbook| playbook.entries.len().to_string());
        table.add_row([
            version.number.to_string(),
            version.digest.short(),
            entries,
            data::time(version.created_at),
            version.run.as_ref().map_or_else(String::new, |run| run.0.clone()),
            escaped(&version.why, 120),
        ]);
    }
    crate::episodes::print(&mut anstream::stdout(), &table)?;
    Ok(Exit::Ok)
}

fn diff(common: &Common, folder: &Path, name: &str, from: Option<u64>, to: Option<u64>) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, Some(name))?;
    let later = pick(&reader, &name, to)?;
    let before = from.or_else(|| later.number.checked_sub(1).filter(|number| *number > 0));
    let earlier = match before {
        Some(number) => document(&pick(&reader, &name, Some(number))?)?,
        None => Playbook::default(),
    };
    let differences = earlier.diff(&document(&later)?);
    if common.json {
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        return print_json(&serde_json::json!({
            "name": name, "from": before.unwrap_or(0), "to": later.number, "differences": told,
        }));
    }
    let mut out = anstream::stdout();
    writeln!(out, "{name}: version {} to {}", before.unwrap_or(0), later.number)?;
    if differences.is_empty() {
        writeln!(out, "they say the same")?;
    }
    differences.iter().try_for_each(|difference| writeln!(out, "{difference}"))?;
    Ok(Exit::Ok)
}

/// Adds a version, while nobody learns the playbook.
fn add(folder: &Path, name: &str, playbook: &Playbook, why: String) -> anyhow::Result<u64> {
    let busy =
        || UsageError(format!("playbook {name} is being learned by another process; wait for it, or stop it first"));
    let _claim = data::Claim::new(folder, &RunId(format!("playbook-{name}")))?.ok_or_else(busy)?;
    let store = Store::open(folder, StoreOptions::default())?;
    let version = PlaybookVersion {
        name: name.to_owned(),
        number: 0,
        digest: playbook.digest(),
        document: serde_json::json!(playbook),
        why,
        run: None,
        created_at: SystemClock::new().now_ms(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(store.add_version(version, None))?;
    drop(store);
    let newest = Reader::open(folder)?.versions(name)?.into_iter().next();
    Ok(newest.map_or(0, |version| version.number))
}

fn rollback(common: &Common, folder: &Path, name: &str, to: Option<u64>) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, Some(name))?;
    let newest = pick(&reader, &name, None)?;
    let target = match to.or_else(|| newest.number.checked_sub(1)) {
        None | Some(0) => {
            return Err(UsageError(format!("playbook {name} has no version before {}", newest.number)).into());
        }
        Some(number) => pick(&reader, &name, Some(number))?,
    };
    let number = add(folder, &name, &document(&target)?, format!("rolled back to version {}", target.number))?;
    if common.json {
        return print_json(&serde_json::json!({ "name": name, "version": number, "says_what": target.number }));
    }
    writeln!(anstream::stdout(), "{name}: version {number} says what version {} said", target.number)?;
    Ok(Exit::Ok)
}

fn export(common: &Common, folder: &Path, name: &str, path: &Path, number: Option<u64>) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, Some(name))?;
    let version = pick(&reader, &name, number)?;
    let playbook = document(&version)?;
    let unusable = |error: std::io::Error| UsageError(format!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "json") {
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
    let entries = playbook.entries.len();
    if common.json {
        let told = serde_json::json!({ "name": name, "version": version.number, "entries": entries, "path": path });
        return print_json(&told);
    }
    writeln!(anstream::stdout(), "{name}, version {}: {entries} entries in {}", version.number, path.display())?;
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
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
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

fn import(common: &Common, folder: &Path, name: &str, path: &Path) -> anyhow::Result<Exit> {
    check_name(name)?;
    let refused = |error: clawhost_learn::LearnError| UsageError(format!("{}: {error}", path.display()));
    let playbook = if path.is_dir() {
        from_skills(&files(path)?).map_err(refused)?
    } else {
        from_json(&text_of(path)?).map_err(refused)?
    };
    if playbook.entries.is_empty() && playbook.sections.is_empty() {
        return Err(UsageError(format!("{}: nothing to import is in it", path.display())).into());
    }
    data::prepare(folder)?;
    let number = add(folder, name, &playbook, format!("imported, {} entries", playbook.entries.len()))?;
    if common.json {
        let told = serde_json::json!({ "name": name, "version": number, "entries": playbook.entries.len() });
        return print_json(&told);
    }
    let mut out = anstream::stdout();
    writeln!(out, "{name}, version {number}: {} entries are served from now on", playbook.entries.len())?;
    writeln!(out, "nothing is known yet about what they are worth: see `clawhost eval PLUGIN.wasm --playbook {name}`")?;
    Ok(Exit::Ok)
}
