//! Routers in files: their state, their logs of decisions, and the requests that they are asked about.

mod book;
mod candidate;
mod config;
mod explain;
mod files;
mod forgetting;
mod live;
mod log;
mod plugin;
mod promote;
mod request;
mod routed;
mod settling;
mod spending;
mod versions;

pub use book::{GateBook, LiveBook, RouterBook};
pub use config::{ROUTER_COST_WEIGHT, ROUTER_TYPICAL_TOKENS, RoutedSection, RouterFile};
pub use explain::{Explained, explain_request};
pub(crate) use files::router_file;
pub use files::{StoredRouter, read_router, router_names, routers_folder, waiting_decisions, write_router};
pub(crate) use forgetting::{LogChange, change_logs};
pub(crate) use live::LiveRouter;
pub use log::read_decisions;
pub(crate) use plugin::{RouterPluginSource, RouterPlugins, component_of};
pub use promote::{Promoted, Promotion, WaitingCandidate, discard_candidate, promote_router, waiting_candidates};
pub use request::{EXPLAINED_SEED, ROUTED_REQUEST_BYTES, RequestForm, RoutedRequest};
pub use routed::RouterUse;
pub(crate) use routed::{OpenRouter, RouterResult, described, granted_routers, router_name};
pub(crate) use settling::Settling;
pub use spending::{DaySpent, RouterSpending};
pub use versions::{KEPT_VERSIONS, RolledBack, RouterVersion, roll_back_router, router_versions};
