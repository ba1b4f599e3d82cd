//! The server's side of both dialects: what a client asks, what an answer is headed with, and what errors mean.

use crate::{WireError, malformed};
use clawhost_core::{ModelError, ModelRequest};
use serde_json::{Map, Value};

/// What a client asks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    /// The model that the client names: an alias, which the server maps to a model.
    pub model: String,
    /// What is asked of it.
    pub request: ModelRequest,
    /// Whether the answer is wanted piece by piece.
    pub stream: bool,
    /// Whether a stream is to tell what the answer cost. The Anthropic dialect always tells it.
    pub include_usage: bool,
}

/// What an answer says of itself. Nothing here is made up by this crate: it has no clock and no source of chance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerHead {
    /// The answer's id, unique among answers.
    pub id: String,
    /// The name of the model in the answer to the client.
    pub model: String,
    /// The version of what it runs on; the Anthropic dialect has no field for it.
    pub version: Option<String>,
    /// Seconds since 1970; the Anthropic dialect has no field for it.
    pub created: u64,
}

/// What an error means to a client. Each dialect has its own word and status for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is not legal.
    InvalidRequest,
    /// The conversation is too long for the model.
    TooLong,
    /// There is no key, or a wrong one.
    Unauthenticated,
    /// The key does not allow this.
    Forbidden,
    /// There is no such model or address.
    NotFound,
    /// The request has too many bytes.
    TooLarge,
    /// Too many requests at a time.
    TooMany,
    /// What may be spent has been spent.
    Budget,
    /// This program failed.
    Internal,
    /// What stands behind this program answered with nonsense.
    BadUpstream,
    /// The model is not reachable, or has too much to do.
    Unavailable,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::InvalidRequest,
        Self::TooLong,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::TooLarge,
        Self::TooMany,
        Self::Budget,
        Self::Internal,
        Self::BadUpstream,
        Self::Unavailable,
    ];

    /// The kind of error that the client gets for a model error.
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

    /// The HTTP status that both dialects have for it. (Anthropic's own 529 for overload is not sent: general clients take 503
    /// as what may be tried again, and Anthropic's do too.)
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest | Self::TooLong => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::TooLarge => 413,
            Self::TooMany | Self::Budget => 429,
            Self::Internal => 500,
            Self::BadUpstream => 502,
            Self::Unavailable => 503,
        }
    }
}

/// The fields of an object of a client's, taken one by one. Null is as good as absent.
pub(crate) struct Fields {
    /// Where it stands in the request, as in `messages[2]`; empty for the request itself.
    at: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// Of a body.
    pub(crate) fn of_body(body: &str) -> Result<Self, WireError> {
        let fields = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
        Ok(Self { at: String::new(), fields })
    }

    /// Of a value inside of a request.
    pub(crate) fn of(at: String, value: Value) -> Result<Self, WireError> {
        match value {
            Value::Object(fields) => Ok(Self { at, fields }),
            _ => Err(WireError::Request(at, "must be an object".to_owned())),
        }
    }

    /// Where a field stands.
    pub(crate) fn place(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// What is wrong with a field.
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

    /// A text that must be there and not be empty.
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
        // Through text, so that 0.7 becomes the f32 that is written as 0.7.
        let number = value.is_number().then(|| value.to_string().parse().ok()).flatten();
        let number = number.filter(|number| range.contains(number));
        let problem = || self.problem(name, &format!("must be a number from {} to {}", range.start(), range.end()));
        number.map(Some).ok_or_else(problem)
    }

    /// Everything that was not taken.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_a_status_that_says_whose_fault_it_is() {
        for kind in ErrorKind::ALL {
            let status = kind.status();
            let ours = matches!(kind, ErrorKind::Internal | ErrorKind::BadUpstream | ErrorKind::Unavailable);
            assert_eq!((400..500).contains(&status), !ours, "{kind:?}");
        }
        assert_eq!(ErrorKind::of(&ModelError::TooLong(String::new())), ErrorKind::TooLong);
        assert_eq!(ErrorKind::of(&ModelError::Budget(String::new())).status(), 429);
    }
}
