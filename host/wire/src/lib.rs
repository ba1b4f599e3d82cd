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
    /// The body is a stream of events.
    #[error("the server streams, though nobody asked it to; turn streaming off there")]
    Streamed,
    /// The dialect has no words for what is asked.
    #[error("{0}")]
    Unsupported(String),
}

/// A tool's name as endpoints accept it in a conversation: what the model made up is made harmless.
fn sent_name(name: &str) -> String {
    /// Longest name that endpoints accept.
    const BYTES: usize = 64;
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    let name: String = name.chars().take(BYTES).map(plain).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// Arguments as endpoints accept them in a conversation: a JSON object. Servers read history again and refuse what is none,
/// so a model's slip goes back inside an object that shows it.
fn sent_arguments(arguments: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(arguments) {
        Ok(serde_json::Value::Object(_)) => arguments.to_owned(),
        _ if arguments.trim().is_empty() => "{}".to_owned(),
        _ => serde_json::json!({ "unreadable_arguments": arguments }).to_string(),
    }
}

/// Characters of an unreadable body that an error shows.
const SHOWN: usize = 120;

/// A value that may be null.
fn or_default<'de, D: serde::Deserializer<'de>, T: serde::Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    use serde::Deserialize as _;
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A count of tokens. What is none, null or negative counts as nothing: a good answer is not thrown away for it.
fn count<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    use serde::Deserialize as _;
    Ok(serde_json::Value::deserialize(deserializer)?.as_u64().unwrap_or(0))
}

fn malformed(body: &str, error: &serde_json::Error) -> WireError {
    if ["data:", "event:"].iter().any(|mark| body.trim_start().starts_with(mark)) {
        return WireError::Streamed;
    }
    let shown = body.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    WireError::Malformed(error.to_string(), shown)
}
