//! Errors of playing a run.

use clawhost_core::{Failure, Hint, StoreError};

/// Why a run failed. Episodes recorded before are intact.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The environment does not have this split.
    #[error("{environment} has no split `{split}`; it has {known}")]
    UnknownSplit {
        /// The environment.
        environment: String,
        /// The requested split.
        split: String,
        /// The environment's splits.
        known: String,
    },
    /// The split has no tasks.
    #[error("{environment} gives no tasks in split `{split}`; other options of the environment may give some")]
    NoTasks {
        /// The environment.
        environment: String,
        /// The split.
        split: String,
    },
    /// The environments cannot share a run.
    #[error("the mixture of environments cannot be played: {why}")]
    Mixture {
        /// The reason.
        why: String,
    },
    /// The environment failed to list its tasks.
    #[error("the tasks cannot be read: {0}")]
    Tasks(Failure),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operator stopped the run before an episode was played.
    #[error("stopped before anything was played; the same command begins again")]
    Cancelled,
    /// A background task ended unexpectedly.
    #[error("a task of the host stopped unexpectedly: {0}")]
    Host(String),
}

impl PlayError {
    /// A stable identifier, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownSplit { .. } => "unknown-split",
            Self::NoTasks { .. } => "no-tasks",
            Self::Mixture { .. } => "mixture",
            Self::Tasks(_) => "tasks",
            Self::Store(error) => error.code(),
            Self::Cancelled => "cancelled",
            Self::Host(_) => "host",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::UnknownSplit { .. } | Self::NoTasks { .. } => vec![Hint::change("tasks")],
            Self::Mixture { .. } => vec![Hint::change("mix")],
            Self::Store(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
