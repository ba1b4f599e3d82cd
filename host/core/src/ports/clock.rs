//! The clock port.

/// Provides the time.
pub trait Clock: Send + Sync {
    /// Unix time in milliseconds. For records only; no decision uses it.
    fn now_ms(&self) -> u64;
    /// Microseconds since a fixed point; monotonic.
    fn monotonic_us(&self) -> u64;
}
