//! Keys that nobody asked for, and what was probably meant.

use crate::diagnostic::Diagnostic;
use crate::section::Section;

/// Below this two words have little in common; as on the command line.
const ALIKE: f64 = 0.7;

/// The known name nearest to what was written, if any is near.
pub(crate) fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(written, name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// One diagnostic for each unknown key. The first section is the top, and knows the others as keys.
pub(crate) fn unknown_keys(sections: &[&Section<'_, '_>]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for section in sections {
        for (key, line, is_section) in section.unknown() {
            let kind = if is_section { "section" } else { "key" };
            let is_heading = is_section && section.name.is_empty();
            let label = section.label(key);
            let hint = hint(key, section, sections);
            diagnostics.push(Diagnostic {
                line: Some(line),
                key: if is_heading { format!("[{label}]") } else { label },
                message: format!("unknown {kind}{hint}"),
            });
        }
    }
    diagnostics
}

/// Where the key belongs, or which one it resembles, or which there are.
fn hint(key: &str, own: &Section<'_, '_>, sections: &[&Section<'_, '_>]) -> String {
    let is_section = |name: &str| sections.iter().any(|section| section.name == name);
    let owners = sections.iter().filter(|section| section.known().contains(&key));
    let places: Vec<String> = owners.map(|section| place(section.name)).collect();
    if is_section(key) {
        return format!("; write [{key}] on a line of its own");
    }
    if !places.is_empty() {
        return format!("; it belongs {}", places.join(" or "));
    }
    match nearest(key, own.known().iter().copied()) {
        Some(name) if is_section(name) => format!("; did you mean `[{name}]`?"),
        Some(name) => format!("; did you mean `{name}`?"),
        None => {
            let known: Vec<&str> = own.known().iter().copied().filter(|name| !is_section(name)).collect();
            format!("; known here: {}", known.join(", "))
        }
    }
}

fn place(section: &str) -> String {
    if section.is_empty() { "at the top, above every [section]".to_owned() } else { format!("into [{section}]") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_neighbour_and_a_stranger_finds_none() {
        let check = |written, expected| assert_eq!(nearest(written, ["seed", "max_turns", "tasks"]), expected);
        check("max-turns", Some("max_turns"));
        check("sed", Some("seed"));
        check("task", Some("tasks"));
        check("xyz", None);
        check("", None);
    }
}
