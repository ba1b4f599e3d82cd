//! Plays, scores, branches and replays episodes over the ports (floor 3). Never sees an adapter: not wasmtime, not SQLite, not
//! HTTP.
//!
//! An episode's way: [`play_run`] fetches tasks and forms groups (members share task and environment seed); `play` drives one
//! episode turn by turn, asking the policy ([`ChatPolicy`]) and stepping the environment; `score` hands the complete episodes
//! of a group to every reward; the recorder stores them; [`RunReport`] sums up.
//!
//! Invariants:
//! * The host drives: no guest calls the policy.
//! * Rewards see only what was recorded. A task's reference never reaches the policy or the environment.
//! * A failure is counted, never scored. A run whose failures exceed its budget stops.
//! * Equal plan and equal answers of the models give equal reports, whatever the concurrency.

mod branch;
mod compare;
mod error;
mod finished;
mod guidance;
mod interval;
mod plan;
mod play;
mod policy;
mod replay;
mod report;
mod rescore;
mod reward_function;
mod run;
mod score;
mod tasks;
mod tools;

pub use compare::Difference;
pub use error::PlayError;
pub use finished::finished_reward;
pub use guidance::{GroupSlot, Guidance};
pub use interval::{Interval, mean_interval};
pub use plan::{Cancel, Plan};
pub use policy::ChatPolicy;
pub use replay::{ReplayOutcome, outside, replay_episode, replay_verdicts};
pub use report::{Branching, EpisodeSummary, FailedBy, FailureCount, RewardMean, RunReport, StopReason, failure_cause};
pub use rescore::{EpisodeSource, Rescored, Rescoring, ScoreReport, score_stored};
pub use reward_function::RewardFunction;
pub use run::{
    Observer, PlayedRun, Ports, RunRequest, ScoringRule, Tasks, environment_seed, play_run, range, run_digest,
};
pub use tasks::{fetch_tasks, split_of};
