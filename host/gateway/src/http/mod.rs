//! The HTTP side: the door, the routes, the way of an exchange, the server.

mod answer;
mod exchange;
mod guard;
mod hints;
mod relay;
mod routes;
mod serve;
mod translate;

pub use serve::{Gateway, GatewayCounts, Running};
