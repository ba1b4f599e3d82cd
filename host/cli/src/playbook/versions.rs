//! `clawhost playbook log|diff|rollback`: versions are added and never removed.

use super::{print_json, workspace};
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::{playbooks, time};
use clawhost_core::{StoreReader, escaped};
use std::io::Write as _;

pub(super) fn log(context: &Context, name: Option<&str>) -> anyhow::Result<Exit> {
    let reader = context.reader()?;
    let name = playbooks::chosen(reader.as_ref(), name)?;
    let versions = reader.versions(&name)?;
    if context.json() {
        return print_json(&versions);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "{name}")?;
    let mut table = crate::episodes::table(&["version", "digest", "entries", "when", "run", "why"]);
    for version in &versions {
        let playbook = playbooks::document(version);
        table.add_row([
            version.number.to_string(),
            version.digest.short(),
            playbook.map_or_else(|_| "?".to_owned(), |playbook| playbook.entries.len().to_string()),
            time(version.created_at),
            version.run.as_ref().map_or_else(String::new, |run| run.0.clone()),
            escaped(&version.why, 120),
        ]);
    }
    crate::episodes::print(&mut out, &table)?;
    Ok(Exit::Ok)
}

/// The arguments of a comparison: optionally a playbook, and optionally the first and the second version.
type Compared<'a> = (Option<&'a str>, Option<u64>, Option<u64>);

/// Interprets the arguments of a comparison: `diff 0 1` names two versions and no playbook, unless a playbook has that
/// name.
fn compared<'a>(reader: &dyn StoreReader, (name, from, to): Compared<'a>) -> anyhow::Result<Compared<'a>> {
    let Some((text, number)) = name.and_then(|name| Some((name, name.parse().ok()?))) else {
        return Ok((name, from, to));
    };
    let is_version = to.is_none() && !reader.playbooks()?.iter().any(|known| known == text);
    Ok(if is_version { (None, Some(number), from) } else { (name, from, to) })
}

pub(super) fn diff(context: &Context, name: Option<&str>, from: Option<u64>, to: Option<u64>) -> anyhow::Result<Exit> {
    let reader = context.reader()?;
    let (name, from, to) = compared(reader.as_ref(), (name, from, to))?;
    let name = playbooks::chosen(reader.as_ref(), name)?;
    let found = playbooks::diff(reader.as_ref(), &name, from, to)?;
    if context.json() {
        return print_json(&found);
    }
    let mut out = crate::terminal::stdout();
    writeln!(out, "{name}: version {} to {}", found.from, found.to)?;
    if found.differences.is_empty() {
        writeln!(out, "they are equal")?;
    }
    found.differences.iter().try_for_each(|difference| writeln!(out, "{difference}"))?;
    Ok(Exit::Ok)
}

pub(super) async fn rollback(context: &Context, name: &str, to: Option<u64>) -> anyhow::Result<Exit> {
    // A data folder is not created for a playbook that does not exist.
    playbooks::chosen(context.reader()?.as_ref(), Some(name))?;
    let rolled = playbooks::rollback(&workspace(context)?, name, to).await?;
    if context.json() {
        return print_json(&rolled);
    }
    let (number, target) = (rolled.version, rolled.says_what);
    let mut out = crate::terminal::stdout();
    match (rolled.added, number == target) {
        (true, _) => writeln!(out, "{name}: version {number} has the content of version {target}")?,
        (false, true) => writeln!(out, "{name}: version {number} is served already")?,
        (false, false) => {
            writeln!(out, "{name}: version {number} is served already, with the content of version {target}")?;
        }
    }
    Ok(Exit::Ok)
}
