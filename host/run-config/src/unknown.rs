//! Keys that no table has, and what was probably meant.

use crate::{Key, Scope};

/// Below this two words have little in common.
const ALIKE: f64 = 0.7;

/// The known name nearest to what was written, if any is near.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(written, name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// What follows "unknown key": where the key belongs, or which one it resembles, or which there are.
pub(crate) fn hint(written: &str, scope: Scope) -> String {
    match Key::named(written).map(Key::scope) {
        Some(Scope::Layer(layer)) => return format!("; it belongs to layer {layer}"),
        Some(Scope::Evaluate) => return "; it belongs to the command line of an evaluation".to_owned(),
        Some(Scope::Run) => return "; it belongs at the top, above every [[learn]]".to_owned(),
        None => {}
    }
    let own: &[&str] = if scope == Scope::Run { &["version", "learn"] } else { &["layer"] };
    let known: Vec<&str> = own.iter().copied().chain(Key::within(scope).map(Key::name)).collect();
    match nearest(written, known.iter().copied()) {
        Some("learn") => "; did you mean `[[learn]]`?".to_owned(),
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; known here: {}", known.join(", ")),
    }
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
