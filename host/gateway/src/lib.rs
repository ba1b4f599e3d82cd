//! A gateway in front of models (floor 3): agents reach it by their `base_url`; every exchange is forwarded, streamed and recorded as a
//! part of an episode.
//!
//! It sees ports and pure crates, the clients of `providers`, and no store, engine or local model: `clawhost-app` connects them.
//!
//! The way of a request: [`http`] guards the door and reads it, [`models`] finds the model, [`capture`] finds the session; the answer is
//! passed on while it comes, and is written to the spool before its last byte. The importer takes records over into the store, and makes
//! an episode of them when the session ends.
//!
//! Invariants: an exchange is recorded at most once, and before its last byte is released; where that fails, the client and the counts
//! say so. What is forwarded in one dialect is not written anew, except for named fields. A client's request ends when the client goes.

mod allocator;
mod breaker;
mod capture;
mod config;
mod dashboard;
mod error;
mod feedback;
mod guiding;
mod http;
mod ingest;
mod keys;
mod learned;
mod memory;
mod models;
mod observe;
mod pool;
mod record_policy;
mod routing;
mod settle;
mod store;
mod tls;

pub use allocator::return_freed_memory;
pub use capture::used_today;
pub use clawhost_capture::{CaptureError, Guided, GuidedBy, Redaction, RedactionSettings, SessionsLimits};
pub use config::{GatewayChange, GatewayConfig, GatewayLimits, GatewayParts};
pub use error::GatewayError;
pub use guiding::{
    Draws, GuidanceChoice, Guide, Guiding, MemoryBook, MemoryItem, MemoryParty, NewMemory, NotRemembered,
};
pub use http::{Gateway, GatewayCounts, Running};
pub use ingest::{Guidance, GuidanceEntry, GuidanceSource};
pub use keys::{ADMIN_KEY_PREFIX, ClientKey, ClientKeys, KEY_PREFIX, PLACEHOLDER_KEY, dollars, usd_micros};
pub use learned::{
    EntryView, LearnedBook, LearnedView, LessonView, Lift, ShadowDayView, ShadowView, TrialView, VersionReward,
    VersionView, WeightsStepView, WeightsView,
};
pub use models::{Candidate, ModelSource, OwnSources, ServedModel, check_models};
pub use observe::{
    ACCESS_LOG, AliasStats, Durations, ExchangeEvent, GatewayEvent, GatewayStats, ModelEvent, ModelStats, RequestStats,
    STATS_FORMAT, SessionEvent, TraceSettings,
};
pub use pool::EpisodeJudge;
pub use record_policy::{NoRecordPolicy, RecordPolicy};
pub use routing::{Chooser, Choosing, Chosen, Routing};
pub use settle::{clear_spool, is_waiting, settle, spool_end};
pub use store::{CaptureStore, OpenReader};
pub use tls::TlsIdentity;
