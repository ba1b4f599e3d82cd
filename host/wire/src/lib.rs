//! The JSON that model endpoints speak (floor 1, pure).
//!
//! [`openai`] holds the chat dialect, [`anthropic`] the messages dialect: what is sent is built from a [`ModelRequest`],
//! what comes back is read into a [`ModelResponse`]. Fields we do not know survive in `rest`, so that a value can be read and
//! written again unchanged.
//!
//! Invariant: no I/O, no clock. Anything an endpoint may send gives a value or a [`WireError`], never a panic.
//!
//! [`ModelRequest`]: clawhost_core::ModelRequest
//! [`ModelResponse`]: clawhost_core::ModelResponse

pub mod anthropic;
pub mod openai;

/// Why an answer cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The body is not JSON of the expected form.
    #[error("{0}; it begins with `{1}`")]
    Malformed(String, String),
    /// The body holds no answer.
    #[error("the body holds no answer")]
    Empty,
    /// The endpoint answered with an error object.
    #[error("the endpoint says: {0}")]
    Endpoint(String),
    /// The dialect has no words for what is asked.
    #[error("{0}")]
    Unsupported(String),
}

/// Characters of an unreadable body that an error shows.
const SHOWN: usize = 120;

fn malformed(body: &str, error: &serde_json::Error) -> WireError {
    let shown = body.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    WireError::Malformed(error.to_string(), shown)
}
