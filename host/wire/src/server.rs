//! The server side of both dialects: parsed requests, heads of answers, kinds of errors.

use crate::{WireError, malformed};
use clawhost_core::{ModelError, ModelRequest};
use serde_json::{Map, Value};

/// A client's request.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    /// The requested model name: an alias, which the server maps to a model.
    pub model: String,
    /// The request for the model.
    pub request: ModelRequest,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Whether a stream is to report usage. The Anthropic dialect always does.
    pub include_usage: bool,
    /// Number of requested answers, at least 1. A server of this crate's writers gives one.
    pub answers: u32,
}

/// The metadata of an answer. The server provides all of it; this crate has no clock and no random source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerHead {
    /// Id of the answer, unique.
    pub id: String,
    /// Model name in the answer.
    pub model: String,
    /// Version of the model; the Anthropic dialect has no field for it.
    pub version: Option<String>,
    /// Unix time in seconds; the Anthropic dialect has no field for it.
    pub created: u64,
}

/// The kind of an error. Each dialect has its own term and status for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is invalid.
    InvalidRequest,
    /// The conversation exceeds the model's context.
    TooLong,
    /// The key is missing or wrong.
    Unauthenticated,
    /// The key does not permit the request.
    Forbidden,
    /// There is no such model.
    UnknownModel,
    /// There is no such address, response or session.
    NotFound,
    /// The request contradicts what was recorded before.
    Conflict,
    /// The request body is too large.
    TooLarge,
    /// The request is well-formed, and a value in it is impossible.
    Unprocessable,
    /// Too many concurrent requests.
    TooMany,
    /// The budget is exhausted.
    Budget,
    /// This program failed.
    Internal,
    /// The upstream endpoint returned an invalid answer.
    BadUpstream,
    /// The model is not reachable or overloaded.
    Unavailable,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::InvalidRequest,
        Self::TooLong,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::UnknownModel,
        Self::NotFound,
        Self::Conflict,
        Self::TooLarge,
        Self::Unprocessable,
        Self::TooMany,
        Self::Budget,
        Self::Internal,
        Self::BadUpstream,
        Self::Unavailable,
    ];

    /// The kind of error that a client gets for a model error.
    pub fn of(error: &ModelError) -> Self {
        match error {
            ModelError::Unavailable(_) => Self::Unavailable,
            ModelError::Refused(_) => Self::InvalidRequest,
            ModelError::TooLong(_) => Self::TooLong,
            ModelError::InvalidResponse(_) => Self::BadUpstream,
            ModelError::Budget(_) => Self::Budget,
            ModelError::Stopped => Self::Internal,
        }
    }

    /// The HTTP status, the same in both dialects. (Anthropic's own 529 for overload is not used: all clients, including
    /// Anthropic's, treat 503 as retryable.)
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest | Self::TooLong => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::UnknownModel | Self::NotFound => 404,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::Unprocessable => 422,
            Self::TooMany | Self::Budget => 429,
            Self::Internal => 500,
            Self::BadUpstream => 502,
            Self::Unavailable => 503,
        }
    }
}

/// The fields of an object in a client's request, taken one by one. Null is treated as absent.
pub(crate) struct Fields {
    /// Path of the object in the request, as in `messages[2]`; empty for the request itself.
    at: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// Parses a body.
    pub(crate) fn of_body(body: &str) -> Result<Self, WireError> {
        let fields = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
        Ok(Self { at: String::new(), fields })
    }

    /// The fields of a value inside a request.
    pub(crate) fn of(at: String, value: Value) -> Result<Self, WireError> {
        match value {
            Value::Object(fields) => Ok(Self { at, fields }),
            _ => Err(WireError::Request(at, "must be an object".to_owned())),
        }
    }

    /// Path of a field.
    pub(crate) fn place(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// An error about a field.
    pub(crate) fn problem(&self, name: &str, problem: &str) -> WireError {
        WireError::Request(self.place(name), problem.to_owned())
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.shift_remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    pub(crate) fn put_back(&mut self, name: &str, value: Value) {
        self.fields.insert(name.to_owned(), value);
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, WireError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.problem(name, "must be a text")),
        }
    }

    /// A required text that must not be empty.
    pub(crate) fn needed(&mut self, name: &str) -> Result<String, WireError> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.problem(name, "is missing"))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, WireError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.problem(name, "must be true or false")),
        }
    }

    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, WireError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(self.problem(name, "must be a list")),
        }
    }

    pub(crate) fn texts(&mut self, name: &str) -> Result<Vec<String>, WireError> {
        let items = self.list(name)?.unwrap_or_default();
        let text = |item: Value| match item {
            Value::String(text) => Ok(text),
            _ => Err(self.problem(name, "must be a list of texts")),
        };
        items.into_iter().map(text).collect()
    }

    pub(crate) fn count(&mut self, name: &str, least: u32) -> Result<Option<u32>, WireError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count >= least);
        count.map(Some).ok_or_else(|| self.problem(name, &format!("must be a whole number of at least {least}")))
    }

    pub(crate) fn number(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<f32>,
    ) -> Result<Option<f32>, WireError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        // Converted through text, so that 0.7 becomes the f32 that is written as 0.7.
        let number = value.is_number().then(|| value.to_string().parse().ok()).flatten();
        let number = number.filter(|number| range.contains(number));
        let problem = || self.problem(name, &format!("must be a number from {} to {}", range.start(), range.end()));
        number.map(Some).ok_or_else(problem)
    }

    /// All fields that were not taken yet.
    pub(crate) fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The same, by value.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_a_fitting_status_class() {
        for kind in ErrorKind::ALL {
            let status = kind.status();
            let ours = matches!(kind, ErrorKind::Internal | ErrorKind::BadUpstream | ErrorKind::Unavailable);
            assert_eq!((400..500).contains(&status), !ours, "{kind:?}");
        }
        assert_eq!(ErrorKind::of(&ModelError::TooLong(String::new())), ErrorKind::TooLong);
        assert_eq!(ErrorKind::of(&ModelError::Budget(String::new())).status(), 429);
    }
}
