//! Renders problems of a run's description for a command line: options as flags, keys of files with their lines.

use clawhost_run_config::{Key, Problem, Problems, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// The flag of the layers.
pub(crate) const LAYER: &str = "layer";

/// The long name of an option, without dashes. Values of lists are given one by one, so their names are singular.
pub(super) fn long_name(key: Key) -> String {
    match key {
        Key::Rewards => "reward".to_owned(),
        Key::Reflectors => "reflector".to_owned(),
        Key::Grants => "grant".to_owned(),
        Key::Tags => "tag".to_owned(),
        _ => key.name().replace('_', "-"),
    }
}

/// The flag of an option.
pub(crate) fn flag(key: Key) -> String {
    match key {
        Key::Plugin => "PLUGIN.wasm".to_owned(),
        _ => format!("--{}", long_name(key)),
    }
}

/// The flag of an option by its name in libraries: a key of a run, or an option of this machine.
pub(crate) fn option_flag(name: &str) -> String {
    let singular = match name {
        "api_key_files" => Some("api_key_file"),
        _ => None,
    };
    match Key::named(name) {
        Some(key) => flag(key),
        None => format!("--{}", singular.unwrap_or(name).replace('_', "-")),
    }
}

/// A problem in one line. `unread` has better explanations for flags whose text cannot be parsed.
fn line(problem: &Problem, file: Option<&Path>, unread: &BTreeMap<Key, String>) -> String {
    let in_file = file.filter(|_| problem.source != Some(Source::Flag));
    if let Some(file) = in_file {
        let place = problem.line().map(|line| format!(", line {line}")).unwrap_or_default();
        let label = if problem.label.is_empty() { String::new() } else { format!("{}: ", problem.label) };
        return format!("{}{place}: {label}{}", file.display(), problem.render(|key| key.name().to_owned()));
    }
    let place = match problem.key {
        Some(key) => flag(key),
        None if problem.label.is_empty() => String::new(),
        None => format!("--{LAYER}"),
    };
    let message = problem.key.and_then(|key| unread.get(&key)).cloned();
    let message = message.unwrap_or_else(|| problem.render(flag));
    if place.is_empty() { message } else { format!("{place}: {message}") }
}

/// All problems, one per line. `file` is the file that was read, if there is one.
pub(crate) fn rendered(problems: &Problems, file: Option<&Path>, unread: &BTreeMap<Key, String>) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| line(problem, file, unread)).collect();
    match lines.as_slice() {
        [one] => one.clone(),
        all => format!("{} problems:\n  {}", all.len(), all.join("\n  ")),
    }
}
