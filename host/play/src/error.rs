//! Why a run could not be played to its end.

use clawhost_core::{Failure, Hint, StoreError};

/// Why a run could not be played to its end. What was recorded before is safe.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The split is not one of the environment's.
    #[error("{environment} has no split `{split}`; it has {known}")]
    UnknownSplit {
        /// The environment.
        environment: String,
        /// What was asked for.
        split: String,
        /// The splits that it has.
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
    /// The environment does not give its tasks.
    #[error("the tasks cannot be read: {0}")]
    Tasks(Failure),
    /// Nothing can be recorded.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operator stopped it before anything was played.
    #[error("stopped before anything was played; the same command begins again")]
    Cancelled,
    /// A part of the host died.
    #[error("a task of the host stopped unexpectedly: {0}")]
    Host(String),
}

impl PlayError {
    /// A stable name, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownSplit { .. } => "unknown-split",
            Self::NoTasks { .. } => "no-tasks",
            Self::Tasks(_) => "tasks",
            Self::Store(error) => error.code(),
            Self::Cancelled => "cancelled",
            Self::Host(_) => "host",
        }
    }

    /// What may mend it.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::UnknownSplit { .. } | Self::NoTasks { .. } => vec![Hint::change("tasks")],
            Self::Store(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
