//! `clawhost playbook log|diff|rollback`: versions, which are added and never taken away.

use super::{chosen, document, pick, print_json};
use crate::args::Common;
use crate::data::{self, SystemClock};
use crate::exit::{Exit, UsageError};
use clawhost_core::{Clock as _, LearningStore as _, PlaybookVersion, RunId, escaped};
use clawhost_learn::playbook::Playbook;
use clawhost_store::{Reader, Store, StoreOptions};
use std::io::Write as _;
use std::path::Path;

pub(super) fn log(common: &Common, folder: &Path, name: Option<&str>) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, name)?;
    let versions = reader.versions(&name)?;
    if common.json {
        return print_json(&serde_json::json!(versions));
    }
    let mut out = anstream::stdout();
    writeln!(out, "{name}")?;
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
    crate::episodes::print(&mut out, &table)?;
    Ok(Exit::Ok)
}

/// What a version says; before the first, as version 0, a playbook says nothing.
fn said(reader: &Reader, name: &str, number: u64) -> anyhow::Result<Playbook> {
    if number == 0 { Ok(Playbook::default()) } else { document(&pick(reader, name, Some(number))?) }
}

pub(super) fn diff(
    common: &Common,
    folder: &Path,
    name: Option<&str>,
    from: Option<u64>,
    to: Option<u64>,
) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    // `diff 0 1` names two versions and no playbook.
    let number = name.and_then(|name| name.parse().ok());
    let (name, from, to) = match (name, number) {
        (Some(name), Some(number)) if to.is_none() && !reader.playbooks()?.iter().any(|known| known == name) => {
            (None, Some(number), from)
        }
        _ => (name, from, to),
    };
    let name = chosen(&reader, name)?;
    let to = match to {
        Some(number) => number,
        None => pick(&reader, &name, None)?.number,
    };
    let from = from.unwrap_or(to.saturating_sub(1));
    let differences = said(&reader, &name, from)?.diff(&said(&reader, &name, to)?);
    if common.json {
        let told: Vec<String> = differences.iter().map(ToString::to_string).collect();
        return print_json(&serde_json::json!({ "name": name, "from": from, "to": to, "differences": told }));
    }
    let mut out = anstream::stdout();
    writeln!(out, "{name}: version {from} to {to}")?;
    if differences.is_empty() {
        writeln!(out, "they say the same")?;
    }
    differences.iter().try_for_each(|difference| writeln!(out, "{difference}"))?;
    Ok(Exit::Ok)
}

/// What became of a version that was to be added.
#[derive(Clone, Copy)]
pub(super) enum Added {
    /// It is served now, under this number.
    New(u64),
    /// The newest says the same already: none was added.
    Served(u64),
}

impl Added {
    /// The version that is served.
    pub(super) fn number(self) -> u64 {
        let (Self::New(number) | Self::Served(number)) = self;
        number
    }

    pub(super) fn is_new(self) -> bool {
        matches!(self, Self::New(_))
    }
}

/// Adds a version, while nobody learns the playbook.
pub(super) fn add(folder: &Path, name: &str, playbook: &Playbook, why: String) -> anyhow::Result<Added> {
    let busy =
        || UsageError(format!("playbook {name} is being learned by another process; wait for it, or stop it first"));
    let _claim = data::Claim::new(folder, &RunId(format!("playbook-{name}")))?.ok_or_else(busy)?;
    let store = Store::open(folder, StoreOptions::default())?;
    let newest =
        || -> anyhow::Result<Option<PlaybookVersion>> { Ok(Reader::open(folder)?.versions(name)?.into_iter().next()) };
    let digest = playbook.digest();
    if let Some(served) = newest()?.filter(|newest| newest.digest == digest) {
        return Ok(Added::Served(served.number));
    }
    let version = PlaybookVersion {
        name: name.to_owned(),
        number: 0,
        digest,
        document: serde_json::json!(playbook),
        why,
        run: None,
        created_at: SystemClock::new().now_ms(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(store.add_version(version, None))?;
    drop(store);
    Ok(Added::New(newest()?.map_or(0, |version| version.number)))
}

pub(super) fn rollback(common: &Common, folder: &Path, name: &str, to: Option<u64>) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, Some(name))?;
    let newest = pick(&reader, &name, None)?;
    let target = match to.or_else(|| newest.number.checked_sub(1)) {
        None | Some(0) => {
            return Err(UsageError(format!("playbook {name} has no version before {}", newest.number)).into());
        }
        Some(number) => pick(&reader, &name, Some(number))?,
    };
    let target_number = target.number;
    let added = add(folder, &name, &document(&target)?, format!("rolled back to version {target_number}"))?;
    if common.json {
        return print_json(&serde_json::json!({
            "name": name, "version": added.number(), "added": added.is_new(), "says_what": target_number,
        }));
    }
    let mut out = anstream::stdout();
    match added {
        Added::New(number) => writeln!(out, "{name}: version {number} says what version {target_number} said")?,
        Added::Served(number) if number == target_number => {
            writeln!(out, "{name}: version {number} is what is served already")?;
        }
        Added::Served(number) => {
            writeln!(
                out,
                "{name}: version {number} is what is served already, and says what version {target_number} said"
            )?;
        }
    }
    Ok(Exit::Ok)
}
