//! Routers in files: their state, their logs of decisions, and the requests that they are asked about.

mod files;
mod request;

pub use files::{StoredRouter, read_decisions, read_router, router_names, routers_folder, write_router};
pub use request::{EXPLAINED_SEED, ROUTED_REQUEST_BYTES, RequestForm, RoutedRequest};
