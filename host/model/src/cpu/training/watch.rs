//! Sees between two pieces of work whether a pass is to stop.

use crate::LocalModelError;
use clawhost_learn::Interrupt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of one pass. Threads ask it together: once one of them stops, all do, and the pass fails.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    interrupt: &'a Interrupt,
    stopped: AtomicBool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(interrupt: &'a Interrupt) -> Self {
        Self { interrupt, stopped: AtomicBool::new(false) }
    }

    /// Whether the next piece of work is to be left out, and all that follow.
    pub(super) fn stops(&self) -> bool {
        // A request may be withdrawn; a pass that left out a piece has failed.
        if !self.stopped.load(Ordering::Relaxed) && self.interrupt.is_requested() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.stopped.load(Ordering::Relaxed)
    }

    /// # Errors
    /// A piece was left out.
    pub(super) fn result(&self) -> Result<(), LocalModelError> {
        if self.stopped.load(Ordering::Relaxed) { Err(LocalModelError::Interrupted) } else { Ok(()) }
    }
}
