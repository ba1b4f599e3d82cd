//! The state of a store: quotas, capabilities and the records of one instance.

use crate::capability::clock::VirtualClock;
use crate::capability::kv::Notes;
use crate::capability::llm::tokens;
use crate::capability::log::Log;
use crate::capability::wasi::Chance;
use crate::grants::ModelGrants;
use crate::lane::{LaneTicket, SlowLane};
use clawhost_core::{Digest, Episode, HostState, JournalEntry, Limits, ModelCallSource, code};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use wasmtime::component::ResourceTable;
use wasmtime::{ResourceLimiter, StoreContextMut, UpdateDeadline};
use wasmtime_wasi::WasiCtx;

/// A limit was reached. wasmtime carries it as the error of a trap.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct LimitHit {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl LimitHit {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Guest memory of all instances of a host.
#[derive(Debug)]
pub(crate) struct HostMemory {
    used: AtomicUsize,
    limit: usize,
}

impl HostMemory {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    fn take(&self, bytes: usize) -> bool {
        let grow = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// Linear memory and tables of one instance.
#[derive(Debug)]
pub(crate) struct Memory {
    host: Arc<HostMemory>,
    limit: usize,
    table_limit: usize,
    per_component: usize,
    held: usize,
    last_growth: usize,
}

impl Memory {
    pub(crate) fn new(host: Arc<HostMemory>, limit: usize, limits: &Limits) -> Self {
        let (table_limit, per_component) = (limits.table_elements, limits.core_instances);
        Self { host, limit, table_limit, per_component, held: 0, last_growth: 0 }
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.host.give_back(self.held);
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        // The limit applies to all memories of the instance together.
        let total = self.held.saturating_add(more);
        if total > self.limit {
            return Err(LimitHit::new(
                code::MEMORY,
                format!("memory would grow to {} KiB, over the limit of {} KiB", total / 1024, self.limit / 1024),
            )
            .into());
        }
        if !self.host.take(more) {
            return Err(LimitHit::new(code::HOST_MEMORY, "the host's guest memory is used up").into());
        }
        self.held = total;
        self.last_growth = more;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        // The engine could not grow the memory (for example because of its declared maximum): undo the accounting.
        let more = std::mem::take(&mut self.last_growth);
        self.held = self.held.saturating_sub(more);
        self.host.give_back(more);
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.table_limit {
            let message = format!("table would grow to {desired} elements, over the limit of {}", self.table_limit);
            return Err(LimitHit::new(code::TABLE, message).into());
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.per_component
    }

    fn tables(&self) -> usize {
        self.per_component
    }

    fn memories(&self) -> usize {
        self.per_component
    }
}

/// Number of host calls by name in a trap report.
const REMEMBERED_HOST_CALLS: usize = 8;
/// Calls to the host that a plugin has for each episode of its group, where that is more than its limit: an episode of 200 turns is read
/// in about ten, and a reflector reads a thousand of them at once.
const CALLS_PER_EPISODE: u32 = 32;

/// The call in progress.
#[derive(Debug)]
pub(crate) struct CallState {
    pub(crate) export: &'static str,
    pub(crate) fuel: u64,
    pub(crate) ticks: u64,
    pub(crate) ticks_limit: u64,
    pub(crate) deadline: Instant,
    pub(crate) host_calls: u32,
    pub(crate) host_bytes: usize,
    /// Whether the deadline passed during the call: counters of the engine are stale.
    pub(crate) abandoned: bool,
    /// Its ticket in the slow lane.
    pub(crate) turn: Arc<LaneTicket>,
}

/// The state of a store.
pub(crate) struct State {
    pub(crate) limits: Arc<Limits>,
    pub(crate) memory: Memory,
    pub(crate) lane: Arc<SlowLane>,
    pub(crate) table: ResourceTable,
    pub(crate) wasi: Option<WasiCtx>,
    pub(crate) seed: u64,
    pub(crate) chance: Chance,
    pub(crate) clock: VirtualClock,
    pub(crate) log: Arc<Mutex<Log>>,
    pub(crate) notes: Notes,
    pub(crate) grants: Arc<ModelGrants>,
    pub(crate) llm_calls: u32,
    /// Tokens of granted models: those of answers, and an estimate of those that requests in flight read.
    pub(crate) llm_tokens: u64,
    /// Source of model answers.
    pub(crate) answers: ModelCallSource,
    /// The error of a granted model when the operator's budget was exhausted.
    pub(crate) budget_spent: Option<String>,
    pub(crate) turn: u32,
    pub(crate) journal: Vec<JournalEntry>,
    /// The episodes that a reward or reflector reads.
    pub(crate) group: Vec<Arc<Episode>>,
    /// Whether episode views include references.
    pub(crate) shows_reference: bool,
    pub(crate) call: CallState,
    /// Rolling digest of host calls, by which a replay locates the first difference.
    pub(crate) host_digest: Digest,
    pub(crate) recent: VecDeque<String>,
}

impl State {
    pub(crate) fn new(
        limits: Arc<Limits>,
        memory: Memory,
        lane: Arc<SlowLane>,
        seed: u64,
        grants: Arc<ModelGrants>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            memory,
            lane,
            table,
            wasi: None,
            seed,
            chance: Chance::new(seed),
            clock: VirtualClock::default(),
            log: Arc::new(Mutex::new(Log::new(&limits))),
            notes: Notes::new(grants.kv, &limits),
            grants,
            llm_calls: 0,
            llm_tokens: 0,
            answers: ModelCallSource::Live,
            budget_spent: None,
            turn: 0,
            journal: Vec::new(),
            group: Vec::new(),
            shows_reference: false,
            call: CallState {
                export: "instantiate",
                fuel: 0,
                ticks: 0,
                ticks_limit: 0,
                deadline: Instant::now(),
                host_calls: 0,
                host_bytes: 0,
                abandoned: false,
                turn: Arc::default(),
            },
            host_digest: Digest::of(b""),
            recent: VecDeque::new(),
            limits,
        }
    }

