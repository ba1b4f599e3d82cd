//! Fakes of the ports, and a small learning environment with everything around it, shared by the tests of several crates
//! (no floor: only tests use it).
//!
//! Every fake is deterministic, and asserts that it does not receive what it must not see. None reads a clock or sleeps. An
//! environment that cancels its run then waits forever, until the run drops it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "for tests alone: a test that cannot go on has failed"
)]

mod environments;
pub mod guests;
mod identity;
mod live;
mod models;
mod observers;
mod reflectors;
mod rewards;
mod stores;
mod time;
#[cfg(feature = "tinker")]
mod tinker;
mod weights;
mod world;

pub use environments::{Counting, Fails, Handy, Lights, SeenCalls, is_right, lights, right};
pub use identity::{about, identity};
pub use live::live_run;
pub use models::{Caller, Parrot};
pub use observers::{Silent, Watching};
pub use reflectors::{Proposer, Shown, lesson};
pub use rewards::{Judge, Marks};
pub use stores::{Memory, Shelf};
pub use time::{Free, SetClock, Still};
#[cfg(feature = "tinker")]
pub use tinker::{Reply, Request, Stage, TINKER_BASE, TinkerStub};
pub use weights::{Dial, Dialled};
pub use world::{World, WorldPlan, plan, small};
