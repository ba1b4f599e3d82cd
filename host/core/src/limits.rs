//! Limits: one struct that every code path obeys, that `inspect` shows, and that only the operator can raise.

use serde::{Deserialize, Serialize};

/// Fuel that corresponds to one second of computing. Fuel is counted per wasm instruction and is deterministic for a
/// component, so it is the limit that decides. Tight loops of the engine burn two to four times as much in a real second, so
/// the wall-clock limits below are rarely reached.
pub const FUEL_PER_BUSY_SECOND: u64 = 500_000_000;

/// Most tool calls in one message. Models make a handful; without a limit, an answer of a few megabytes could contain
/// hundreds of thousands.
pub const TOOL_CALLS: usize = 64;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Budget of one call into a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLimits {
    /// Fuel: the deterministic budget that decides.
    pub fuel: u64,
    /// Milliseconds of processor time: a safety net for work that fuel does not count.
    pub busy_ms: u64,
    /// Milliseconds of wall-clock time: the last safety net, generous because it depends on the machine.
    pub deadline_ms: u64,
    /// Bytes that one value may transfer across the boundary.
    pub transfer_bytes: usize,
}

impl CallLimits {
    const fn seconds(busy: u64, transfer_bytes: usize) -> Self {
        Self {
            fuel: busy * FUEL_PER_BUSY_SECOND,
            // Ten times the nominal budget: reached only if fuel does not count the work, or on a stalled machine.
            busy_ms: busy * 10_000,
            deadline_ms: busy * 30_000,
            transfer_bytes,
        }
    }
}

/// Every limit of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// `describe`: effectively a constant.
    pub describe: CallLimits,
    /// `tasks`: returns at most 256 tasks.
    pub tasks: CallLimits,
    /// `start`: may build a world.
    pub start: CallLimits,
    /// `step`: one action.
    pub step: CallLimits,
    /// `snapshot`: like a step, with a larger transfer.
    pub snapshot: CallLimits,
    /// `restore`: like a step, with a larger transfer.
    pub restore: CallLimits,
    /// `score`: the part that is independent of the group's size.
    pub score: CallLimits,
    /// Fuel added to `score` per episode: 50 ms.
    pub score_fuel_per_episode: u64,
    /// `reflect`: reads a whole group.
    pub reflect: CallLimits,
    /// `route`: a session waits for it before its model is asked, and it reads some dozens of numbers. 50 ms of real loops.
    pub route: CallLimits,
    /// Deadline in milliseconds of a call that may use a granted model, whose answers take seconds.
    pub llm_deadline_ms: u64,
    /// The same for `score` and `reflect`, which may make hundreds of model calls.
    pub llm_batch_deadline_ms: u64,

    /// Linear memory of an environment or reflector, in bytes.
    pub memory_bytes: usize,
    /// Linear memory of a reward or a router, which only read, in bytes.
    pub reward_memory_bytes: usize,
    /// Elements of a table.
    pub table_elements: usize,
    /// Core instances, memories and tables in one component: typical guests have 1 to 4, interpreters up to 48.
    pub core_instances: usize,
    /// Stack of a guest, in bytes.
    pub stack_bytes: usize,
    /// Size of a component file, in bytes.
    pub component_bytes: usize,
    /// Size of a component file if the operator allows interpreters (Python, JavaScript) in guests.
    pub interpreter_component_bytes: usize,
    /// Larger components are instantiated on demand, outside the pool, whose slots are sized for small ones.
    pub pooled_component_bytes: usize,

    /// Live instances on this host.
    pub live_instances: usize,
    /// Guest memory reserved by all instances on this host, used or not. The program raises it to half of the machine's
    /// memory.
    pub host_memory_bytes: usize,

    /// Bytes of an episode's record: messages, signals and artefacts.
    pub episode_bytes: usize,
    /// Bytes of an observation; a page of a novel is 2 KiB.
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
    /// Tasks that one call may return.
    pub tasks_per_call: u32,
    /// Splits of an environment.
    pub splits: usize,
    /// Bytes of a rationale, summary or error text.
    pub text_bytes: usize,
    /// Bytes of a verdict: rationale, parts, values per turn and attributes together. Ten thousand turns with a value each take half of it.
    pub verdict_bytes: usize,
    /// Proposals of one reflection.
    pub proposals: usize,

    /// Bytes of a log line; the rest is cut off.
    pub log_line_bytes: usize,
    /// Log lines per episode; further lines are only counted.
    pub log_lines: usize,
    /// Log bytes per episode; further lines are only counted.
    pub log_bytes: usize,
    /// kv: bytes of all keys and values.
    pub kv_bytes: usize,
    /// kv: number of keys.
    pub kv_keys: usize,
    /// kv: bytes of one key.
    pub kv_key_bytes: usize,
    /// Bytes of a snapshot.
    pub snapshot_bytes: usize,
    /// Host resources that an instance may hold.
    pub handles: usize,
    /// Random bytes per call.
    pub random_bytes: u64,
    /// Bytes to and from the host during one call, over all host calls.
    pub host_call_bytes: usize,
    /// Host calls during one call. Where episodes are read: at least 32 for each.
    pub host_calls: u32,
    /// Requests in one batch of model calls.
    pub llm_batch: usize,
    /// Model calls of an episode or a group.
    pub llm_calls: u32,
    /// Tokens of granted models, read and generated, of an episode or a group. The call that exceeds them is still answered.
    pub llm_tokens: u64,
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
            route: CallLimits {
                fuel: FUEL_PER_BUSY_SECOND / 10,
                busy_ms: 1_000,
                deadline_ms: 3_000,
                transfer_bytes: page,
            },
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
            verdict_bytes: 512 * KIB,
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
            llm_tokens: 200_000,
        }
    }
}
