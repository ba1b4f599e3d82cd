//! The application library with real components and a real database.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

mod bench;
#[path = "../common/client.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod client;
#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/guests.rs"]
mod guests;
#[path = "../common/stub.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod stub;

mod meaning;
mod namesakes;
mod resuming;
mod tuning;
