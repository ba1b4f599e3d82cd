//! The application library (floor 4): what a program needs to run, learn, evaluate, score and replay. Every front end (command
//! line, gateway, tests, somebody's program) goes through it.
//!
//! A [`Workspace`] is a data folder with its store, leases and compile cache. A [`RunSpec`](clawhost_run_config::RunSpec) says
//! what is to be done; [`run`], [`learn`], [`evaluate`], [`score`] and [`replay`] do it, emit typed [`Event`]s while they work,
//! and return typed reports. Nothing here prints, parses arguments or ends the process.
//!
//! Invariants: no command-line flag is named; errors carry a code, a kind and structured hints ([`AppError`]).

mod data;
pub mod demo;
mod episodes;
mod error;
mod evaluate;
mod events;
mod feedback;
mod host;
mod inspect;
pub mod learn;
pub mod local_models;
mod models;
mod outcome;
pub mod playbooks;
pub mod plot;
mod plugins;
mod replay;
mod resume;
mod run;
mod score;
mod session;
mod stored;
mod workspace;

pub use data::{
    Amount, DataReport, HeldRun, Kept, KeptBecause, PruneReport, PruneRequest, PruneRule, PrunedRun, holdings, prune,
};
pub use episodes::{LIST_LIMIT, ListedEpisode, ListedRun, export_episodes, find_episode, list_episodes, list_runs};
pub use error::{AppError, ErrorKind, RequestError};
pub use evaluate::evaluate;
pub use events::{Event, EventSink, Silent, Warning};
pub use feedback::{FeedbackReport, FeedbackRequest, give_feedback};
pub use host::{CompilerProgram, HostSettings};
pub use inspect::{Inspected, inspect};
pub use learn::{learn, rehearse};
pub use models::{MODEL_TIMEOUT_SECONDS, ModelFactory, ModelSettings, ProbeProgram, RETRIES, folder_name, read_folder};
pub use outcome::{EpisodeBudget, Evaluated, Learned, LearnedWeights, ModelSize, Played, Rehearsal, Timing};
pub use plugins::{keep_plugin, plugin_spec};
pub use replay::{Finding, REPLAY_CONCURRENCY, ReplayOf, ReplayReport, ReplayRequest, ReplayedRun, Tally, replay};
pub use resume::Start;
pub use run::run;
pub use score::{RewardInUse, SCORE_CONCURRENCY, SCORE_FAILURE_BUDGET, ScoreRequest, Scored, score};
pub use stored::{DamagedRecord, StoredEpisodes, choose_run};
pub use workspace::{SystemClock, Workspace, WorkspaceSettings, default_folder, has_cache, time};
