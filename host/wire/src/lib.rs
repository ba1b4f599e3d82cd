//! The JSON that model endpoints speak (floor 1, pure).
//!
//! [`openai`] holds the chat dialect: what is sent is built from a [`ModelRequest`], what comes back is read into a
//! [`ModelResponse`]. Fields we do not know survive in `rest`, so that a value can be read and written again unchanged.
//!
//! Invariant: no I/O, no clock. Anything an endpoint may send gives a value or a [`WireError`], never a panic.
//!
//! [`ModelRequest`]: clawhost_core::ModelRequest
//! [`ModelResponse`]: clawhost_core::ModelResponse

pub mod openai;

/// Why an answer cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The body is not JSON of the expected form.
    #[error("{0}; it begins with `{1}`")]
    Malformed(String, String),
    /// The body holds no answer.
    #[error("the answer has no choices")]
    Empty,
    /// The endpoint answered with an error object.
    #[error("the endpoint says: {0}")]
    Endpoint(String),
}
