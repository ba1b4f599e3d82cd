//! The configuration of engines. It is in one place because compiling and loading must use identical settings.

use crate::EngineError;
use crate::cache::CacheKey;
use crate::compile::Compiler;
use clawhost_core::{Digest, Limits};
use sha2::{Digest as _, Sha256};
use std::hash::{Hash as _, Hasher};
use std::path::{Path, PathBuf};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How instances get memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// From slots reserved at start, which takes microseconds. Components over the pooled size are allocated on demand.
    Pooled,
    /// From the system, one by one: for hosts with little address space, and for large guests.
    OnDemand,
}

/// Configuration of a host.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// All limits.
    pub limits: Limits,
    /// How instances get memory.
    pub allocation: Allocation,
    /// The cache folder and its key; `None`: no cache.
    pub cache: Option<(PathBuf, CacheKey)>,
    /// How new components are compiled.
    pub compiler: Compiler,
    /// Whether components that contain an interpreter (Python, JavaScript) may be loaded.
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

/// Kernel mappings of one pooled component instance: used memory, unused memory, stack, guard (measured: 4.0). Tables share
/// one mapping. A copy-on-write image would add two.
const MAPPINGS_PER_INSTANCE: usize = 4;

/// Unused address space after the largest memory, so that two guests are never adjacent. Every access is bounds-checked;
/// this is a second defence. Much more would cost another page table per instance.
const MEMORY_GAP_BYTES: usize = 64 * 1024 * 1024;

/// Mappings reserved for the rest of the process.
const MAPPINGS_KEPT_FREE: usize = 10_000;

/// The kernel's default limit, used if it cannot be read.
const USUAL_MAX_MAPPINGS: usize = 65_530;

/// Stack of a fiber beyond the guest's own: host functions use it too.
const HOST_STACK_BYTES: usize = 512 * 1024;

/// Bytes of every memory slot that stay mapped between instances. The kernel reports which pages were touched
/// (`PAGEMAP_SCAN`, Linux 6.7), and only those are reset, which is cheaper than new page faults. An SDK guest has 1 MiB of
/// stack below its data, so the touched pages lie above that.
const KEEP_MEMORY_BYTES: usize = 2 * 1024 * 1024;

/// The same for tables.
const KEEP_TABLE_BYTES: usize = 64 * 1024;

/// Guest frames captured for a trap report.
const BACKTRACE_FRAMES: usize = 32;

/// Core instances, memories and tables per pooled component: an SDK guest has one main module and the adapters that
/// `wit-component` adds.
const POOLED_CORE_INSTANCES: u32 = 4;
const POOLED_MEMORIES: u32 = 1;
const POOLED_TABLES: u32 = 3;

/// More than the kernel writes into any of its files that are read here.
const PROC_BYTES: u64 = 1 << 20;

/// Guest memory that all instances may reserve: half of the machine's memory, and at least the value in [`Limits`]. It
/// counts declared memory, most of which guests never touch.
pub fn guest_memory_bytes(limits: &Limits) -> usize {
    let text = clawhost_files::read_text(Path::new("/proc/meminfo"), PROC_BYTES).unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes: usize = total.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
    limits.host_memory_bytes.max(kibibytes.saturating_mul(1024) / 2)
}

/// Number of instances that fit into the pool on this machine.
pub fn pool_slots(limits: &Limits) -> usize {
    let mappings = clawhost_files::read_text(Path::new("/proc/sys/vm/max_map_count"), PROC_BYTES)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(USUAL_MAX_MAPPINGS);
    let by_mappings = mappings.saturating_sub(MAPPINGS_KEPT_FREE) / MAPPINGS_PER_INSTANCE;
    limits.live_instances.min(by_mappings).max(1)
}

/// Whether this kernel can report touched pages. Without it, keeping memory mapped would require clearing all of it for
/// every instance.
pub fn kernel_scans_pages() -> bool {
    let release = clawhost_files::read_text(Path::new("/proc/sys/kernel/osrelease"), PROC_BYTES).unwrap_or_default();
    let mut numbers = release.split(|character: char| !character.is_ascii_digit()).flat_map(str::parse::<u32>);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 7)
}

/// The engine for an allocation strategy.
pub(crate) fn engine(limits: &Limits, allocation: Allocation) -> Result<Engine, EngineError> {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        // Equal inputs give equal bits: NaNs are canonical, and relaxed SIMD is deterministic.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .max_wasm_stack(limits.stack_bytes)
        .async_stack_size(limits.stack_bytes + HOST_STACK_BYTES)
        // Guest code checks bounds, instead of protected pages: reusing a slot then changes no page protection, which took a
        // third of an instance's start time and a TLB flush on every core. Compute-bound code is up to a fifth slower.
        .signals_based_traps(false)
        .memory_guard_size(0)
        .memory_reservation(limits.memory_bytes.saturating_add(MEMORY_GAP_BYTES) as u64)
        .memory_may_move(false)
        // Data is copied, not mapped: two mappings fewer per instance, and no page fault at the first write.
        .memory_init_cow(false)
        // Guest frames in trap reports.
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

/// Digest of everything that determines whether a compiled artefact matches an engine.
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
