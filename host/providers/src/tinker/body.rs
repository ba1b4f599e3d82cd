//! Bodies of answers: their size, and what a refusal says.

use clawhost_core::Secrets;
use serde_json::Value;
use std::time::Duration;

/// Most bytes of a foreign text in a message.
const SHOWN_BYTES: usize = 300;

/// Why a body cannot be read.
pub(super) enum Broken {
    /// It is longer than this number of bytes.
    Long(usize),
    /// The connection broke off, or was silent for too long.
    Off(String),
}

/// A body of at most so many bytes, with at most so long a silence.
pub(super) async fn whole(
    mut response: reqwest::Response,
    most_bytes: usize,
    silence: Duration,
) -> Result<Vec<u8>, Broken> {
    let mut bytes = Vec::new();
    loop {
        match tokio::time::timeout(silence, response.chunk()).await {
            Err(_) => return Err(Broken::Off(format!("silent for {} s", silence.as_secs_f64()))),
            Ok(Err(error)) => return Err(Broken::Off(cause(&error))),
            Ok(Ok(None)) => return Ok(bytes),
            Ok(Ok(Some(chunk))) if bytes.len().saturating_add(chunk.len()) > most_bytes => {
                return Err(Broken::Long(most_bytes));
            }
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
        }
    }
}

/// The innermost reason of an error: the outer ones repeat the address.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// A text from outside for a message: without keys and control characters, shortened.
pub(super) fn clean(secrets: &Secrets, text: &str) -> String {
    let text = secrets.scrub(text);
    let words = text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty());
    clawhost_core::escaped(&words.collect::<Vec<_>>().join(" "), SHOWN_BYTES)
}

/// What a JSON body says of an error: its `detail`, `error` or `message`, or all of it.
pub(super) fn said(body: &[u8]) -> String {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let named = ["error", "detail", "message"].into_iter().find_map(|name| document.get(name)?.as_str());
    named.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}

/// An object with the fields of another one, too.
pub(super) fn extended(mut object: Value, fields: Value) -> Value {
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
        object.extend(fields);
    }
    object
}
