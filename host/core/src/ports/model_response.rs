//! What a model answers: whole, or in pieces.

use crate::{Message, Part, TokenRecord, Usage};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// The model that answered, as the endpoint names it: an alias or a router may have been asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweringModel {
    /// Its name.
    pub model: String,
    /// What else tells its version: a fingerprint of the server's, a digest of weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The log-probability of one token, as an endpoint reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The token's text, or what of it is text.
    pub token: String,
    /// Natural logarithm of its probability; at most 0.
    pub logprob: f64,
    /// The most likely tokens at its place, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<(String, f64)>,
}

/// Something that a request asked for, and the endpoint ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoredRequest {
    /// There are no log-probabilities.
    Logprobs,
    /// The text is not of the form that was asked for.
    ResponseFormat,
    /// A tool had to be called, or none, or another one.
    ToolChoice,
    /// The answer is whole where a stream was asked for.
    Stream,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The assistant's message.
    pub message: Message,
    /// What it cost.
    pub usage: Usage,
    /// Why it stopped: `stop`, `length`, `tool_calls`, or the model's own word.
    pub finish: String,
    /// Its tokens, where the model is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenRecord>>,
    /// Who answered, where the endpoint says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweringModel>,
    /// Log-probabilities of the text's tokens, where they were asked for and given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// What the endpoint ignored of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredRequest>,
}

impl ModelResponse {
    /// An answer without more than a message, its cost and its end.
    pub fn new(message: Message, usage: Usage, finish: impl Into<String>) -> Self {
        Self {
            message,
            usage,
            finish: finish.into(),
            tokens: None,
            answered_by: None,
            logprobs: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// Passes a whole answer on as pieces: its text part by part, its calls, its log-probabilities, what it cost.
    pub fn pass_on(&self, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
        for part in &self.message.parts {
            if let Part::Text(text) | Part::Json(text) = part {
                sink.delta(ModelDelta::Text(text.clone()))?;
            }
        }
        for (index, call) in self.message.tool_calls.iter().enumerate() {
            let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
            sink.delta(ModelDelta::ToolCall { index, id, name, arguments: call.arguments.clone() })?;
        }
        if !self.logprobs.is_empty() {
            sink.delta(ModelDelta::Logprobs(self.logprobs.clone()))?;
        }
        sink.delta(ModelDelta::Usage(self.usage))
    }
}

/// A piece of an answer, in the order in which the model writes.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelDelta {
    /// More text.
    Text(String),
    /// A piece of a tool call. The first piece of a call carries its id and its name.
    ToolCall {
        /// Position of the call in the message, from 0.
        index: usize,
        /// The call's id.
        id: Option<String>,
        /// The tool's name.
        name: Option<String>,
        /// More of the arguments' JSON text.
        arguments: String,
    },
    /// Log-probabilities of tokens whose text was sent.
    Logprobs(Vec<TokenLogprob>),
    /// What the call has cost so far.
    Usage(Usage),
}

/// Takes the pieces of an answer.
pub trait DeltaSink: Send {
    /// Takes the next piece. `Break`: nobody reads on, and the model may stop.
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()>;
}

/// Takes nothing: the answer is wanted as a whole.
impl DeltaSink for () {
    fn delta(&mut self, _: ModelDelta) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(ModelDelta) -> ControlFlow<()> + Send> DeltaSink for F {
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()> {
        self(delta)
    }
}
