//! The JSON that model endpoints speak (floor 1, pure).
//!
//! [`openai`] holds the chat dialect, [`anthropic`] the messages dialect. Each has two sides. The client's side writes a
//! [`ModelRequest`] for an endpoint and reads its answer into a [`ModelResponse`]. The server's side reads what a client asks
//! into a [`ClientRequest`] and writes an answer for it. [`sse`] reads and writes event streams, [`StreamedAnswer`] reads an
//! answer from one. Fields we do not know survive.
//!
//! Invariant: no I/O, no clock. Anything that an endpoint or a client may send gives a value or a [`WireError`], never a panic.
//!
//! [`ModelRequest`]: clawhost_core::ModelRequest
//! [`ModelResponse`]: clawhost_core::ModelResponse

pub mod anthropic;
mod kept;
pub mod openai;
mod server;
pub mod sse;
mod stream;

pub use server::{AnswerHead, ClientRequest, ErrorKind};
pub use stream::{ANSWER_BYTES, AnswerStream, CALLS, STREAM_BYTES, StreamedAnswer};

/// Why an answer or a request cannot be read or written.
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
    /// The stream of an answer ended before the answer did; the place follows.
    #[error("the stream ended {0}")]
    CutOff(&'static str),
    /// What came exceeds a limit, which the text names.
    #[error("{0}")]
    TooLarge(String),
    /// A client's request is not legal: the field, and what is wrong with it.
    #[error("{0}: {1}")]
    Request(String, String),
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

/// A text, where there is one.
fn lenient_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    use serde::Deserialize as _;
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) if !text.is_empty() => Ok(Some(text)),
        _ => Ok(None),
    }
}

/// A text among fields; none where it is empty or something else.
fn text_in(fields: &serde_json::Map<String, serde_json::Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A number as it is sent: through text, so that 0.7 is sent as 0.7 and not as the f32's neighbour.
fn sent_number(number: f32) -> Option<f64> {
    number.to_string().parse().ok().filter(|number: &f64| number.is_finite())
}

/// An error object of an endpoint.
fn endpoint_error(error: &serde_json::Value) -> WireError {
    let message = error.get("message").and_then(serde_json::Value::as_str);
    WireError::Endpoint(message.or(error.as_str()).map_or_else(|| error.to_string(), str::to_owned))
}

/// The beginning of what cannot be read.
fn shown(body: &str) -> String {
    body.chars().take(SHOWN).collect()
}

fn malformed(body: &str, error: &serde_json::Error) -> WireError {
    if ["data:", "event:"].iter().any(|mark| body.trim_start().starts_with(mark)) {
        return WireError::Streamed;
    }
    let shown = shown(body).chars().flat_map(char::escape_debug).collect();
    WireError::Malformed(error.to_string(), shown)
}
