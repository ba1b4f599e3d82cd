//! Errors about the value of an option, with the place where the option was set: its flag, or file, line and key.

use super::problems::flag;
use clawhost_app::AppError;
use clawhost_core::Hint;
use clawhost_run_config::{Key, RunSpecPatch, Source};
use std::fmt;
use std::path::Path;

/// Where an option was set.
#[derive(Debug)]
pub(crate) struct Place {
    key: Key,
    text: String,
}

impl Place {
    /// Whether a hint repeats the place.
    pub(crate) fn says(&self, hint: &Hint) -> bool {
        matches!(hint, Hint::Option { key, value: None } if *key == self.key.name())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Adds to an error of a run the place of the option that caused it. `file` is the file that was read.
pub(crate) fn placed(error: AppError, said: &RunSpecPatch, file: Option<&Path>) -> anyhow::Error {
    let given = error.option().and_then(|key| {
        // The folder of a local model is a short form of a policy.
        let keys = if key == Key::Policy { [key, Key::Model] } else { [key, key] };
        keys.into_iter().find_map(|key| Some((key, said.get(key)?.1)))
    });
    let text = match (given, file) {
        (Some((key, Source::File { line })), Some(file)) => {
            let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
            Some((key, format!("{}{line}: {}", file.display(), key.label())))
        }
        (Some((key, Source::Flag)), _) => of_flag(&error, key).map(|text| (key, text)),
        _ => None,
    };
    with(error, text)
}

/// The same for a command whose options are all flags.
pub(crate) fn placed_by_flag(error: AppError) -> anyhow::Error {
    let text = error.option().and_then(|key| Some((key, of_flag(&error, key)?)));
    with(error, text)
}

/// The flag, if the error does not name it already: messages about plugins and some hints do.
fn of_flag(error: &AppError, key: Key) -> Option<String> {
    let names_a_model = matches!(key, Key::Policy | Key::Model | Key::Grants);
    let names_it = |hint: &Hint| matches!(hint, Hint::Option { key: named, .. } if *named == key.name());
    (names_a_model && !error.hints().iter().any(names_it)).then(|| flag(key))
}

fn with(error: AppError, place: Option<(Key, String)>) -> anyhow::Error {
    match place {
        Some((key, text)) => anyhow::Error::from(error).context(Place { key, text }),
        None => error.into(),
    }
}
