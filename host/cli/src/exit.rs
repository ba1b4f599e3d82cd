//! Exit codes: stable, documented, one per kind of trouble.

use clawhost_core::{StoreError, TrapReport};
use clawhost_engine::EngineError;
use clawhost_model::device::DeviceError;
use clawhost_providers::ProviderError;
use clawhost_runtime::{RuntimeError, StopReason};
use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All done.
    Ok = 0,
    /// Something else went wrong.
    Other = 1,
    /// The command line makes no sense; also what clap uses.
    Usage = 2,
    /// A plugin was refused.
    PluginRefused = 3,
    /// More failed than allowed: episodes, or all that a learning run needs at first.
    FailureBudget = 4,
    /// The data folder cannot be used.
    Store = 5,
    /// The token or cost budget is spent.
    ModelBudget = 6,
    /// A replay differs from the record, or could not be made.
    Differs = 7,
    /// Stopped by Ctrl-C; everything played was recorded.
    Interrupted = 130,
}

/// What `--help` says about exit codes.
pub(crate) const HELP: &str = "Exit codes: 0 done, 1 other trouble, 2 usage, 3 plugin refused, 4 failure budget exceeded, \
5 data folder unusable, 6 token or cost budget spent, 7 a replay differs or could not be made, 130 interrupted (everything played is recorded).";

/// What `demo harness --help` says about exit codes.
pub(crate) const DEMO_HELP: &str = "Nothing is recorded: no episode, no playbook. Exit codes: 0 the proof is given, 1 the proof \
failed (standard error says why), 2 usage, 3 plugin refused, 4 an episode failed, 5 data folder unusable, 130 interrupted.";

/// The command line asks for something that cannot be.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Exit {
    /// The code for the way a run, or a scoring, ended.
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

    /// The code for an error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if let Some(error) = cause.downcast_ref::<EngineError>() {
                return match error {
                    EngineError::Options { .. } => Self::Usage,
                    EngineError::Compiler(_) | EngineError::SetUp(_) => Self::Other,
                    _ => Self::PluginRefused,
                };
            }
            if cause.is::<StoreError>() {
                return Self::Store;
            }
            if cause.is::<ProviderError>() || cause.is::<UsageError>() || cause.is::<DeviceError>() {
                return Self::Usage;
            }
            match cause.downcast_ref::<RuntimeError>() {
                Some(
                    RuntimeError::UnknownSplit { .. }
                    | RuntimeError::NoTasks { .. }
                    | RuntimeError::HeldOutSplit { .. }
                    | RuntimeError::NothingHeldOut { .. }
                    | RuntimeError::Moved { .. },
                ) => return Self::Usage,
                Some(RuntimeError::Tasks(_)) => return Self::PluginRefused,
                Some(RuntimeError::Store(_)) => return Self::Store,
                Some(RuntimeError::Cancelled) => return Self::Interrupted,
                _ => {}
            }
        }
        Self::Other
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Whether the reader of our output went away, as `head` does: no error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == broken)
            // serde_json keeps the cause to itself.
            || cause.downcast_ref::<serde_json::Error>().is_some_and(|error| error.io_error_kind() == Some(broken))
    })
}

/// How things stood in the guest, where the error is one of a guest.
pub(crate) fn report(error: &anyhow::Error) -> Option<&TrapReport> {
    error.chain().find_map(|cause| {
        let failure = match cause.downcast_ref::<EngineError>() {
            Some(EngineError::NoAnswer { failure, .. }) => Some(failure),
            _ => match cause.downcast_ref::<RuntimeError>() {
                Some(RuntimeError::Tasks(failure)) => Some(failure),
                _ => None,
            },
        };
        failure.and_then(|failure| failure.report.as_deref())
    })
}
