//! The application library (floor 4): everything that a program needs to run, learn, evaluate, score and replay. Every
//! front end (command line, gateway, tests, other programs) uses it.
//!
//! A [`Workspace`] is a data folder with its store, leases and compile cache. A
//! [`RunSpec`](clawhost_run_config::RunSpec) describes a run. [`run`], [`learn`], [`evaluate`], [`score`] and
//! [`replay`] execute it, emit typed [`Event`]s, and return typed reports. Nothing here prints, parses arguments or
//! ends the process.
//!
//! Invariants: no command-line flag is named; errors carry a code, a kind and structured hints ([`AppError`]).

mod admin_key;
mod asked;
mod background;
mod bench;
mod collect;
mod compare;
mod compiling;
mod configuration;
pub mod connect;
mod data;
pub mod demo;
mod document;
mod drivers;
mod endpoints;
mod episodes;
mod error;
mod error_words;
mod evaluate;
mod events;
mod feedback;
mod gateway_file;
mod gateway_tail;
mod gateway_watch;
mod guidance;
mod host;
mod idle;
mod inspect;
mod judge;
mod keys;
pub mod learn;
mod live;
pub mod local_models;
mod masked;
mod mixing;
mod model_folders;
mod models;
mod modules;
mod no_runs;
mod outcome;
mod own_models;
pub mod playbooks;
pub mod plot;
mod plugin_folder;
mod plugins;
mod proof;
mod reload;
mod replay;
mod request_codes;
mod request_error;
mod request_hints;
mod resume;
mod reward_comparison;
mod reward_history;
pub mod routers;
mod run;
mod run_file;
mod runs;
mod score;
mod serve;
mod served_models;
mod served_routers;
mod session;
mod settled;
mod setup;
mod small_files;
mod stored;
mod sweep;
mod tasks;
mod tinker;
mod tls;
mod traces;
mod unpriced;
mod watched_folder;
mod workspace;

