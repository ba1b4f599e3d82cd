//! What was captured since the start.

use std::sync::atomic::AtomicU64;

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct CaptureCounts {
    /// Exchanges in the spool.
    pub(crate) recorded: AtomicU64,
    /// Exchanges that could not be recorded.
    pub(crate) missed: AtomicU64,
    /// Sessions that have ended and are episodes.
    pub(crate) episodes: AtomicU64,
    /// Choices that a router, or its plugin, did not make.
    pub(crate) unrouted: AtomicU64,
}
