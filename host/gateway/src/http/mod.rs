//! The HTTP side: the door, the routes, the way of an exchange, the server.

mod access;
mod answer;
mod exchange;
mod guard;
mod hints;
mod pass;
mod relay;
mod responses;
mod routes;
mod serve;
mod shape;
mod translate;

pub use serve::{Gateway, GatewayCounts, Running};
