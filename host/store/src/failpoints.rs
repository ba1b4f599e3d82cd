//! Failpoints: the writer, or the process, ends right after a chosen commit. For tests, with the feature `failpoints`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The process aborts right after the commit of this number.
const ABORT: &str = "CLAWHOST_ABORT_AFTER_COMMIT";

/// Counts commits, and ends the writer after a chosen one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failpoint {
    commits: Arc<AtomicU64>,
    fail_after: Option<u64>,
    abort_after: Option<u64>,
}

impl Failpoint {
    pub(crate) fn new(fail_after: Option<u64>) -> Self {
        let abort_after = std::env::var(ABORT).ok().and_then(|number| number.parse().ok());
        Self { commits: Arc::default(), fail_after, abort_after }
    }

    /// Whether a commit was chosen, if only one that is never reached.
    pub(crate) fn is_set(&self) -> bool {
        self.fail_after.is_some() || self.abort_after.is_some()
    }

    /// Commits so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Counts a commit. `Break`: the writer ends here.
    pub(crate) fn committed(&self) -> ControlFlow<()> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if self.abort_after == Some(number) {
            std::process::abort();
        }
        if self.fail_after == Some(number) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
