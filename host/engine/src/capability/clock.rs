//! Virtual time: a function of the guest's behaviour, so that every run sees the same times.
//!
//! It starts at a fixed instant and advances by a second per turn, by a microsecond per read, and by the duration of each
//! sleep. A sleep returns at once.

use crate::state::State;
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

/// 1 January 2020, 00:00 UTC, as Unix time in seconds: late enough for certificate and calendar code.
const BEGINNING_SECONDS: u64 = 1_577_836_800;
const NANOSECONDS_PER_TURN: u64 = 1_000_000_000;
const NANOSECONDS_PER_READ: u64 = 1_000;

/// The time of one instance, in nanoseconds since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VirtualClock {
    elapsed: u64,
}

impl VirtualClock {
    pub(crate) fn at(elapsed: u64) -> Self {
        Self { elapsed }
    }

    pub(crate) fn elapsed(self) -> u64 {
        self.elapsed
    }

    pub(crate) fn next_turn(&mut self) {
        self.elapsed = self.elapsed.saturating_add(NANOSECONDS_PER_TURN);
    }

    fn read(&mut self) -> u64 {
        self.elapsed = self.elapsed.saturating_add(NANOSECONDS_PER_READ);
        self.elapsed
    }

    fn sleep(&mut self, nanoseconds: u64) {
        self.elapsed = self.elapsed.saturating_add(nanoseconds);
    }
}

/// A sleep that is already over: the clock advanced when it was requested.
struct Slept;

#[async_trait::async_trait]
impl Pollable for Slept {
    async fn ready(&mut self) {}
}

/// Marker of the replacement implementation for the linker.
pub(crate) struct VirtualTime;

impl HasData for VirtualTime {
    type Data<'a> = &'a mut State;
}

impl wall_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        self.host_call("wall-clock.now", &[])?;
        let now = self.clock.read();
        Ok(wall_clock::Datetime {
            seconds: BEGINNING_SECONDS.saturating_add(now / 1_000_000_000),
            nanoseconds: (now % 1_000_000_000) as u32,
        })
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(wall_clock::Datetime { seconds: 0, nanoseconds: NANOSECONDS_PER_READ as u32 })
    }
}

impl monotonic_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        self.host_call("monotonic-clock.now", &[])?;
        Ok(self.clock.read())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(NANOSECONDS_PER_READ)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let rest = when.saturating_sub(self.clock.elapsed);
        self.subscribe_duration(rest)
    }

    fn subscribe_duration(&mut self, duration: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.host_call("monotonic-clock.sleep", &[&duration.to_le_bytes()])?;
        self.clock.sleep(duration);
        let slept = self.table.push(Slept)?;
        subscribe(&mut self.table, slept)
    }
}
