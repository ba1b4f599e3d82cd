//! `clawhost playbook show`: what is served, and what is known of every entry.

use super::{chosen, document, pick, print_json};
use crate::args::Common;
use crate::episodes::safe;
use crate::exit::Exit;
use crate::learn_summary;
use clawhost_core::escaped;
use clawhost_learn::Status;
use clawhost_learn::harness::EntryRow;
use clawhost_learn::playbook::Playbook;
use clawhost_runtime::learn::Ledger;
use clawhost_store::Reader;
use std::io::Write;
use std::path::Path;

/// The order of a table, by status.
const ORDER: [&str; 7] = ["deployed", "admitted", "on trial", "queued", "harmful", "expired", "superseded"];

pub(super) fn show(
    common: &Common,
    folder: &Path,
    name: Option<&str>,
    number: Option<u64>,
    full: bool,
) -> anyhow::Result<Exit> {
    let reader = Reader::open(folder)?;
    let name = chosen(&reader, name)?;
    let mut out = anstream::stdout();
    if let Some(number) = number {
        let version = pick(&reader, &name, Some(number))?;
        if common.json {
            return print_json(&version.document);
        }
        let playbook = document(&version)?;
        sections(&mut out, &playbook)?;
        playbook.entries.iter().try_for_each(|entry| writeln!(out, "{}", safe(&entry.lesson.prompt())))?;
        return Ok(Exit::Ok);
    }
    let newest = reader.versions(&name)?.into_iter().next();
    let served = newest.as_ref().map(document).transpose()?;
    let ledger = reader.ledger(&name)?;
    let ledger: Option<Ledger> = ledger.map(|ledger| serde_json::from_value(ledger.document)).transpose()?;
    let rows = rows(ledger.map(|ledger| ledger.entries).unwrap_or_default(), served.as_ref());
    if common.json {
        return print_json(&serde_json::json!({
            "name": name, "version": newest.as_ref().map(|version| version.number),
            "digest": newest.as_ref().map(|version| version.digest),
            "deployed": newest.as_ref().map(|version| &version.document),
            "entries": rows,
        }));
    }
    match &newest {
        Some(version) => writeln!(out, "{name}, version {}: {}", version.number, escaped(&version.why, 200))?,
        None => writeln!(out, "{name}: nothing is deployed yet")?,
    }
    if let Some(served) = served.filter(|served| !served.sections.is_empty()) {
        writeln!(out)?;
        sections(&mut out, &served)?;
    }
    if !rows.is_empty() {
        let columns = if full { None } else { learn_summary::terminal_columns() };
        crate::episodes::print(&mut out, &learn_summary::entries(&rows, columns))?;
        writeln!(out, "{}", learn_summary::legend())?;
    }
    Ok(Exit::Ok)
}

fn sections(out: &mut impl Write, playbook: &Playbook) -> std::io::Result<()> {
    for (section, text) in &playbook.sections {
        writeln!(out, "[{}]\n{}\n", escaped(section, 200), safe(text))?;
    }
    Ok(())
}

/// A line about every entry: what the last learning run left, brought up to what is served now. Somebody may have imported or
/// rolled back since.
fn rows(known: Vec<EntryRow>, served: Option<&Playbook>) -> Vec<EntryRow> {
    let mut rows = known;
    for entry in served.iter().flat_map(|served| &served.entries) {
        if !rows.iter().any(|row| row.id == entry.id) {
            rows.push(EntryRow::unmeasured(entry));
        }
    }
    let (deployed, queued, harmful) = (Status::Deployed.name(), Status::Queued.name(), Status::Harmful.name());
    for row in &mut rows {
        let is_served = served.is_some_and(|served| served.entries.iter().any(|entry| entry.id == row.id));
        // What is known to harm is served until the gate has let it go: that is what people must know of it.
        if is_served && row.status != harmful {
            deployed.clone_into(&mut row.status);
        } else if !is_served && row.status == deployed {
            // What the next run makes of it.
            queued.clone_into(&mut row.status);
        }
    }
    rows.sort_by_key(|row| ORDER.iter().position(|status| *status == row.status));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::{Entry, Lesson};

    fn entry(text: &str) -> Entry {
        Entry::new(Lesson::read(text), "import")
    }

    #[test]
    fn whatever_is_served_is_deployed_and_nothing_else_is() {
        let known = |text: &str, status: &str| EntryRow {
            status: status.into(),
            created_by: "rules".into(),
            ..EntryRow::unmeasured(&entry(text))
        };
        let known = vec![
            known("a", "expired"),
            known("b", "queued"),
            known("c", "queued"),
            known("d", "deployed"),
            known("e", "harmful"),
            known("f", "superseded"),
        ];
        let served = Playbook { entries: ["c", "e", "f", "g"].map(entry).to_vec(), ..Playbook::default() };
        let told = |rows: Vec<EntryRow>| -> Vec<String> {
            rows.iter().map(|row| format!("{} {} by {}", row.lesson, row.status, row.created_by)).collect()
        };
        let expect = [
            "c deployed by rules",
            "f deployed by rules",
            "g deployed by import",
            "b queued by rules",
            "d queued by rules",
            "e harmful by rules",
            "a expired by rules",
        ];
        assert_eq!(told(rows(known.clone(), Some(&served))), expect);
        assert_eq!(told(rows(known, None)).len(), 6);
    }

    #[test]
    fn every_status_has_its_place() {
        let superseded = Status::Superseded(entry("x").id);
        let all =
            [Status::Queued, Status::OnTrial, Status::Admitted, Status::Deployed, Status::Harmful, Status::Expired];
        assert!(all.iter().chain([&superseded]).all(|status| ORDER.contains(&status.name())));
    }

    #[test]
    fn sections_stand_under_their_names_and_nothing_hides_in_them() {
        let sections_of = [("house".to_owned(), "Be kind.\nAlways\u{1b}[31m.".to_owned())];
        let playbook = Playbook { sections: sections_of.into(), entries: Vec::new() };
        let mut out = Vec::new();
        sections(&mut out, &playbook).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "[house]\nBe kind.\nAlways\\u{1b}[31m.\n\n");
    }
}
