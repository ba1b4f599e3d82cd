//! A clock that always returns 0, and a meter that always returns no usage.

use clawhost_core::{Clock, Meter, Usage};

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
