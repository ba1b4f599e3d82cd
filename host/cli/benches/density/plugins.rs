//! Hosts and guests of the benchmark.

use clawhost_core::{Attributes, Context, Limits, Message, Origin, Role, StartParams, Task};
use clawhost_engine::{Allocation, CacheKey, EnvironmentPlugin, Host, HostConfig, ModelGrants};
use std::path::{Path, PathBuf};

/// The build folder: two folders above the benchmark's own.
pub(crate) fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// A guest's component.
pub(crate) fn guest(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("CLAWHOST_GUESTS").map_or_else(|| target().join("guests"), PathBuf::from);
    let path = folder.join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|_| panic!("{}: run `cargo xtask guests` first", path.display()))
}

/// A host with the program's settings.
pub(crate) fn host(allocation: Allocation, cache: Option<&Path>) -> Host {
    let cache = cache.map(|folder| (folder.to_owned(), CacheKey([1; 32])));
    Host::new(HostConfig { allocation, cache, ..HostConfig::default() }).unwrap()
}

/// Address space that 10,000 guests may declare. A guest declares a little over 1 MiB and touches a few pages of it.
/// The host's default limits declared memory to 2 GiB.
const DECLARED_BYTES: usize = 16 << 30;

/// A host for as many instances as it has slots.
pub(crate) fn roomy_host(cache: Option<&Path>) -> Host {
    let limits = Limits { host_memory_bytes: DECLARED_BYTES, ..Limits::default() };
    let cache = cache.map(|folder| (folder.to_owned(), CacheKey([1; 32])));
    Host::new(HostConfig { limits, cache, ..HostConfig::default() }).unwrap()
}

/// A loaded environment.
pub(crate) async fn environment(host: &Host, name: &str) -> EnvironmentPlugin {
    host.environment(name, &guest(name), ModelGrants::default()).await.unwrap()
}

/// The parameters of an episode's start.
pub(crate) fn params(seed: u64) -> StartParams {
    let task = Task::new("train", "train-0");
    StartParams {
        task,
        context: Context { seed, options: Attributes::new() },
        max_turns: u32::MAX,
        answers: clawhost_core::ModelCallSource::Live,
    }
}

/// A policy's message.
pub(crate) fn action(text: impl Into<String>) -> Message {
    Message::text(Role::Assistant, Origin::Policy, text)
}

/// The text of most measurements.
pub(crate) fn kibibyte() -> String {
    "x".repeat(1024)
}
