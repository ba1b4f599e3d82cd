//! Writes what happened as what is expected. Everything else of the file stays as it was written.

use super::compare::Happened;
use super::text::exactly;
use toml_edit::{Array, DocumentMut, Item, TableLike, Value};

/// The text of a file, in which what happened is what its cases expect. What a case does not compare is not added, unless it compares
/// nothing: then the observations, the ending and the reward are.
///
/// # Errors
/// The text is no file of cases.
pub(super) fn accepted(text: &str, happened: &[(usize, Happened)]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    for (position, happened) in happened {
        let case = case(document.get_mut("case"), *position).ok_or("the cases are no tables")?;
        if case.get("expect").is_none() {
            case.insert("expect", toml_edit::table());
        }
        let expect = case.get_mut("expect").and_then(Item::as_table_like_mut).ok_or("expect is no table")?;
        write(expect, happened);
    }
    Ok(document.to_string())
}

fn case(cases: Option<&mut Item>, position: usize) -> Option<&mut dyn TableLike> {
    match cases? {
        Item::ArrayOfTables(tables) => tables.get_mut(position).map(|table| table as &mut dyn TableLike),
        Item::Value(Value::Array(values)) => {
            values.get_mut(position)?.as_inline_table_mut().map(|table| table as &mut dyn TableLike)
        }
        _ => None,
    }
}

/// A list with a line for each text: observations are long.
fn listed(texts: &[String]) -> Value {
    let mut array = Array::new();
    for text in texts {
        let mut value = Value::from(exactly(text));
        value.decor_mut().set_prefix("\n    ");
        array.push_formatted(value);
    }
    array.set_trailing("\n");
    array.set_trailing_comma(!texts.is_empty());
    Value::Array(array)
}

pub(super) fn write(expect: &mut dyn TableLike, happened: &Happened) {
    let is_new = expect.is_empty();
    let is_wanted = |expect: &dyn TableLike, key: &str| is_new || expect.contains_key(key);
    if is_wanted(expect, "observations") && !happened.observations.is_empty() {
        set(expect, "observations", listed(&happened.observations));
    }
    if let Some(status) = happened.status.as_ref().filter(|_| is_wanted(expect, "status")) {
        set(expect, "status", Value::from(status.as_str()));
    }
    if let Some(verdict) = happened.verdict.as_ref().filter(|_| is_wanted(expect, "verdict")) {
        set(expect, "verdict", Value::from(verdict.as_str()));
    }
    if is_wanted(expect, "reward") {
        match happened.reward {
            Some(reward) => set(expect, "reward", Value::from(reward)),
            // It is not scored: there is no number to expect.
            None => drop(expect.remove("reward")),
        }
    }
    if expect.contains_key("rationale") {
        set(expect, "rationale", Value::from(exactly(&happened.rationale)));
    }
    if let Some(proposals) = happened.proposals.as_ref().filter(|_| is_wanted(expect, "proposals")) {
        set(expect, "proposals", listed(proposals));
    }
    let signals = happened.signals.iter().map(|(name, value)| (name.clone(), Value::from(*value)));
    replace(expect, "signals", signals.collect());
    let artefacts = happened.artefacts.iter().map(|(name, text)| (name.clone(), Value::from(exactly(text))));
    replace(expect, "artefacts", artefacts.collect());
}

/// Sets a value, and keeps the comments around the one before.
fn set(table: &mut dyn TableLike, key: &str, mut value: Value) {
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

/// Replaces the values of those names that a table of expectations has.
fn replace(expect: &mut dyn TableLike, key: &str, found: Vec<(String, Value)>) {
    let Some(table) = expect.get_mut(key).and_then(Item::as_table_like_mut) else { return };
    let known: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    let mut is_whole = true;
    for name in known {
        match found.iter().find(|(one, _)| *one == name) {
            Some((_, value)) => set(table, &name, value.clone()),
            None => {
                table.remove(&name);
                is_whole = false;
            }
        }
    }
    if !is_whole {
        // The space around what was removed is gone with it.
        table.fmt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happened() -> Happened {
        Happened {
            observations: vec!["go".to_owned(), "two\nlines".to_owned()],
            status: Some("terminated".to_owned()),
            signals: [("right".to_owned(), 1.0)].into(),
            reward: Some(1.0),
            ..Happened::default()
        }
    }

    #[test]
    fn what_happened_replaces_what_was_expected_and_all_else_stays() {
        let text = "# mine\n[[case]]\nname = \"a\" # first\n\n[[case]]\nname = \"b\"\n[case.expect]\nreward = 0.0 # was\nsignals = { right = 0.0, left = 2.0 }\n";
        let written = accepted(text, &[(1, happened())]).unwrap();
        assert_eq!(
            written,
            "# mine\n[[case]]\nname = \"a\" # first\n\n[[case]]\nname = \"b\"\n[case.expect]\nreward = 1.0 # was\nsignals = { right = 1.0 }\n"
        );
    }

    #[test]
    fn a_case_without_expectations_gets_all_of_them() {
        let written = accepted("[[case]]\nname = \"a\"\n", &[(0, happened())]).unwrap();
        let read = super::super::text::parse(&written).unwrap();
        let expect = &read.cases[0].expect;
        assert_eq!(expect.observations.as_deref(), Some(&["go".to_owned(), "two\nlines".to_owned()][..]));
        assert_eq!((expect.status.as_deref(), expect.reward.is_some()), (Some("terminated"), true));
        assert!(happened().compare(expect).is_empty());
    }
}
