//! Runs components in wasmtime (floor 2): the only crate that depends on wasmtime.
//!
//! A [`Host`] owns the engines, the compile cache, the epoch ticker and the limit on live instances. It loads bytes as
//! [`EnvironmentPlugin`], [`RewardPlugin`], [`ReflectorPlugin`] or [`RouterPlugin`], which implement the ports of `core`.
//!
//! The path of a call: `call::begin` sets fuel, transfer and host-call budgets on the store; the guest runs on a fiber and
//! yields at every epoch tick; `call::end` converts the outcome to a value or a [`Failure`] with a trap report. Returned
//! values are checked against [`Limits`] during conversion (`check`, `convert`): lengths, finite numbers, known cases.
//!
//! Invariants:
//! * A store lives for one episode (or one call of another plugin). After a failure it is never entered again.
//! * Every engine is configured by one constructor, in `config`.
//! * Native code is loaded only if its tag proves that this host compiled it.
//! * Guests have no files, no sockets, no real clock, and no entropy except their seed.
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
mod cost;
mod embed;
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
mod router;
mod state;
mod ticker;
mod walk;

pub use binary::{ComponentOutline, World};
pub use cache::CacheKey;
pub use compile::{COMPILE_MEMORY_BYTES, COMPILE_SECONDS, Compiler, INTERPRETER_COMPILE_SECONDS, serve_compiler};
pub use config::{Allocation, HostConfig, guest_memory_bytes, kernel_scans_pages, pool_slots};
pub use embed::with_manifest;
pub use environment::EnvironmentPlugin;
pub use error::EngineError;
pub use grants::{ModelGrants, denied_alias};
pub use host::{Compiling, Host, examine};

/// The major version of wasmtime. Another one may count fuel differently, so a record is replayed by the one that made it.
pub const ENGINE_MAJOR: u32 = 48;

/// A message after a round trip through the guest types, for tests of the boundary.
pub fn round_trip(message: &clawhost_core::Message) -> clawhost_core::Message {
    convert::message_from(convert::message_to(message), message.origin)
}

pub use inspect::{Inspection, Permission};
pub use reflector::ReflectorPlugin;
pub use reward::RewardPlugin;
pub use router::RouterPlugin;

#[cfg(test)]
mod tests {
    #[test]
    fn the_major_version_is_that_of_the_library() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("\nwasmtime = {{ version = \"={}.", super::ENGINE_MAJOR)));
    }
}
