//! Exit codes: stable, documented, one per kind of error. And error messages for a command line.

use crate::args::{Place, flag, option_flag, rendered};
use clawhost_app::{AppError, ErrorKind, RequestError};
use clawhost_core::{Hint, StoreError, TrapReport};
use clawhost_devkit::DevkitError;
use clawhost_play::StopReason;
use clawhost_run_config::{Difference, Problems};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Ok = 0,
    /// Any other error.
    Other = 1,
    /// The command line is invalid; clap uses the same code.
    Usage = 2,
    /// A plugin was refused.
    PluginRefused = 3,
    /// Too many failures: of episodes, or of everything that a learning run needs at first.
    FailureBudget = 4,
    /// The data folder cannot be used.
    Store = 5,
    /// The token or cost budget is spent.
    ModelBudget = 6,
    /// A replay differs from the record, or could not be done.
    Differs = 7,
    /// A bundle was changed: something in it contradicts the rest.
    Changed = 8,
    /// Stopped by Ctrl-C. Everything that was played is recorded.
    Interrupted = 130,
}

/// The exit codes in `--help`.
pub(crate) const HELP: &str = "Exit codes: 0 done, 1 other error, 2 usage, 3 plugin refused, 4 failure budget exceeded, \
5 data folder unusable, 6 token or cost budget spent, 7 a replay differs or could not be made, 8 a bundle was changed, 130 interrupted (everything played is recorded).";

/// The exit codes in `demo harness --help`.
pub(crate) const DEMO_HELP: &str = "Nothing is recorded: no episode, no playbook. Exit codes: 0 the proof is given, 1 the proof \
failed (standard error says why), 2 usage, 3 plugin refused, 4 an episode failed, 5 data folder unusable, 130 interrupted.";

/// The exit codes in `demo router --help`.
pub(crate) const ROUTER_DEMO_HELP: &str = "It writes the router of the first world and its log, for `clawhost router`; nothing \
else is recorded. Exit codes: 0 the proof is given, 1 the proof failed (standard error says why), 2 usage, 130 interrupted.";

/// The command line requests something impossible.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Exit {
    /// The code of a run or a scoring by its stop reason.
    pub(crate) fn of_stop(stopped: Option<&StopReason>) -> Self {
        match stopped {
            None => Self::Ok,
            Some(StopReason::ModelBudget) => Self::ModelBudget,
            Some(StopReason::FailureBudget { .. } | StopReason::Unscored { .. } | StopReason::Reflectors { .. }) => {
                Self::FailureBudget
            }
            Some(StopReason::Cancelled) => Self::Interrupted,
        }
    }

    /// The code of an error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if let Some(error) = cause.downcast_ref::<AppError>() {
                return Self::of_kind(error.kind());
            }
            if let Some(error) = cause.downcast_ref::<DevkitError>() {
                return Self::of_kind(error.kind());
            }
            if cause.is::<StoreError>() {
                return Self::Store;
            }
            if cause.is::<UsageError>() || cause.is::<RequestError>() || cause.is::<Problems>() {
                return Self::Usage;
            }
        }
        Self::Other
    }

    fn of_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Plugin => Self::PluginRefused,
            ErrorKind::Store => Self::Store,
            ErrorKind::Cancelled => Self::Interrupted,
            ErrorKind::Other => Self::Other,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Whether the reader of the output has closed it, as `head` does: not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == broken)
            // serde_json does not expose the cause.
            || cause.downcast_ref::<serde_json::Error>().is_some_and(|error| error.io_error_kind() == Some(broken))
    })
}

/// The state of the guest, if the error is a trap.
pub(crate) fn report(error: &anyhow::Error) -> Option<&TrapReport> {
    error.chain().find_map(|cause| cause.downcast_ref::<AppError>()?.trap())
}

/// An error for people: what happened, and suggested remedies.
pub(crate) fn message(error: &anyhow::Error) -> String {
    // Hints that repeat the place of an option are left out.
    let place = error.downcast_ref::<Place>();
    let cause = |cause: &(dyn std::error::Error + 'static)| {
        if let Some(error) = cause.downcast_ref::<AppError>() {
            let hints = error.hints().into_iter().filter(|hint| place.is_none_or(|place| !place.says(hint)));
            return Some((said(error), mended(&hints.collect::<Vec<_>>(), advice(error))));
        }
        if let Some(error) = cause.downcast_ref::<DevkitError>() {
            return Some((None, mended(&error.hints(), None)));
        }
        let error = cause.downcast_ref::<StoreError>()?;
        Some((None, mended(&error.hints(), None)))
    };
    let (said, mended) = error.chain().find_map(cause).unwrap_or_default();
    format!("{}{mended}", said.unwrap_or_else(|| format!("{error:#}")))
}

/// Number of differences that are shown. The others usually have the same cause.
const SHOWN: usize = 3;

