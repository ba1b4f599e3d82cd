//! `clawhost playbook list`: lists all playbooks, with their served versions and origins.

use super::print_json;
use crate::context::Context;
use crate::exit::Exit;
use clawhost_app::{Workspace, playbooks, time};
use std::io::Write as _;

/// The text of an unknown or absent value.
const NONE: &str = "-";

pub(super) fn list(context: &Context) -> anyhow::Result<Exit> {
    // An unused data folder has no playbooks, which is not an error.
    let rows =
        if Workspace::is_used(&context.folder()?) { playbooks::list(context.reader()?.as_ref())? } else { Vec::new() };
    if context.json() {
        return print_json(&rows);
    }
    let mut table = crate::episodes::table(&["playbook", "version", "entries", "learned in", "run", "created"]);
    for row in &rows {
        let entries = match (row.version, row.entries) {
            (None, _) => "0".to_owned(),
            (Some(_), Some(entries)) => entries.to_string(),
            (Some(_), None) => "?".to_owned(),
        };
        let told = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
        table.add_row([
            row.name.clone(),
            told(row.version.map(|version| version.to_string())),
            entries,
            told(row.learned.as_ref().map(|origin| origin.tasks.to_string())),
            told(row.learned.as_ref().map(|origin| origin.run.clone())),
            told(row.created_at.map(time)),
        ]);
    }
    let mut out = crate::terminal::stdout();
    crate::episodes::print(&mut out, &table)?;
    if rows.is_empty() {
        writeln!(out, "none yet: learn one with `clawhost learn PLUGIN.wasm`, or import one")?;
    }
    Ok(Exit::Ok)
}
