//! Answers in the form of the dialect that was spoken.

use crate::capture::Done;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use clawhost_core::AnsweringModel;
use clawhost_providers::Dialect;
use clawhost_wire::{ErrorKind, WireError, anthropic, openai};
use serde_json::Value;

/// The header that names the session of an exchange.
pub(crate) const SESSION: &str = "x-clawhost-session";
/// The header that names its episode, as `RUN/EPISODE`.
pub(crate) const EPISODE: &str = "x-clawhost-episode";
/// The header that names the model that answered.
pub(crate) const MODEL: &str = "x-clawhost-model";
/// The header that names the router that chose the model, and the model by its name in the router's table.
pub(crate) const ROUTE: &str = "x-clawhost-route";
/// The header that counts the attempts, if there were several.
pub(crate) const ATTEMPTS: &str = "x-clawhost-attempts";
/// The header that says why an exchange was not recorded.
pub(crate) const RECORD: &str = "x-clawhost-record";

/// An error for a client.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// Seconds after which another attempt may help.
    pub(crate) retry_after: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// The answer in a dialect.
    pub(crate) fn answer(&self, dialect: Dialect) -> Response<Body> {
        let mut answer = json(self.kind.status(), &error_body(dialect, self.kind, &self.message));
        if let Some(seconds) = self.retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        let kind = match error {
            WireError::TooLarge(_) => ErrorKind::TooLarge,
            _ => ErrorKind::InvalidRequest,
        };
        Self::new(kind, error.to_string())
    }
}

pub(crate) fn error_body(dialect: Dialect, kind: ErrorKind, message: &str) -> Value {
    match dialect {
        Dialect::OpenAi => openai::error_body(kind, message),
        Dialect::Anthropic => anthropic::error_body(kind, message),
    }
}

/// A JSON answer.
pub(crate) fn json(status: u16, body: &Value) -> Response<Body> {
    let mut answer = Response::new(Body::from(body.to_string()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Sets a header, if the text can be one.
pub(crate) fn set(answer: &mut Response<Body>, name: &'static str, value: &str) {
    // A header holds visible ASCII; what is not is shown as an escape.
    let text: String = value
        .chars()
        .flat_map(|c| if c.is_ascii() && !c.is_ascii_control() { vec![c] } else { c.escape_default().collect() })
        .collect();
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().insert(name, value);
    }
}

/// Says that an exchange was not recorded.
pub(crate) fn note(answer: &mut Response<Body>, done: &Done) {
    if let Done::Missed(why) = done {
        set(answer, RECORD, &format!("missed: {why}"));
    }
}

/// The model that answered, for the client.
pub(crate) fn answered_by(answer: &mut Response<Body>, model: Option<&AnsweringModel>) {
    if let Some(AnsweringModel { model, version }) = model {
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        set(answer, MODEL, &format!("{model}{version}"));
    }
}
