//! The store on real files: appends are complete or have no effect, and errors are named.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

mod blobs;
mod documents;
mod door;
mod episode_filters;
mod episodes;
mod forgetting;
mod learning;
mod leases;
mod ledger;
mod memory;
mod opening;
mod records;
mod retention;
mod routing;
mod run_labels;
mod trials;
