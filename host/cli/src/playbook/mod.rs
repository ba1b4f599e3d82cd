//! `clawhost playbook`: all there are, entries, versions, rollback, export and import; and playbooks that are served.

mod exchange;
mod list;
mod origin;
mod show;
mod versions;

use crate::args::{Common, Playbook as Command};
use crate::data;
use crate::exit::{Exit, UsageError};
use crate::setup::Setup;
use anyhow::Context as _;
use clawhost_core::{PlaybookLedger, PlaybookVersion, escaped};
use clawhost_learn::harness::PlaybookView;
use clawhost_learn::playbook::Playbook;
use clawhost_runtime::ChatPolicy;
use clawhost_runtime::learn::{UniformPlaybook, Ledger};
use clawhost_store::Reader;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

pub(crate) use origin::notes;

/// Longest name of a playbook: it is part of a file name.
const NAME_BYTES: usize = 128;

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

/// How much it says: `3 entries, 1 section`.
fn contents(playbook: &Playbook) -> String {
    let counted = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let entries = counted(playbook.entries.len(), "entry", "entries");
    match playbook.sections.len() {
        0 => entries,
        sections => format!("{entries}, {}", counted(sections, "section", "sections")),
    }
}

/// A version that is served, in words.
pub(crate) fn told(version: &PlaybookVersion) -> anyhow::Result<String> {
    Ok(format!("{}, version {}, {}", version.name, version.number, contents(&document(version)?)))
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
    setup.needs_system("a playbook")?;
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
    Ok(policy.guided(Arc::new(UniformPlaybook(PlaybookView::serving(document(version)?, &worth, token_budget)))))
}

pub(crate) fn main(common: &Common, command: &Command) -> anyhow::Result<Exit> {
    let folder = data::folder(common)?;
    match command {
        Command::List => list::list(common, &folder),
        Command::Show { name, version, full } => show::show(common, &folder, name.as_deref(), *version, *full),
        Command::Log { name } => versions::log(common, &folder, name.as_deref()),
        Command::Diff { name, from, to } => versions::diff(common, &folder, name.as_deref(), *from, *to),
        Command::Rollback { name, to } => versions::rollback(common, &folder, name, *to),
        Command::Export { name, path, version } => exchange::export(common, &folder, name, path, *version),
        Command::Import { name, path } => exchange::import(common, &folder, name, path),
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
