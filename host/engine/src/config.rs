//! The one place where engines are configured: whoever compiles and whoever runs must agree to the letter.

use crate::EngineError;
use crate::cache::CacheKey;
use crate::compile::Compiler;
use clawhost_core::{Digest, Limits};
use sha2::{Digest as _, Sha256};
use std::hash::{Hash as _, Hasher};
use std::path::PathBuf;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How instances get their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// From slots reserved at start: microseconds. Components over the pooled size still go on demand.
    Pooled,
    /// From the system, one by one: for hosts with little address space, and for big guests.
    OnDemand,
}

/// How a host is set up.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Every limit.
    pub limits: Limits,
    /// How instances get their memory.
    pub allocation: Allocation,
    /// Where compiled artefacts are kept and the key that marks them as ours; none keeps nothing.
    pub cache: Option<(PathBuf, CacheKey)>,
    /// How components are compiled that this host has not compiled before.
    pub compiler: Compiler,
    /// Whether components that carry an interpreter (Python, JavaScript) may be loaded.
    pub allow_interpreters: bool,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            allocation: Allocation::Pooled,
            cache: None,
            compiler: Compiler::InProcess,
            allow_interpreters: false,
        }
    }
}

/// Kernel mappings of one pooled component instance: memory in use, memory not in use, stack, its guard (measured: 4.0).
/// Tables lie side by side in one mapping. An image mapped copy-on-write would add two.
const MAPPINGS_PER_INSTANCE: usize = 4;

/// Address space behind the largest memory that nobody ever gets: two guests are never neighbours. Every access is
/// checked beforehand; this is for the day when a check is wrong. Much more would cost a page table more per instance.
const MEMORY_GAP_BYTES: usize = 64 * 1024 * 1024;

/// Mappings left for everything else in the process.
const MAPPINGS_KEPT_FREE: usize = 10_000;

/// The kernel's usual limit where it cannot be read.
const USUAL_MAX_MAPPINGS: usize = 65_530;

/// Stack of a fiber beyond the guest's own: host functions run on it too.
const HOST_STACK_BYTES: usize = 512 * 1024;

/// Bytes of every memory slot that stay in place between instances. The kernel tells which pages were touched
/// (`PAGEMAP_SCAN`, Linux 6.7), and those are reset in place, which is cheaper than faulting in new ones. An SDK guest has
/// 1 MiB of stack below its data, so the touched pages lie above that.
const KEEP_MEMORY_BYTES: usize = 2 * 1024 * 1024;

/// The same for tables.
const KEEP_TABLE_BYTES: usize = 64 * 1024;

/// Frames of the guest kept in a trap's report.
const BACKTRACE_FRAMES: usize = 32;

/// Core instances, memories and tables per component in the pool: an SDK guest has one main module and the adapters
/// that `wit-component` adds.
const POOLED_CORE_INSTANCES: u32 = 4;
const POOLED_MEMORIES: u32 = 1;
const POOLED_TABLES: u32 = 3;

/// Guest memory that all instances of this machine may hold: half of what it has, and at least what [`Limits`] says. Counted is what
/// guests declare, most of which they never touch.
pub fn guest_memory_bytes(limits: &Limits) -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes: usize = total.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
    limits.host_memory_bytes.max(kibibytes.saturating_mul(1024) / 2)
}

/// How many instances the pool can hold on this machine.
pub fn pool_slots(limits: &Limits) -> usize {
    let mappings = std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(USUAL_MAX_MAPPINGS);
    let by_mappings = mappings.saturating_sub(MAPPINGS_KEPT_FREE) / MAPPINGS_PER_INSTANCE;
    limits.live_instances.min(by_mappings).max(1)
}

/// Whether this kernel can tell which pages were touched. Without it, keeping memory in place would mean clearing all of
/// it for every instance.
pub fn kernel_scans_pages() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).flat_map(str::parse::<u32>);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 7)
}

/// The engine for an allocation strategy.
pub(crate) fn engine(limits: &Limits, allocation: Allocation) -> Result<Engine, EngineError> {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        // Equal inputs, equal bits: NaNs are made canonical, relaxed SIMD takes its deterministic meaning.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .max_wasm_stack(limits.stack_bytes)
        .async_stack_size(limits.stack_bytes + HOST_STACK_BYTES)
        // Bounds are checked by the guest's code, not by protected pages: an instance that takes over a slot then changes no
        // protection, which cost a third of its start, and a flush on every core. Code that only computes pays up to a fifth.
        .signals_based_traps(false)
        .memory_guard_size(0)
        .memory_reservation(limits.memory_bytes.saturating_add(MEMORY_GAP_BYTES) as u64)
        .memory_may_move(false)
        // Data is copied in, not mapped: two mappings less per instance, and no fault at the first write.
        .memory_init_cow(false)
        // Frames of the guest in trap reports.
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(BACKTRACE_FRAMES))
        .generate_address_map(true);
    if allocation == Allocation::Pooled {
        let slots = u32::try_from(pool_slots(limits)).unwrap_or(u32::MAX);
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(slots)
            .total_core_instances(slots.saturating_mul(POOLED_CORE_INSTANCES))
            .total_memories(slots.saturating_mul(POOLED_MEMORIES))
            .total_tables(slots.saturating_mul(POOLED_TABLES))
            .total_stacks(slots)
            .max_core_instances_per_component(POOLED_CORE_INSTANCES)
            .max_memories_per_component(POOLED_MEMORIES)
            .max_tables_per_component(POOLED_TABLES)
            .max_memory_size(limits.memory_bytes)
            .table_elements(limits.table_elements)
            .table_keep_resident(KEEP_TABLE_BYTES);
        if kernel_scans_pages() {
            pool.linear_memory_keep_resident(KEEP_MEMORY_BYTES).pagemap_scan(wasmtime::Enabled::Auto);
        }
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    } else {
        config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    }
    #[allow(clippy::disallowed_methods, reason = "this is the one constructor that the rule points to")]
    Engine::new(&config).map_err(|error| EngineError::SetUp(format!("{error:#}")))
}

/// Names everything that decides whether a compiled artefact fits an engine.
pub(crate) fn fingerprint(engine: &Engine) -> Digest {
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn finish(&self) -> u64 {
            0
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut hasher = Sha(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    Digest::of(&hasher.0.finalize())
}
