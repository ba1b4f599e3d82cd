//! Routers in files: their state, their logs of decisions, and the requests that they are asked about.

mod config;
mod files;
mod request;
mod routed;

pub use config::{ROUTER_COST_WEIGHT, ROUTER_TYPICAL_TOKENS, RoutedSection, RouterFile};
pub use files::{StoredRouter, read_decisions, read_router, router_names, routers_folder, write_router};
pub use request::{EXPLAINED_SEED, ROUTED_REQUEST_BYTES, RequestForm, RoutedRequest};
pub(crate) use routed::{OpenRouter, RouterResult, router_name};
