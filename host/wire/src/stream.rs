//! Streamed answers: the common part of both dialects.

use crate::WireError;
use crate::sse::{SseEvent, SseReader};
use clawhost_core::{ModelDelta, ModelResponse, ToolCall, Usage};

/// Most bytes of text, calls and log-probs in one answer, equal to the limit for whole answers. Far more than any model
/// writes.
pub const ANSWER_BYTES: usize = 10 * 1024 * 1024;

/// Most bytes of one stream. Servers wrap every token in an event of some hundred bytes for a few bytes of text; log-probs
/// with alternatives take more.
pub const STREAM_BYTES: usize = 32 * ANSWER_BYTES;

/// Most tool calls of one answer. Endpoints accept 128 tools; a model with this many calls repeats itself.
pub const CALLS: usize = 1024;

/// Parses the events of one streamed answer.
pub trait AnswerStream: Send + std::fmt::Debug {
    /// Processes the next event and returns its deltas. Events after the last one are ignored.
    ///
    /// # Errors
    /// The event cannot be parsed, is an error of the endpoint, or the answer exceeds a limit.
    fn event(&mut self, event: &SseEvent) -> Result<Vec<ModelDelta>, WireError>;

    /// Whether the dialect's final event was received; later events are ignored.
    fn is_over(&self) -> bool;

    /// The whole answer, equal to the unstreamed one.
    ///
    /// # Errors
    /// [`WireError::CutOff`]: the stream ended before the answer was complete.
    fn finish(self: Box<Self>) -> Result<ModelResponse, WireError>;
}

/// Parses one streamed answer from bytes.
#[derive(Debug)]
pub struct StreamedAnswer {
    events: SseReader,
    answer: Box<dyn AnswerStream>,
    bytes: usize,
}

impl StreamedAnswer {
    /// A parser at the beginning of a stream of this dialect.
    pub fn new(answer: impl AnswerStream + 'static) -> Self {
        Self { events: SseReader::new(), answer: Box::new(answer), bytes: 0 }
    }

    /// Adds bytes; returns the deltas that they complete. Deltas completed in the same call before an error are lost.
    ///
    /// # Errors
    /// The bytes cannot be parsed, contain an error of the endpoint, or exceed a limit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<ModelDelta>, WireError> {
        self.push_through(bytes, |_| ())
    }

    /// Like [`Self::push`], with a change applied to the data of every event before it is parsed.
    ///
    /// # Errors
    /// See [`Self::push`].
    pub fn push_through(
        &mut self,
        bytes: &[u8],
        mut change: impl FnMut(&mut String),
    ) -> Result<Vec<ModelDelta>, WireError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > STREAM_BYTES {
            return Err(WireError::TooLarge(format!("the stream is longer than {STREAM_BYTES} bytes")));
        }
        let mut deltas = Vec::new();
        for mut event in self.events.push(bytes)? {
            change(&mut event.data);
            deltas.extend(self.answer.event(&event)?);
        }
        Ok(deltas)
    }

    /// Whether the final event was received.
    pub fn is_over(&self) -> bool {
        self.answer.is_over()
    }

    /// The deltas at the end of the stream, and the whole answer.
    ///
    /// # Errors
    /// [`WireError::CutOff`]: the stream ended before the answer was complete.
    pub fn finish(mut self) -> Result<(Vec<ModelDelta>, ModelResponse), WireError> {
        let mut deltas = Vec::new();
        // Some servers omit the empty line after their last event. If it cannot be parsed, it was truncated.
        if let Some(event) = self.events.finish().filter(|_| !self.answer.is_over()) {
            deltas = match self.answer.event(&event) {
                Err(WireError::Malformed(..)) => return Err(WireError::CutOff("in the middle of an event")),
                other => other?,
            };
        }
        Ok((deltas, self.answer.finish()?))
    }
}

/// Counts the bytes of an answer against [`ANSWER_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Size(usize);

impl Size {
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), WireError> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 > ANSWER_BYTES {
            return Err(WireError::TooLarge(format!("the answer is longer than {ANSWER_BYTES} bytes")));
        }
        Ok(())
    }
}

/// A tool call under construction.
#[derive(Debug, Default)]
pub(crate) struct GrowingCall {
    /// The id; empty if unknown.
    pub(crate) id: String,
    /// The name; empty if unknown.
    pub(crate) name: String,
    /// The arguments so far.
    pub(crate) arguments: String,
    /// Bytes of the arguments that were passed on.
    passed: usize,
    begun: bool,
}

impl GrowingCall {
    /// The part that was not passed on yet. `None` while the name is unknown, because the first delta of a call contains it.
    pub(crate) fn delta(&mut self, index: usize) -> Option<ModelDelta> {
        let first = !self.begun && !self.name.is_empty();
        if !first && (!self.begun || self.passed == self.arguments.len()) {
            return None;
        }
        self.begun = true;
        if first && self.id.is_empty() {
            self.id = missing_id(index);
        }
        let arguments = self.arguments.get(self.passed..).unwrap_or_default().to_owned();
        self.passed = self.arguments.len();
        let head = |text: &String| first.then(|| text.clone());
        Some(ModelDelta::ToolCall { index, id: head(&self.id), name: head(&self.name), arguments })
    }

    pub(crate) fn into_call(self) -> ToolCall {
        ToolCall { id: self.id, name: self.name, arguments: self.arguments, extra: Vec::new() }
    }
}

/// An id for a call that came without one, because results must refer to it.
pub(crate) fn missing_id(index: usize) -> String {
    format!("call-{index}")
}

/// A usage delta, if usage changed.
pub(crate) fn usage_delta(known: &mut Usage, now: Usage) -> Option<ModelDelta> {
    (std::mem::replace(known, now) != now).then_some(ModelDelta::Usage(now))
}
