//! Time.

/// Tells the time, in milliseconds since 1970, and measures it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970. For records only: no decision reads it.
    fn now_ms(&self) -> u64;
    /// Microseconds since some fixed point; never goes back.
    fn monotonic_us(&self) -> u64;
}