/// A difference with its flag, if a single option decides it.
fn difference(difference: &Difference) -> String {
    let last = difference.place.rsplit('.').next().unwrap_or_default();
    match difference.key.filter(|key| key.name() == last) {
        Some(key) => format!("{} was {} and is {}", flag(key), difference.was, difference.is),
        None => difference.to_string(),
    }
}

/// Errors with another text on a command line.
fn said(error: &AppError) -> Option<String> {
    match error {
        AppError::Spec(problems) => Some(rendered(problems, None, &BTreeMap::new())),
        AppError::Request(RequestError::ResumeDiffers { run, all }) => {
            let shown: Vec<String> = all.iter().take(SHOWN).map(difference).collect();
            let more = match all.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(", and {more} more differ"),
            };
            Some(format!(
                "no run of this configuration was interrupted here. {run} was, but {}{more}",
                shown.join(", ")
            ))
        }
        _ => None,
    }
}

/// Advice about flags, if no hint names them.
fn advice(error: &AppError) -> Option<&'static str> {
    let AppError::Request(error) = error.cause() else { return None };
    match error {
        RequestError::OneKeyFile { .. } => Some("--api-key-file may be given for each"),
        RequestError::OutGone { .. } => Some("--out names it"),
        RequestError::SameVersion { .. } => Some("leave --against out to compare with none"),
        _ => None,
    }
}

/// The remedies after an error.
fn mended(hints: &[Hint], advice: Option<&str>) -> String {
    let hints = hints.iter().filter(|one| **one != Hint::ChangeThis).map(hint);
    let all: Vec<String> = hints.chain(advice.map(str::to_owned)).collect();
    if all.is_empty() { String::new() } else { format!("; {}", all.join(", or ")) }
}

/// A hint for a command line.
pub(crate) fn hint(hint: &Hint) -> String {
    match hint {
        Hint::Option { key, value: Some(value) } if value == "true" => format!("use {}", option_flag(key)),
        Hint::Option { key, value: Some(value) } => format!("use {} {value}", option_flag(key)),
        Hint::Option { key: key @ ("allow_interpreters" | "on_demand"), value: None } => {
            format!("use {}", option_flag(key))
        }
        Hint::Option { key, value: None } => format!("choose another {}", option_flag(key)),
        Hint::ChangeThis => "name another".to_owned(),
        Hint::Without(key) => format!("leave {} out", option_flag(key)),
        Hint::OtherDataFolder => "choose another --data folder".to_owned(),
        Hint::MakeRoom => "free space on the disk".to_owned(),
        Hint::Resume => "continue with --resume".to_owned(),
        Hint::NewRun => "begin a new run without --resume".to_owned(),
        Hint::SameSpecification => "use the command and the files with which it began".to_owned(),
        Hint::Command { words, does } => format!("`clawhost {words}` {does}"),
        Hint::Outside(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_run_config::Key;

    fn shown(error: impl Into<AppError>) -> (String, Exit) {
        let error = anyhow::Error::from(error.into());
        (message(&error), Exit::of(&error))
    }

    #[test]
    fn hints_are_flags() {
        let check = |one: Hint, expect: &str| assert_eq!(hint(&one), expect);
        check(Hint::set("device", "cpu"), "use --device cpu");
        check(Hint::set("on_demand", "true"), "use --on-demand");
        check(Hint::change("rewards"), "choose another --reward");
        check(Hint::change("on_demand"), "use --on-demand");
        check(Hint::Without("tasks"), "leave --tasks out");
        check(Hint::OtherDataFolder, "choose another --data folder");
        check(
            Hint::command("inspect PLUGIN.wasm", "lists the options"),
            "`clawhost inspect PLUGIN.wasm` lists the options",
        );
    }

    #[test]
    fn a_full_store_suggests_remedies() {
        let (text, exit) = shown(StoreError::Full { path: "db".into() });
        assert!(text.ends_with("; free space on the disk, or continue with --resume"), "{text}");
        assert_eq!(exit, Exit::Store);
        // Readers give the same error on their own.
        let bare = anyhow::Error::from(StoreError::Full { path: "db".into() });
        assert_eq!((message(&bare), Exit::of(&bare)), (text, Exit::Store));
    }

    #[test]
    fn differences_of_a_run_are_shown_as_flags() {
        let differs = |place: &str, key| Difference {
            place: place.to_owned(),
            key: Some(key),
            was: "1".into(),
            is: "2".into(),
            decides: true,
        };
        let all = vec![differs("learn.weights.rate", Key::Rate), differs("environment.options.size", Key::Plugin)];
        let (text, exit) = shown(RequestError::ResumeDiffers { run: "run-1".into(), all });
        let expect = "no run of this configuration was interrupted here. run-1 was, but --rate was 1 and is 2, \
                      environment.options.size was 1 and is 2; use the command and the files with which it began, or begin a \
                      new run without --resume";
        assert_eq!((text.as_str(), exit), (expect, Exit::Usage));
    }
}
