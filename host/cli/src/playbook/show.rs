//! `clawhost playbook show`: shows the served version, and the state of every entry.

use super::print_json;
use crate::context::Context;
use crate::episodes::safe;
use crate::exit::Exit;
use crate::learn_summary;
use clawhost_app::playbooks;
use clawhost_core::escaped;
use clawhost_learn::playbook::Playbook;
use std::io::Write;

/// Shows the content of a version.
pub(super) fn version(context: &Context, name: Option<&str>, number: u64) -> anyhow::Result<Exit> {
    let reader = context.reader()?;
    let name = playbooks::chosen(reader.as_ref(), name)?;
    let version = playbooks::pick(reader.as_ref(), &name, Some(number))?;
    if context.json() {
        return print_json(&version.document);
    }
    let playbook = playbooks::document(&version)?;
    let mut out = crate::terminal::stdout();
    sections(&mut out, &playbook)?;
    playbook.entries.iter().try_for_each(|entry| writeln!(out, "{}", safe(&entry.lesson.prompt())))?;
    Ok(Exit::Ok)
}

pub(super) fn show(context: &Context, name: Option<&str>, full: bool) -> anyhow::Result<Exit> {
    let reader = context.reader()?;
    let shown = playbooks::show(reader.as_ref(), &playbooks::chosen(reader.as_ref(), name)?)?;
    if context.json() {
        return print_json(&shown);
    }
    let mut out = crate::terminal::stdout();
    let name = &shown.name;
    match (shown.version, &shown.why) {
        (Some(number), Some(why)) => writeln!(out, "{name}, version {number}: {}", escaped(why, 200))?,
        _ => writeln!(out, "{name}: nothing is deployed yet")?,
    }
    if let Some(deployed) = shown.deployed.as_ref().filter(|deployed| !deployed.sections.is_empty()) {
        writeln!(out)?;
        sections(&mut out, deployed)?;
    }
    if !shown.entries.is_empty() {
        let columns = if full { None } else { learn_summary::terminal_columns() };
        crate::episodes::print(&mut out, &learn_summary::entries(&shown.entries, columns))?;
        writeln!(out, "{}", learn_summary::legend())?;
        learn_summary::never_applied(&shown.entries).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(Exit::Ok)
}

fn sections(out: &mut impl Write, playbook: &Playbook) -> std::io::Result<()> {
    for (section, text) in &playbook.sections {
        writeln!(out, "[{}]\n{}\n", escaped(section, 200), safe(text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_shown_under_their_names_and_escaped() {
        let sections_of = [("house".to_owned(), "Be kind.\nAlways\u{1b}[31m.".to_owned())];
        let playbook = Playbook { sections: sections_of.into(), entries: Vec::new() };
        let mut out = Vec::new();
        sections(&mut out, &playbook).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "[house]\nBe kind.\nAlways\\u{1b}[31m.\n\n");
    }
}