pub use admin_key::known_admin_key;
pub use asked::NotGranted;
pub use background::{
    BackgroundGateway, ConfigurationState, FormerWeights, gateway_is_ready, reload_gateway, running_gateway,
    start_gateway, start_log, stop_gateway,
};
pub use bench::Bench;
pub use clawhost_child::ChildProgram;
pub use clawhost_engine::{ModelGrants, denied_alias};
pub use clawhost_gateway::{
    ACCESS_LOG, ClientKey, GatewayStats, MemoryItem, NewMemory, RecordPolicy, SessionEvent, dollars,
    return_freed_memory, usd_micros,
};
pub use clawhost_learn::live::trials::ForgottenLessons;
pub use clawhost_learn::memory::{InvalidScope, MemoryKind, Scope};
pub use clawhost_model::HubCache;
pub use clawhost_model::tokens::TextHost;
pub use collect::{
    COLLECT_CONCURRENCY, COLLECT_MEMBERS, COLLECT_TIME, CollectReport, CollectRequest, Collected, GATEWAY_KEY_VARIABLE,
    OnCollected, collect,
};
pub use compare::{
    Compared, ComparedRun, Comparison, Obstacle, PerPoint, Point, Ranged, RunCost, RunDifference, Spent, Unlike,
    compare_runs, draw_curves,
};
pub use configuration::{ConfiguredKey, configured_keys, default_of_key, set_configured_key, unset_configured_key};
pub use data::{
    Amount, CitedLesson, DataReport, ForgetError, ForgetReport, ForgetRequest, ForgetScope, HeldRun, Kept, KeptBecause,
    PruneReport, PruneRequest, PruneRule, PrunedRun, finish_forgetting, forget, holdings, prune,
};
pub use drivers::drivers;
pub use endpoints::ConfirmedEndpoints;
pub use episodes::{EpisodeList, EpisodeQuery, Exported, ListedEpisode, export_episodes, find_episode, list_episodes};
pub use error::{AppError, ErrorKind, WrongOption};
pub use evaluate::evaluate;
pub use events::{Event, EventSink, Silent, TaskDifference, Warning};
pub use feedback::{FeedbackReport, FeedbackRequest, give_feedback};
pub use gateway_file::{GATEWAY_FILE, GatewayFile, GatewaySection, LogSection, MOST_RETRIES, ModelSection, TlsSection};
pub use gateway_tail::{GatewayTail, Said, TailLine, TailedExchange};
pub use gateway_watch::{GatewayEvents, GatewayRates, GatewaySummary, GatewayWatch, SeenEvent};
pub use host::HostSettings;
pub use inspect::{Inspected, inspect};
pub use keys::{NewKey, add_client_key, client_keys, remove_client_key, used_by_keys};
pub use learn::{learn, learning_iterations, rehearse};
pub use live::{
    LearningSection, LiveMode, LiveWeightsVersions, MemoryError, MemoryScope, NoLiveMode, OPERATOR, PromotedMemory,
    ScoringSection, ShadowSection, SkillsSection, TrainStep, WeightsSection, WeightsVersion, WithdrawnWeights,
    export_memory, forget_memory, import_memory, list_memory, live_weights, memory_scopes, promote_memory, remember,
    serve_live_weights, train_step,
};
pub use mixing::MixtureError;
pub use model_folders::{find_model_folder, folder_name, read_folder};
pub use models::{MODEL_TIMEOUT_SECONDS, ModelFactory, ModelSettings, RETRIES, ServedOptions};
pub use modules::{AdapterFiles, ComponentHost, ModuleError, Modules, Project, PulledAdapter, adapter_files, pin_of};
pub use no_runs::explain_no_runs;
pub use outcome::{EpisodeBudget, Evaluated, Learned, LearnedWeights, ModelSize, Played, Rehearsal, Timing};
pub use plugin_folder::{FolderError, HERE, PluginFolder, TESTS, Trial, is_interpreted};
pub use plugins::{keep_plugin, plugin_spec};
pub use proof::{
    Proof, ProofError, ProofSummary, ProveRequest, Proved, ProvedAdapter, Sample, Signature, Statement,
    VERIFY_CONCURRENCY, Verified, VerifyRequest, proof_summary, prove, verify,
};
pub use replay::{
    Finding, REPLAY_CONCURRENCY, ReplayOf, ReplayReport, ReplayRequest, ReplayedRecords, ReplayedRun, Tally, replay,
};
pub use request_error::RequestError;
pub use resume::Start;
pub use reward_comparison::{
    Against, ComparedJudge, ComparisonError, JudgeCost, JudgedBy, MeasuredCalls, RewardComparison,
    RewardComparisonRequest, compare_rewards,
};
pub use reward_history::{NoHistory, RewardUses, reward_history};
pub use run::run;
pub use run_file::check_run_file;
pub use runs::{
    Estimate, LIST_LIMIT, ListedRun, RunChoice, RunDetails, RunQuery, choose_runs, find_run, list_runs, rename_run,
    show_run, tag_run,
};
pub use score::{RewardInUse, SCORE_CONCURRENCY, SCORE_FAILURE_BUDGET, ScoreRequest, Scored, ScoredRun, score};
pub use serve::{GATEWAY_LISTEN, ServeRequest, Serving, has_unsettled, serve, settle_live};
pub use settled::{ClosedSessions, close_sessions};
pub use setup::{ModelKey, ModelSpec, SetUp, SetupDefaults, SetupRequest, set_up, setup_defaults};
pub use stored::StoredEpisodes;
pub use sweep::{RoundPlan, SweepPlan, Swept, SweptRun, plan_sweep, sweep};
pub use tasks::{ListedSplit, ListedTask, TASKS_LISTED, TASKS_SEED, TaskListing, TasksRequest, list_tasks};
pub use unpriced::limits_without_prices;
pub use workspace::{STORE_BYTES, SystemClock, Workspace, WorkspaceSettings, default_folder, time};
