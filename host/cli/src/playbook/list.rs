//! `clawhost playbook list`: every playbook, with what is served of it and where that was learned.

use super::origin::Origin;
use super::{document, print_json};
use crate::args::Common;
use crate::data;
use crate::exit::Exit;
use clawhost_store::{FILE, Reader};
use std::io::Write as _;
use std::path::Path;

/// What is said of what is not known, or not there.
const NONE: &str = "-";

pub(super) fn list(common: &Common, folder: &Path) -> anyhow::Result<Exit> {
    // A folder in which nothing was ever done holds no playbook, which is no error.
    let reader = folder.join(FILE).exists().then(|| Reader::open(folder)).transpose()?;
    let names = reader.as_ref().map(Reader::playbooks).transpose()?.unwrap_or_default();
    let mut table = crate::episodes::table(&["playbook", "version", "entries", "learned in", "run", "created"]);
    let mut documents = Vec::new();
    for (reader, name) in reader.iter().flat_map(|reader| names.iter().map(move |name| (reader, name))) {
        let versions = reader.versions(name)?;
        let newest = versions.first();
        // One that cannot be read is no reason not to list the others.
        let playbook = newest.and_then(|newest| document(newest).ok());
        let origin = match newest {
            Some(newest) => Origin::of(reader, &versions, newest)?,
            None => None,
        };
        let entries = match (newest, &playbook) {
            (None, _) => "0".to_owned(),
            (Some(_), Some(playbook)) => playbook.entries.len().to_string(),
            (Some(_), None) => "?".to_owned(),
        };
        let told = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
        table.add_row([
            name.clone(),
            told(newest.map(|newest| newest.number.to_string())),
            entries,
            told(origin.as_ref().map(|origin| origin.tasks.to_string())),
            told(origin.as_ref().map(|origin| origin.run.clone())),
            told(newest.map(|newest| data::time(newest.created_at))),
        ]);
        documents.push(serde_json::json!({
            "name": name, "version": newest.map(|newest| newest.number), "digest": newest.map(|newest| newest.digest),
            "entries": playbook.as_ref().map(|playbook| playbook.entries.len()),
            "sections": playbook.as_ref().map(|playbook| playbook.sections.len()),
            "learned": origin, "why": newest.map(|newest| &newest.why),
            "created_at": newest.map(|newest| newest.created_at),
        }));
    }
    if common.json {
        return print_json(&serde_json::json!(documents));
    }
    let mut out = anstream::stdout();
    crate::episodes::print(&mut out, &table)?;
    if documents.is_empty() {
        writeln!(out, "none yet: learn one with `clawhost run PLUGIN.wasm --learn harness`, or import one")?;
    }
    Ok(Exit::Ok)
}
