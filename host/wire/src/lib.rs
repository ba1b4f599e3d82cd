//! The JSON of model endpoints (floor 1, pure).
//!
//! [`openai`] implements the chat dialect, [`anthropic`] the messages dialect, [`responses`] the newer shape of OpenAI's requests. Each has two sides. The client side writes a
//! [`ModelRequest`] for an endpoint and parses its answer into a [`ModelResponse`]. The server side parses a client's
//! request into a [`ClientRequest`] and writes an answer for it. [`sse`] reads and writes event streams; [`StreamedAnswer`]
//! parses an answer from one. [`tinker`] has the protocol buffers of services that train and sample by tokens. Unknown fields are kept.
//!
//! Invariant: no I/O, no clock. Any input of an endpoint or a client gives a value or a [`WireError`], never a panic.
//!
//! [`ModelRequest`]: clawhost_core::ModelRequest
//! [`ModelResponse`]: clawhost_core::ModelResponse

pub mod anthropic;
pub mod completions;
pub mod context;
pub mod embeddings;
pub mod guidance;
mod kept;
pub mod openai;
pub mod responses;
mod server;
pub mod splice;
pub mod sse;
mod stream;
pub mod tinker;

pub use server::{AnswerHead, ClientRequest, ErrorKind};
pub use stream::{ANSWER_BYTES, AnswerStream, CALLS, STREAM_BYTES, StreamedAnswer};

/// Why an answer or a request cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The body is not JSON of the expected form.
    #[error("{0}; it begins with `{1}`")]
    Malformed(String, String),
    /// The body contains no answer.
    #[error("the body holds no answer")]
    Empty,
    /// The endpoint returned an error object.
    #[error("the endpoint says: {0}")]
    Endpoint(String),
    /// The body is an event stream.
    #[error("the server streams although streaming was not requested; turn streaming off there")]
    Streamed,
    /// The dialect cannot express the request.
    #[error("{0}")]
    Unsupported(String),
    /// The stream ended before the answer was complete; the text says where.
    #[error("the stream ended {0}")]
    CutOff(&'static str),
    /// The input exceeds the limit that the text names.
    #[error("{0}")]
    TooLarge(String),
    /// A client's request is invalid: the field, and the problem.
    #[error("{0}: {1}")]
    Request(String, String),
}

/// A tool name in the form that endpoints accept in a conversation: invalid names made up by a model are replaced.
fn sent_name(name: &str) -> String {
    /// Longest name that endpoints accept, in bytes.
    const BYTES: usize = 64;
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    let name: String = name.chars().take(BYTES).map(plain).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// Arguments in the form that endpoints accept in a conversation: a JSON object. Servers parse the history again and reject
/// anything else, so invalid arguments are wrapped in an object that shows them.
fn sent_arguments(arguments: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(arguments) {
        Ok(serde_json::Value::Object(_)) => arguments.to_owned(),
        _ if arguments.trim().is_empty() => "{}".to_owned(),
        _ => serde_json::json!({ "unreadable_arguments": arguments }).to_string(),
    }
}

/// Most characters of an unreadable body in an error.
const SHOWN: usize = 120;

/// A value that may be null.
fn or_default<'de, D: serde::Deserializer<'de>, T: serde::Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    use serde::Deserialize as _;
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A token count. Anything but a non-negative number is read as 0, so that it does not invalidate the answer.
fn count<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    use serde::Deserialize as _;
    Ok(serde_json::Value::deserialize(deserializer)?.as_u64().unwrap_or(0))
}

/// A text; `None` for anything else.
fn lenient_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    use serde::Deserialize as _;
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) if !text.is_empty() => Ok(Some(text)),
        _ => Ok(None),
    }
}

/// The text of a field; `None` if it is empty or not a text.
fn text_in(fields: &serde_json::Map<String, serde_json::Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// An f32 as a JSON number, converted through text, so that 0.7 is sent as 0.7.
fn sent_number(number: f32) -> Option<f64> {
    number.to_string().parse().ok().filter(|number: &f64| number.is_finite())
}

/// An error object of an endpoint.
fn endpoint_error(error: &serde_json::Value) -> WireError {
    let message = error.get("message").and_then(serde_json::Value::as_str);
    WireError::Endpoint(message.or(error.as_str()).map_or_else(|| error.to_string(), str::to_owned))
}

/// The beginning of a body, for errors.
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
