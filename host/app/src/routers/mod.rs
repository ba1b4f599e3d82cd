//! Routers in files: their state, their logs of decisions, and the requests that they are asked about.

mod config;
mod files;
mod live;
mod request;
mod routed;
mod settling;
mod versions;

pub use config::{ROUTER_COST_WEIGHT, ROUTER_TYPICAL_TOKENS, RoutedSection, RouterFile};
pub use files::{
    LiveBook, StoredRouter, read_decisions, read_router, router_names, routers_folder, waiting_decisions, write_router,
};
pub(crate) use live::LiveRouter;
pub use request::{EXPLAINED_SEED, ROUTED_REQUEST_BYTES, RequestForm, RoutedRequest};
pub(crate) use routed::{OpenRouter, RouterResult, described, router_name};
pub(crate) use settling::Settling;
pub use versions::{RolledBack, RouterVersion, roll_back_router, router_versions};
