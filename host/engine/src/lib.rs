//! Plays components in wasmtime (floor 2): the only crate that sees wasmtime.
//!
//! A [`Host`] owns the engines, the compile cache, the epoch ticker and the budget of live instances. It loads bytes into
//! [`EnvironmentPlugin`], [`RewardPlugin`] or [`ReflectorPlugin`], which implement the ports of `core`.
//!
//! The way of one call: `call::begin` sets fuel, transfer and host-call budgets on the store; the guest runs on a
//! fiber and yields at every epoch tick; `call::end` turns whatever came back into a value or a [`Failure`] with a trap
//! report. What the guest returned is then checked against [`Limits`] while it is converted (`check`, `convert`):
//! lengths, finite numbers, known cases.
//!
//! Invariants:
//! * A store lives for one episode (or one call of a reward). After a failure it is refused, never re-entered.
//! * Every engine comes from one configuration constructor, in `config`.
//! * Native code is loaded only when its tag proves that this host compiled it.
//! * Guests have no files, no sockets, no real clock and no entropy but their seed.
//!
//! [`Failure`]: clawhost_core::Failure
//! [`Limits`]: clawhost_core::Limits

mod binary;
mod cache;
mod call;
mod capability;
mod check;
mod compile;
mod config;
mod convert;
mod environment;
mod error;
mod failure;
mod grants;
mod host;
mod inspect;
mod instance;
mod lane;
mod reflector;
mod reward;
mod state;
mod ticker;
mod walk;

pub use binary::{ComponentOutline, World};
pub use cache::CacheKey;
pub use compile::{COMPILE_MEMORY_BYTES, COMPILE_SECONDS, Compiler, serve_compiler};
pub use config::{Allocation, HostConfig, guest_memory_bytes, kernel_scans_pages, pool_slots};
pub use environment::EnvironmentPlugin;
pub use error::EngineError;
pub use grants::ModelGrants;
pub use host::{Host, examine};

/// A message as a guest would hand it back that changes nothing: for tests of the boundary.
pub fn round_trip(message: &clawhost_core::Message) -> clawhost_core::Message {
    convert::message_from(convert::message_to(message), message.origin)
}

pub use inspect::{Inspection, Permission};
pub use reflector::ReflectorPlugin;
pub use reward::RewardPlugin;
