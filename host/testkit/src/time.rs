//! A clock that stands still, and models that cost nothing.

use clawhost_core::{Clock, Meter, Usage};

/// A meter of models that cost nothing.
pub struct Free;

impl Meter for Free {
    fn spent(&self) -> Usage {
        Usage::default()
    }
}

/// A clock that stands still.
pub struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        0
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}
