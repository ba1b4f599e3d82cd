//! The request to stop in the middle of a computation.

use std::fmt;
use std::sync::Arc;

/// Asks whether a computation is to stop. The default never is. It is asked between layers and parts of the head, so it must be fast.
#[derive(Clone, Default)]
pub struct Interrupt(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Interrupt {
    /// Asks this function.
    pub fn new(is_requested: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_requested)))
    }

    /// Whether the computation is to stop.
    pub fn is_requested(&self) -> bool {
        self.0.as_ref().is_some_and(|ask| ask())
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_request_is_seen_by_every_copy_and_the_default_has_none() {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = flag.clone();
        let interrupt = Interrupt::new(move || seen.load(Ordering::Relaxed));
        let copy = interrupt.clone();
        assert!(!copy.is_requested() && !Interrupt::default().is_requested());
        flag.store(true, Ordering::Relaxed);
        assert!(interrupt.is_requested() && copy.is_requested());
    }
}
