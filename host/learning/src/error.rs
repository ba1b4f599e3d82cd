//! Why a learning run could not go on, and why a part of it ended early.

use clawhost_core::{Hint, RunId, StoreError};
use clawhost_learn::LearnError;
use clawhost_play::{FailureCount, PlayError, StopReason};

/// Why a learning run could not be played to its end. What was checkpointed before is safe.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// Episodes could not be played.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// Something went wrong between layers.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// The loop was to learn from tasks that decide or report.
    #[error("{environment}: the split `{split}` decides or reports, so nothing is learned from it")]
    HeldOutSplit {
        /// The environment.
        environment: String,
        /// The split.
        split: String,
    },
    /// Every task teaches: none is left to decide and to report with.
    #[error(
        "{environment} has no tasks beside `{split}`: what is learned could not be judged; it needs a second split"
    )]
    NothingHeldOut {
        /// The environment.
        environment: String,
        /// The split that teaches.
        split: String,
    },
    /// A playbook changed while a run that learns it was interrupted.
    #[error("playbook {playbook} changed since {run} was interrupted; a new run starts from what is served now")]
    PlaybookChanged {
        /// The playbook.
        playbook: String,
        /// The run.
        run: RunId,
    },
    /// A stored state cannot be read.
    #[error("{run}: its last checkpoint cannot be read ({why})")]
    Checkpoint {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        why: String,
    },
    /// A stored playbook cannot be read.
    #[error("playbook {playbook} cannot be read ({why})")]
    Playbook {
        /// The playbook.
        playbook: String,
        /// What is wrong with it.
        why: String,
    },
    /// A part of the host died.
    #[error("a task of the host stopped unexpectedly: {0}")]
    Host(String),
}

impl From<StoreError> for LearningError {
    fn from(error: StoreError) -> Self {
        Self::Play(error.into())
    }
}

impl LearningError {
    /// A stable name, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Play(error) => error.code(),
            Self::Learn(_) => "learn",
            Self::HeldOutSplit { .. } => "held-out-split",
            Self::NothingHeldOut { .. } => "nothing-held-out",
            Self::PlaybookChanged { .. } => "playbook-changed",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Playbook { .. } => "playbook",
            Self::Host(_) => "host",
        }
    }

    /// What may mend it.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Play(error) => error.hints(),
            Self::HeldOutSplit { .. } => vec![Hint::Without("tasks")],
            Self::PlaybookChanged { .. } | Self::Checkpoint { .. } => vec![Hint::NewRun],
            Self::Playbook { .. } => {
                vec![Hint::command("playbook rollback", "serves an older version"), Hint::change("playbook")]
            }
            Self::Learn(LearnError::Restore { .. }) => vec![Hint::Resume],
            _ => Vec::new(),
        }
    }
}

/// Why a phase ended early.
#[derive(Debug)]
pub struct Stopped {
    /// The reason.
    pub reason: StopReason,
    /// What failed in it.
    pub failures: Vec<FailureCount>,
}

impl From<StopReason> for Stopped {
    fn from(reason: StopReason) -> Self {
        Self { reason, failures: Vec::new() }
    }
}

/// Why a stage did not come to its end: it was stopped, and the run goes on from its last checkpoint another time; or it failed.
#[derive(Debug)]
pub enum Halt {
    /// Stopped in order.
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

/// What a stage gives.
pub type Staged<T> = Result<T, Halt>;
