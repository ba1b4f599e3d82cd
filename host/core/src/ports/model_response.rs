//! What a model answers: whole, or in pieces.

use super::{ModelRequest, ResponseFormat, ToolChoice};
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
    /// The dialect of the endpoint has no seed: equal requests may be answered differently.
    Seed,
}

impl IgnoredRequest {
    /// Its word: that of the request's field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logprobs => "logprobs",
            Self::ResponseFormat => "response_format",
            Self::ToolChoice => "tool_choice",
            Self::Seed => "seed",
            Self::Stream => "stream",
        }
    }
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
        let mut said = false;
        for part in &self.message.parts {
            if let Part::Text(text) | Part::Json(text) = part {
                // Parts are joined as `Message::plain_text` joins them.
                let piece = if said { format!("\n{text}") } else { text.clone() };
                if !piece.is_empty() {
                    said = true;
                    sink.delta(ModelDelta::Text(piece))?;
                }
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

/// What an answer shows to have been ignored of its request: log-probabilities, the format, the choice of tools. Whether a
/// stream or a seed was ignored cannot be seen from an answer.
///
/// An answer that was cut off, or that ended for a reason of the endpoint's own, is not blamed for what it had no room for.
pub fn ignored_by(response: &ModelResponse, request: &ModelRequest) -> Vec<IgnoredRequest> {
    let text = response.message.plain_text();
    let calls = &response.message.tool_calls;
    let ended = matches!(response.finish.as_str(), "stop" | "tool_calls");
    let mut ignored = Vec::new();
    // Endpoints give log-probabilities of the text; an answer of calls alone has none.
    if request.logprobs.is_some() && response.logprobs.is_empty() && !text.is_empty() {
        ignored.push(IgnoredRequest::Logprobs);
    }
    let formed = match &request.response_format {
        None => true,
        Some(ResponseFormat::JsonObject) => {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text).is_ok()
        }
        Some(ResponseFormat::JsonSchema { .. }) => serde_json::from_str::<serde_json::Value>(&text).is_ok(),
    };
    if !formed && response.finish == "stop" && calls.is_empty() {
        ignored.push(IgnoredRequest::ResponseFormat);
    }
    let chosen = match &request.tool_choice {
        ToolChoice::Auto => true,
        ToolChoice::None => calls.is_empty(),
        ToolChoice::Required => !calls.is_empty() || !ended,
        ToolChoice::Tool(name) => calls.iter().all(|call| call.name == *name) && (!calls.is_empty() || !ended),
    };
    if !chosen {
        ignored.push(IgnoredRequest::ToolChoice);
    }
    ignored
}

/// A piece of an answer, in the order in which the model writes.
///
/// All pieces of text together are the message's [`Message::plain_text`]: a new part of the message begins with a line end.
/// All pieces of a call's arguments together are the same JSON value as the arguments of the whole answer. Where a dialect
/// sends arguments as an object, the whole answer has them in compact form, and the pieces as the model spaced them.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelDelta {
    /// More text; never empty.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Role, ToolCall};

    fn answer(text: &str, calls: &[&str], finish: &str) -> ModelResponse {
        let call =
            |name: &&str| ToolCall { id: (*name).into(), name: (*name).into(), arguments: "{}".into(), extra: vec![] };
        let message = Message::text(Role::Assistant, Origin::Policy, text);
        let message = Message { tool_calls: calls.iter().map(call).collect(), ..message };
        ModelResponse::new(message, Usage::default(), finish)
    }

    #[test]
    fn what_was_asked_for_and_not_given_is_named() {
        use IgnoredRequest::{Logprobs, ResponseFormat as Format, ToolChoice as Choice};
        let check = |request: ModelRequest, answer: &ModelResponse, expected: &[IgnoredRequest]| {
            assert_eq!(ignored_by(answer, &request), expected, "{request:?} {answer:?}");
        };
        let plain = answer("four", &[], "stop");
        check(ModelRequest::default(), &plain, &[]);
        let logprobs = || ModelRequest { logprobs: Some(0), ..ModelRequest::default() };
        check(logprobs(), &plain, &[Logprobs]);
        check(logprobs(), &answer("", &["f"], "tool_calls"), &[]);
        let format = |format| ModelRequest { response_format: Some(format), ..ModelRequest::default() };
        let schema = || ResponseFormat::JsonSchema { name: "n".into(), schema: serde_json::json!({}), strict: true };
        check(format(ResponseFormat::JsonObject), &plain, &[Format]);
        check(format(ResponseFormat::JsonObject), &answer("[1]", &[], "stop"), &[Format]);
        check(format(ResponseFormat::JsonObject), &answer(" {\"a\": 1} ", &[], "stop"), &[]);
        check(format(schema()), &answer("[1]", &[], "stop"), &[]);
        check(format(schema()), &plain, &[Format]);
        check(format(schema()), &answer("{\"a\"", &[], "length"), &[]);
        check(format(schema()), &answer("I look.", &["f"], "tool_calls"), &[]);
        let choice = |choice| ModelRequest { tool_choice: choice, ..ModelRequest::default() };
        check(choice(ToolChoice::None), &answer("", &["f"], "tool_calls"), &[Choice]);
        check(choice(ToolChoice::Required), &plain, &[Choice]);
        check(choice(ToolChoice::Required), &answer("I thi", &[], "length"), &[]);
        check(choice(ToolChoice::Tool("f".into())), &answer("", &["f", "f"], "tool_calls"), &[]);
        check(choice(ToolChoice::Tool("f".into())), &answer("", &["f", "g"], "length"), &[Choice]);
        check(choice(ToolChoice::Tool("f".into())), &plain, &[Choice]);
    }

    #[test]
    fn the_text_of_all_pieces_is_the_text_of_the_message() {
        for texts in [vec![], vec!["a"], vec!["a", "b"], vec!["", "a", "", "b"]] {
            let mut response = answer("", &[], "stop");
            response.message.parts = texts.iter().map(|text| Part::Text((*text).to_owned())).collect();
            let mut heard = String::new();
            let mut sink = |delta: ModelDelta| {
                if let ModelDelta::Text(text) = delta {
                    assert!(!text.is_empty());
                    heard.push_str(&text);
                }
                ControlFlow::Continue(())
            };
            assert!(response.pass_on(&mut sink).is_continue());
            assert_eq!(heard, response.message.plain_text(), "{texts:?}");
        }
    }
}
