//! Streamed answers: what both dialects share.

use crate::WireError;
use crate::sse::{SseEvent, SseReader};
use clawhost_core::{ModelDelta, ModelResponse, ToolCall, Usage};

/// Most bytes of text, calls and log-probabilities in one answer: the size of the longest whole answer that is read. It is far
/// above what any model writes.
pub const ANSWER_BYTES: usize = 10 * 1024 * 1024;

/// Most bytes of one stream. Servers wrap every token in an event of some hundred bytes, which carries a few bytes of text;
/// log-probabilities with alternatives take more.
pub const STREAM_BYTES: usize = 32 * ANSWER_BYTES;

/// Most tool calls of one answer. Endpoints take 128 tools on offer; a model that calls this often repeats itself.
pub const CALLS: usize = 1024;

/// Reads the events of one streamed answer.
pub trait AnswerStream: Send + std::fmt::Debug {
    /// Takes the next event and returns its pieces. Events after the last one are ignored.
    ///
    /// # Errors
    /// The event cannot be read, is an error of the endpoint, or the answer exceeds a limit.
    fn event(&mut self, event: &SseEvent) -> Result<Vec<ModelDelta>, WireError>;

    /// Whether the dialect's last event has come: nothing that follows matters.
    fn is_over(&self) -> bool;

    /// The whole answer: what the unstreamed one would be.
    ///
    /// # Errors
    /// [`WireError::CutOff`]: the stream ended before the answer did.
    fn finish(self: Box<Self>) -> Result<ModelResponse, WireError>;
}

/// Reads one streamed answer from bytes.
#[derive(Debug)]
pub struct StreamedAnswer {
    events: SseReader,
    answer: Box<dyn AnswerStream>,
    bytes: usize,
}

impl StreamedAnswer {
    /// At the beginning of a stream of this dialect.
    pub fn new(answer: impl AnswerStream + 'static) -> Self {
        Self { events: SseReader::new(), answer: Box::new(answer), bytes: 0 }
    }

    /// Takes the next bytes, and gives what they say. What was complete before an error is lost with it.
    ///
    /// # Errors
    /// The bytes cannot be read, hold an error of the endpoint, or exceed a limit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<ModelDelta>, WireError> {
        self.push_through(bytes, |_| ())
    }

    /// The same, with a change to the data of every event before it is read.
    ///
    /// # Errors
    /// Those of [`Self::push`].
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

    /// Whether the last event has come.
    pub fn is_over(&self) -> bool {
        self.answer.is_over()
    }

    /// The whole answer, and what the end of the stream still said.
    ///
    /// # Errors
    /// [`WireError::CutOff`]: the stream ended before the answer did.
    pub fn finish(mut self) -> Result<(Vec<ModelDelta>, ModelResponse), WireError> {
        let mut deltas = Vec::new();
        // Some servers leave out the empty line behind their last event. What cannot be read there was cut off.
        if let Some(event) = self.events.finish().filter(|_| !self.answer.is_over()) {
            deltas = match self.answer.event(&event) {
                Err(WireError::Malformed(..)) => return Err(WireError::CutOff("in the middle of an event")),
                other => other?,
            };
        }
        Ok((deltas, self.answer.finish()?))
    }
}

/// Counts what an answer holds, and refuses what exceeds [`ANSWER_BYTES`].
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

/// A call whose pieces come in.
#[derive(Debug, Default)]
pub(crate) struct GrowingCall {
    /// The id, or none as yet.
    pub(crate) id: String,
    /// The name, or none as yet.
    pub(crate) name: String,
    /// The arguments so far.
    pub(crate) arguments: String,
    /// Bytes of the arguments that were passed on.
    passed: usize,
    begun: bool,
}

impl GrowingCall {
    /// What has come and was not passed on: nothing as long as the name is unknown, since a call's first piece carries it.
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

/// The id of a call that came without one: results refer to it, so it must be there.
pub(crate) fn missing_id(index: usize) -> String {
    format!("call-{index}")
}

/// Usage as a piece, where it differs from what was told before.
pub(crate) fn usage_delta(known: &mut Usage, now: Usage) -> Option<ModelDelta> {
    (std::mem::replace(known, now) != now).then_some(ModelDelta::Usage(now))
}
