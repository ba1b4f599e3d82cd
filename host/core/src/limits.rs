//! Limits: one struct, shown by `inspect`, obeyed by every path, raised only by the operator.

use serde::{Deserialize, Serialize};

/// Fuel that stands for one second of computing. Fuel is counted per wasm instruction and is exact for a component's
/// digest, so it judges; seconds are for people. The engine's tight loops burn two to four times as much in a real
/// second, so the wall-clock nets below stay out of the way.
pub const FUEL_PER_BUSY_SECOND: u64 = 500_000_000;

/// Tool calls in one message, of a policy or of anybody else. Real models make a handful; without a limit one answer of
/// some megabytes could hold hundreds of thousands.
pub const TOOL_CALLS: usize = 64;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Budget of one call into a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLimits {
    /// Fuel: the budget that judges, deterministic per component.
    pub fuel: u64,
    /// Milliseconds that a processor may be kept busy: a safety net against work that fuel does not count.
    pub busy_ms: u64,
    /// Milliseconds by the clock on the wall: the last net, generous because it depends on the machine.
    pub deadline_ms: u64,
    /// Bytes that one value may carry across the boundary.
    pub transfer_bytes: usize,
}

impl CallLimits {
    const fn seconds(busy: u64, transfer_bytes: usize) -> Self {
        Self {
            fuel: busy * FUEL_PER_BUSY_SECOND,
            // Ten times the nominal budget: reached only where fuel does not count the work, or on a stalled machine.
            busy_ms: busy * 10_000,
            deadline_ms: busy * 30_000,
            transfer_bytes,
        }
    }
}

/// Every limit of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// `describe`: a constant, practically.
    pub describe: CallLimits,
    /// `tasks`: generates at most 256 tasks.
    pub tasks: CallLimits,
    /// `start`: may build a world.
    pub start: CallLimits,
    /// `step`: one move.
    pub step: CallLimits,
    /// `snapshot`: as a step, with more to carry.
    pub snapshot: CallLimits,
    /// `restore`: as a step, with more to carry.
    pub restore: CallLimits,
    /// `score`: the part that does not depend on the group's size.
    pub score: CallLimits,
    /// Fuel added to `score` per episode: 50 ms.
    pub score_fuel_per_episode: u64,
    /// `reflect`: reads a whole group.
    pub reflect: CallLimits,
    /// Deadline of a call that may ask a granted model, in milliseconds: a model's answer takes seconds.
    pub llm_deadline_ms: u64,
    /// The same for `score` and `reflect`, which may ask hundreds of times.
    pub llm_batch_deadline_ms: u64,

    /// Linear memory of an environment or reflector.
    pub memory_bytes: usize,
    /// Linear memory of a reward: it only reads.
    pub reward_memory_bytes: usize,
    /// Elements of a table.
    pub table_elements: usize,
    /// Core instances, memories and tables inside one component: real guests have 1 to 4, interpreters up to 48.
    pub core_instances: usize,
    /// Stack of a guest.
    pub stack_bytes: usize,
    /// Size of a component file.
    pub component_bytes: usize,
    /// Size of a component file when the operator allows interpreters (Python, JavaScript) inside guests.
    pub interpreter_component_bytes: usize,
    /// Components larger than this are instantiated on demand, outside the pool, whose slots are sized for small ones.
    pub pooled_component_bytes: usize,

    /// Live instances on this host.
    pub live_instances: usize,
    /// Guest memory of all instances on this host: what they declare, touched or not. The program raises it to half of the
    /// machine's memory.
    pub host_memory_bytes: usize,

    /// Everything recorded of one episode: what it said, was told, measured and left behind.
    pub episode_bytes: usize,
    /// An observation: a page of a novel is 2 KiB.
    pub observation_bytes: usize,
    /// Messages in an observation.
    pub messages: usize,
    /// Parts of a message.
    pub parts: usize,
    /// Tool calls in a message.
    pub tool_calls: usize,
    /// Tools of an episode.
    pub tools: usize,
    /// Bytes of all tool schemas of an episode.
    pub tools_bytes: usize,
    /// Signals of a turn, or parts of a score.
    pub signals: usize,
    /// A name or id.
    pub name_bytes: usize,
    /// Pairs in an `extra` or in options.
    pub attributes: usize,
    /// Artefacts of a turn.
    pub artefacts: usize,
    /// One artefact.
    pub artefact_bytes: usize,
    /// Tasks that one call may give.
    pub tasks_per_call: u32,
    /// Splits of an environment.
    pub splits: usize,
    /// A rationale, summary or error text.
    pub text_bytes: usize,
    /// Proposals of one reflection.
    pub proposals: usize,

    /// One log line; the rest of it is cut.
    pub log_line_bytes: usize,
    /// Log lines per episode; the rest is counted in one line.
    pub log_lines: usize,
    /// Log bytes per episode; the rest is counted in one line.
    pub log_bytes: usize,
    /// kv: bytes of keys and values.
    pub kv_bytes: usize,
    /// kv: keys.
    pub kv_keys: usize,
    /// kv: one key.
    pub kv_key_bytes: usize,
    /// A snapshot.
    pub snapshot_bytes: usize,
    /// Host resources an instance may hold.
    pub handles: usize,
    /// Random bytes per call.
    pub random_bytes: u64,
    /// Bytes to and from the host in one call, all host calls together.
    pub host_call_bytes: usize,
    /// Calls to the host in one call.
    pub host_calls: u32,
    /// Models asked in one batch.
    pub llm_batch: usize,
    /// Model calls an episode or a group may make through its grant.
    pub llm_calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let page = 2 * MIB;
        Self {
            describe: CallLimits::seconds(1, page),
            tasks: CallLimits::seconds(1, page),
            start: CallLimits::seconds(2, page),
            step: CallLimits::seconds(1, page),
            snapshot: CallLimits::seconds(1, 4 * MIB + 64 * KIB),
            restore: CallLimits::seconds(1, page),
            score: CallLimits::seconds(2, page),
            score_fuel_per_episode: FUEL_PER_BUSY_SECOND / 20,
            reflect: CallLimits::seconds(5, page),
            llm_deadline_ms: 120_000,
            llm_batch_deadline_ms: 30 * 60_000,
            memory_bytes: 64 * MIB,
            reward_memory_bytes: 32 * MIB,
            table_elements: 10_000,
            core_instances: 64,
            stack_bytes: 512 * KIB,
            component_bytes: 16 * MIB,
            interpreter_component_bytes: 32 * MIB,
            pooled_component_bytes: 2 * MIB,
            live_instances: 10_000,
            host_memory_bytes: 2048 * MIB,
            episode_bytes: 16 * MIB,
            observation_bytes: MIB,
            messages: 64,
            parts: 64,
            tool_calls: TOOL_CALLS,
            tools: 128,
            tools_bytes: MIB,
            signals: 256,
            name_bytes: 128,
            attributes: 64,
            artefacts: 16,
            artefact_bytes: MIB,
            tasks_per_call: 256,
            splits: 16,
            text_bytes: 64 * KIB,
            proposals: 64,
            log_line_bytes: 4 * KIB,
            log_lines: 256,
            log_bytes: 64 * KIB,
            kv_bytes: MIB,
            kv_keys: 1000,
            kv_key_bytes: 256,
            snapshot_bytes: 4 * MIB,
            handles: 1024,
            random_bytes: 64 * KIB as u64,
            host_call_bytes: 16 * MIB,
            host_calls: 10_000,
            llm_batch: 64,
            llm_calls: 256,
        }
    }
}
