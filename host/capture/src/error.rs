//! Errors of this crate.

/// Why traffic cannot be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// There is nothing to make an episode of.
    #[error("the session has no exchange")]
    Empty,
    /// The exchanges are of several sessions.
    #[error("exchanges of two sessions: `{0}` and `{1}`")]
    Mixed(String, String),
    /// A pattern of redaction cannot be used.
    #[error("patterns[{at}]: {why}")]
    Pattern {
        /// Its position in the operator's list.
        at: usize,
        /// Why.
        why: String,
    },
}