    /// The host's state for this instance.
    pub(crate) fn held(&self) -> HostState {
        HostState {
            clock_ns: self.clock.elapsed(),
            random_words: self.chance.positions(),
            notes: self.notes.writes(),
            log: self.log().state().clone(),
            model_calls: self.llm_calls,
            journal: self.journal.clone(),
            host_calls: Some(self.host_digest),
        }
    }

    /// Continues from a stored state, of this instance or of another one at the same point.
    pub(crate) fn resume(&mut self, turn: u32, held: HostState, grants: Arc<ModelGrants>) {
        self.notes = Notes::new(grants.kv, &self.limits);
        self.grants = grants;
        let HostState { clock_ns, random_words, notes, log, model_calls, journal, host_calls } = held;
        self.clock = VirtualClock::at(clock_ns);
        self.chance.set_positions(random_words);
        self.notes.resume(notes);
        self.log().resume(log);
        self.llm_calls = model_calls;
        self.llm_tokens = journal.iter().map(tokens).fold(0, u64::saturating_add);
        self.journal = journal;
        self.host_digest = host_calls.unwrap_or_else(|| Digest::of(b""));
        self.turn = turn;
    }

    /// Charges a host call to the call in progress and records it for replays and reports. `detail` identifies the call by
    /// its arguments.
    pub(crate) fn host_call(&mut self, name: &'static str, detail: &[&[u8]]) -> wasmtime::Result<()> {
        let bytes: usize = detail.iter().map(|part| part.len()).sum();
        self.call.host_calls = self.call.host_calls.saturating_add(1);
        self.charge(bytes)?;
        let episodes = u32::try_from(self.group.len()).unwrap_or(u32::MAX);
        let most = self.limits.host_calls.max(episodes.saturating_mul(CALLS_PER_EPISODE));
        if self.call.host_calls > most {
            let message = format!("more than {most} calls to the host in one call");
            return Err(LimitHit::new(code::HOST_CALLS, message).into());
        }
        self.note(name, detail);
        Ok(())
    }

    /// Records a host call for replays and reports, without charging it.
    pub(crate) fn note(&mut self, name: &'static str, detail: &[&[u8]]) {
        let bytes: usize = detail.iter().map(|part| part.len()).sum();
        self.host_digest = self.host_digest.extended(name.as_bytes());
        for part in detail {
            self.host_digest = self.host_digest.extended(part);
        }
        if self.recent.len() >= REMEMBERED_HOST_CALLS {
            self.recent.pop_front();
        }
        self.recent.push_back(format!("{name}({bytes} B)"));
    }

    /// Charges bytes that the host passes to the guest.
    pub(crate) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.call.host_bytes = self.call.host_bytes.saturating_add(bytes);
        if self.call.host_bytes > self.limits.host_call_bytes {
            let message = format!("more than {} bytes to and from the host in one call", self.limits.host_call_bytes);
            return Err(LimitHit::new(code::HOST_CALLS, message).into());
        }
        Ok(())
    }

    pub(crate) fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        // A poisoned lock is harmless here.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ticks of a call before it must enter the slow lane; any call may meet one.
pub(crate) const QUICK_TICKS: u64 = 1;

/// Runs at every epoch tick during which the guest computes: counts ticks, and sends long computations to the slow lane.
/// Ticks during host calls are not counted.
pub(crate) fn on_tick(mut store: StoreContextMut<'_, State>) -> wasmtime::Result<UpdateDeadline> {
    let call = &mut store.data_mut().call;
    call.ticks += 1;
    if call.ticks > call.ticks_limit {
        let message = format!("kept a processor busy for {} ms", call.ticks * crate::ticker::TICK.as_millis() as u64);
        return Err(LimitHit::new(code::BUSY, message).into());
    }
    if call.ticks <= QUICK_TICKS {
        return Ok(UpdateDeadline::Continue(1));
    }
    let turn = call.turn.clone();
    let lane = store.data().lane.clone();
    Ok(UpdateDeadline::YieldCustom(1, Box::pin(turn.again(lane))))
}
