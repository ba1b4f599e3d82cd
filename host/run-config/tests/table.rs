//! The table of options, in `table.expected`: a changed range or default changes that file. `UPDATE_GOLDEN=1 cargo test
//! -p clawhost-run-config` writes it; review the difference before you commit it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use clawhost_run_config::{Key, Kind, Scope};
use std::path::Path;

fn row(key: Key) -> String {
    let table = match key.scope() {
        Scope::Run => "run".to_owned(),
        Scope::Layer(layer) => layer.to_string(),
        Scope::Evaluate => "evaluate".to_owned(),
    };
    let kind = match key.kind() {
        Kind::Whole { range } => format!("whole {range:?}"),
        Kind::Number { range } => format!("number {range:?}"),
        Kind::Text if key.choices().is_empty() => "text".to_owned(),
        Kind::Text => format!("one of {}", key.choices().join(" ")),
        Kind::Texts if key.choices().is_empty() => "texts".to_owned(),
        Kind::Texts => format!("some of {}", key.choices().join(" ")),
        Kind::Flag => "flag".to_owned(),
    };
    let verbs: Vec<&str> = key.verbs().iter().map(|verb| verb.name()).collect();
    let default = key.default_text().unwrap_or("-");
    let decides = if key.decides() { "decides" } else { "free" };
    format!("{table} | {} | {kind} | {default} | {} | {decides}\n", key.name(), verbs.join(" "))
}

#[test]
fn the_table_of_options_matches_the_golden_file() {
    let got: String = Key::ALL.iter().map(|key| row(*key)).collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/table.expected");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(&golden).unwrap_or_default());
}
