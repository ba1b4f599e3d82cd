//! Suggestions for unknown keys.

use crate::{Key, Scope};

/// Words with a lower similarity are not suggested.
const ALIKE: f64 = 0.7;

/// The known name that is nearest to the text, if one is similar.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(written, name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// The text after "unknown key": the table of the key, a similar key, or the list of keys.
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
    fn a_typo_gets_a_suggestion_and_an_unrelated_word_none() {
        let check = |written, expected| assert_eq!(nearest(written, ["seed", "max_turns", "tasks"]), expected);
        check("max-turns", Some("max_turns"));
        check("sed", Some("seed"));
        check("task", Some("tasks"));
        check("xyz", None);
        check("", None);
    }
}
