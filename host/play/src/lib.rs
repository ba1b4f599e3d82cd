//! Plays, scores, branches and replays episodes over the ports (floor 3). Depends on no adapter: no wasmtime, SQLite or
//! HTTP.
//!
//! The path of an episode: [`play_run`] fetches tasks and forms groups (members share task and environment seed); `play`
//! runs one episode turn by turn, calling the policy ([`ChatPolicy`]) and stepping the environment; `score` passes the
//! complete episodes of a group to every reward; the store records them; [`RunReport`] summarises.
//!
//! Invariants:
//! * The host drives the episode: no guest calls the policy.
//! * Rewards see only recorded data. A task's reference never reaches the policy or the environment.
//! * A failure is counted, never scored. A run whose failures exceed its budget stops.
//! * Equal plans and equal model answers give equal reports, whatever the concurrency.

mod agreement;
mod alone;
mod basis;
mod branch;
mod compare;
mod contrast;
mod error;
mod finished;
mod guidance;
mod interval;
mod mixture;
mod plan;
mod play;
mod policy;
mod records;
mod replay;
mod report;
mod rescore;
mod reward_function;
mod reward_history;
mod run;
mod score;
mod tasks;
mod tools;
mod tries;
mod unread;

pub use agreement::{
    Agreement, Answer, AnswerCounts, Comparing, Confusion, Coverage, DISAGREEMENTS, Disagreement, JudgedPair, Lacking,
    Measure, Passing, RESAMPLES, Sides, SliceAgreement, SliceKind, TASKS_NEEDED, agreement,
};
pub use alone::{Alone, play_alone, play_watched};
pub use basis::{Basis, BasisPart, BasisReward, Conditions, run_digest};
pub use compare::Difference;
pub use contrast::{Cells, Contrast, Design, contrast};
pub use error::PlayError;
pub use finished::finished_reward;
pub use guidance::{GroupSlot, Guidance};
pub use interval::{Interval, mean_interval};
pub use mixture::{Environments, Mixture, Part};
pub use plan::{Cancel, Plan};
pub use play::OnTurn;
pub use policy::ChatPolicy;
pub use records::{check_episode, check_run};
pub use replay::{ReplayOutcome, outside, replay_answered, replay_episode, replay_verdicts};
pub use report::{
    Branching, EpisodeSummary, FailedBy, FailureCount, PartReport, RewardMean, RunReport, StopReason, failure_cause,
};
pub use rescore::{EpisodeSource, Rescored, Rescoring, ScoreReport, ScoringObserver, score_stored};
pub use reward_function::RewardFunction;
pub use reward_history::{RewardHistory, RewardUse};
pub use run::{Observer, PlayedRun, Ports, RunRequest, ScoringRule, Tasks, environment_seed, play_run, range};
pub use score::{group_digest, judged};
pub use tasks::{SHUFFLED, fetch_shuffled, fetch_tasks, split_of, task_rank};
pub use tries::{Averaged, GroupTries, TriesMeasure, pass_at_k, tries_measures};
pub use unread::{Readings, Unread};
