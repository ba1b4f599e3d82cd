//! Clocks that tests control, and a meter that always returns no usage.

use clawhost_core::{Clock, Meter, Usage};
use std::sync::atomic::{AtomicU64, Ordering};

/// A meter that reports no usage.
pub struct Free;

impl Meter for Free {
    fn spent(&self) -> Usage {
        Usage::default()
    }
}

/// A clock that always returns 0.
pub struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        0
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

/// A clock whose time a test sets, in milliseconds since 1970. Its monotonic time is always 0.
#[derive(Default)]
pub struct SetClock(pub AtomicU64);

impl Clock for SetClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}
