//! Errors of a learning run, and reasons for an early end.

use clawhost_core::{Hint, ModelError, RunId, StoreError};
use clawhost_learn::LearnError;
use clawhost_play::{FailureCount, PlayError, StopReason};

/// Why a learning run failed. Earlier checkpoints are intact.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// Episodes could not be played.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// A layer or the transaction failed.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// The requested training split is reserved for validation or test.
    #[error("{environment}: the split `{split}` is reserved for validation or test; learn from another split")]
    HeldOutSplit {
        /// The environment.
        environment: String,
        /// The split.
        split: String,
    },
    /// All tasks are in the training split: none are left for validation and test.
    #[error("{environment} has no tasks outside of `{split}`; validation and test need a second split")]
    NothingHeldOut {
        /// The environment.
        environment: String,
        /// The training split.
        split: String,
    },
    /// The playbook got a new version while a run that learns it was interrupted.
    #[error("playbook {playbook} changed since {run} was interrupted; a new run starts from what is served now")]
    PlaybookChanged {
        /// The playbook.
        playbook: String,
        /// The run.
        run: RunId,
    },
    /// A checkpoint cannot be read.
    #[error("{run}: its last checkpoint cannot be read ({why})")]
    Checkpoint {
        /// The run.
        run: RunId,
        /// The problem.
        why: String,
    },
    /// A stored playbook cannot be read.
    #[error("playbook {playbook} cannot be read ({why})")]
    Playbook {
        /// The playbook.
        playbook: String,
        /// The problem.
        why: String,
    },
    /// The teacher of an objective that distils one gave no scores. Nothing was learned from the iteration.
    #[error("the teacher cannot be learned from: {0}")]
    Teacher(ModelError),
    /// A background task or thread ended unexpectedly.
    #[error("a task of the host stopped unexpectedly: {0}")]
    Host(String),
}

impl From<StoreError> for LearningError {
    fn from(error: StoreError) -> Self {
        Self::Play(error.into())
    }
}

impl LearningError {
    /// A stable identifier, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Play(error) => error.code(),
            Self::Learn(_) => "learn",
            Self::HeldOutSplit { .. } => "held-out-split",
            Self::NothingHeldOut { .. } => "nothing-held-out",
            Self::PlaybookChanged { .. } => "playbook-changed",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Playbook { .. } => "playbook",
            Self::Teacher(_) => "teacher",
            Self::Host(_) => "host",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Play(error) => error.hints(),
            Self::HeldOutSplit { .. } => vec![Hint::Without("tasks")],
            Self::PlaybookChanged { .. } | Self::Checkpoint { .. } => vec![Hint::NewRun],
            Self::Playbook { .. } => {
                vec![Hint::command("playbook rollback", "serves an older version"), Hint::change("playbook")]
            }
            Self::Learn(LearnError::Restore { .. }) | Self::Teacher(_) => vec![Hint::Resume],
            _ => Vec::new(),
        }
    }
}

/// The early end of a phase.
#[derive(Debug)]
pub struct Stopped {
    /// The reason.
    pub reason: StopReason,
    /// The failures of the phase.
    pub failures: Vec<FailureCount>,
}

impl From<StopReason> for Stopped {
    fn from(reason: StopReason) -> Self {
        Self { reason, failures: Vec::new() }
    }
}

/// Why a stage did not complete: it was stopped, and the run can continue from its last checkpoint; or it failed.
#[derive(Debug)]
pub enum Halt {
    /// Stopped in an orderly way.
    Stopped(Stopped),
    /// Failed.
    Failed(LearningError),
}

impl From<Stopped> for Halt {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<StopReason> for Halt {
    fn from(reason: StopReason) -> Self {
        Self::Stopped(reason.into())
    }
}

impl<E: Into<LearningError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The result of a stage.
pub type Staged<T> = Result<T, Halt>;
