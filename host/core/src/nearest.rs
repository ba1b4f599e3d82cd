//! Suggestions for misspelt names.

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

/// What an unknown key was probably meant to be, from the message of a reader of documents: the message names it first, and those that there
/// are behind it. Empty if nothing is similar.
pub fn did_you_mean(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let is_unknown = ["unknown field", "unknown variant"].iter().any(|beginning| message.starts_with(beginning));
    let known = names.next().filter(|_| is_unknown).and_then(|name| nearest(name, names));
    known.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
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

    #[test]
    fn a_message_about_an_unknown_key_names_the_nearest_known_one() {
        let check = |message, expected: &str| assert_eq!(did_you_mean(message), expected);
        check("unknown field `sed`, expected one of `seed`, `tasks`", "; did you mean `seed`?");
        check("unknown variant `rewrad`, expected `reward` or `router`", "; did you mean `reward`?");
        check("unknown field `x`, expected one of `seed`, `tasks`", "");
        check("missing field `seed`", "");
    }
}
