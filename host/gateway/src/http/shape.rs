//! The shapes of requests that are answered: their paths, and how an answer is read and an error written in each.

use super::answer::error_body;
use clawhost_core::ModelResponse;
use clawhost_providers::Dialect;
use clawhost_wire::{AnswerHead, ErrorKind, StreamedAnswer, WireError, anthropic, completions, openai, responses, sse};
use serde_json::Map;

/// The shape of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// OpenAI's `/chat/completions`.
    Chat,
    /// OpenAI's `/responses`.
    Responses,
    /// OpenAI's `/completions`, for plain text.
    Completions,
    /// Anthropic's `/messages`.
    Messages,
}

impl Shape {
    /// The dialect to which it belongs: that of the endpoints to which it is forwarded, and of its errors.
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Chat | Self::Responses | Self::Completions => Dialect::OpenAi,
            Self::Messages => Dialect::Anthropic,
        }
    }

    /// The path behind the version.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            Self::Completions => "/completions",
            Self::Messages => "/messages",
        }
    }

    /// Its name in records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "openai",
            Self::Responses => "openai-responses",
            Self::Completions => "openai-completions",
            Self::Messages => "anthropic",
        }
    }

    /// The beginning of ids of its answers.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Chat => "chatcmpl-",
            Self::Responses => "resp_",
            Self::Completions => "cmpl-",
            Self::Messages => "msg_",
        }
    }

    /// Whether a stream reports usage only where the request wants it.
    pub(crate) fn asks_for_usage(self) -> bool {
        matches!(self, Self::Chat | Self::Completions)
    }

    /// Parses a whole answer.
    pub(crate) fn read(self, body: &str) -> Result<ModelResponse, WireError> {
        match self {
            Self::Chat => openai::response(body),
            Self::Responses => responses::response(body),
            Self::Completions => completions::response(body),
            Self::Messages => anthropic::response(body),
        }
    }

    /// Parses a streamed answer.
    pub(crate) fn reader(self) -> StreamedAnswer {
        match self {
            Self::Chat => StreamedAnswer::new(openai::StreamReader::new()),
            Self::Responses => StreamedAnswer::new(responses::StreamReader::new()),
            Self::Completions => StreamedAnswer::new(completions::StreamReader::new()),
            Self::Messages => StreamedAnswer::new(anthropic::StreamReader::new()),
        }
    }

    /// The end of a stream that broke off after `number` events of an answer.
    pub(crate) fn error_event(self, kind: ErrorKind, message: &str, (head, number): (&AnswerHead, u64)) -> String {
        match self {
            Self::Responses => {
                let failed = responses::failed(head, &Map::new(), kind, message);
                responses::error_events(kind, message, number, &failed)
            }
            Self::Messages => sse::write("error", &error_body(Dialect::Anthropic, kind, message).to_string()),
            Self::Chat | Self::Completions => sse::write("", &error_body(Dialect::OpenAi, kind, message).to_string()),
        }
    }
}
