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
#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/guests.rs"]
mod guests;

mod namesakes;
mod resuming;
mod tuning;
