//! Plays and scores episodes over the ports (floor 3). Never sees an adapter: not wasmtime, not SQLite, not HTTP.
//!
//! The way of an episode: [`play_run`] fetches tasks and forms groups (members share task and environment seed); `play`
//! drives one episode turn by turn, asking the policy ([`ChatPolicy`]) and stepping the environment; `score` hands the
//! complete episodes of a group to every reward; the recorder stores them; [`RunReport`] sums up.
//!
//! Invariants:
//! * The host drives: no guest calls the policy.
//! * Rewards see only what was recorded. A task's reference never reaches the policy or the environment.
//! * A failure is counted, never scored. A run whose failures pass its budget stops.
//! * Equal plan and equal answers of the models give equal reports, whatever the concurrency.

mod branch;
mod compare;
mod guidance;
mod interval;
pub mod learn;
mod plan;
mod play;
mod policy;
mod replay;
mod report;
mod rescore;
mod run;
mod score;
mod tasks;
mod tools;

pub use compare::Difference;
pub use guidance::{Guidance, GroupSlot};
pub use interval::{Interval, mean_interval};
pub use plan::{Cancel, Plan};
pub use policy::ChatPolicy;
pub use replay::{Outcome, replay_episode, replay_verdicts};
pub use report::{Branching, EpisodeSummary, FailedBy, FailureCount, RewardMean, RunReport, StopReason};
pub use rescore::{EpisodeSource, Rescored, Rescoring, ScoreReport, score_stored};
pub use run::{Observer, Ports, ScoringRule, Tasks, play_run, resume_run, run_digest};

use clawhost_core::{Failure, StoreError};

/// Why a run could not be played to its end. What was recorded before is safe.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The split is not one of the environment's.
    #[error("{environment} has no split `{split}`; it has {known}")]
    UnknownSplit {
        /// The environment.
        environment: String,
        /// What was asked for.
        split: String,
        /// What there is.
        known: String,
    },
    /// The split has no tasks.
    #[error("{environment} gives no tasks in split `{split}`; choose another with --tasks, or other options")]
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
    /// The loop was to be given tasks that decide or report.
    #[error(
        "{environment}: the split `{split}` decides or reports, nothing is learned from it; leave --tasks out, or name another split"
    )]
    HeldOutSplit {
        /// The environment.
        environment: String,
        /// The split.
        split: String,
    },
    /// A playbook was changed while a run that learns it was interrupted.
    #[error(
        "playbook {playbook} was changed since {run} was interrupted; begin a new run without --resume, it goes on from what is served now"
    )]
    Moved {
        /// The playbook.
        playbook: String,
        /// The run.
        run: clawhost_core::RunId,
    },
    /// Every task teaches: nothing is left to decide and to report with.
    #[error(
        "{environment} has no tasks beside `{split}`: what was learned could not be judged; it needs a second split"
    )]
    NothingHeldOut {
        /// The environment.
        environment: String,
        /// The split that teaches.
        split: String,
    },
    /// A stored state cannot be read.
    #[error("{0}: its last checkpoint cannot be read ({1}); begin a new run without --resume")]
    Checkpoint(clawhost_core::RunId, String),
    /// A stored playbook cannot be read.
    #[error(
        "playbook {0} cannot be read ({1}); take an older version with `clawhost playbook rollback`, or another name with --playbook"
    )]
    Playbook(String, String),
    /// Something went wrong between layers.
    #[error(transparent)]
    Learn(#[from] clawhost_learn::LearnError),
    /// A part of the host died.
    #[error("a task of the host stopped unexpectedly: {0}")]
    Host(String),
}
