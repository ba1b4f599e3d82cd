//! The HTTP side: the door, the routes, the way of an exchange, the server.

mod access;
mod answer;
mod attempts;
mod body;
mod context;
mod edits;
mod exchange;
mod guard;
mod held;
mod hints;
mod outlet;
mod pass;
mod reading;
mod relay;
mod responses;
mod routes;
mod serve;
mod shape;
mod tokens;
mod translate;

pub(crate) use access::{Client, KeyUse, Sees};
pub(crate) use answer::{Refusal, json, set};
pub(crate) use attempts::is_passing;
pub(crate) use exchange::{complete, utf8};
pub(crate) use hints::{GuidanceWish, agent_in, no_trajectory, plain, project_in, user_in, wants_no_train};
pub(crate) use relay::stream_head;
pub(crate) use routes::{answered, body_of, body_of_form, known as open_client};
pub(crate) use serve::Inner;
pub use serve::{Gateway, GatewayCounts, Running};
pub(crate) use shape::Shape;
pub(crate) use tokens::text_of;
