//! Model responses, whole or as a stream of deltas.

use super::{ModelRequest, ResponseFormat, ToolChoice};
use crate::{Message, Part, REASONING, TokenRecord, Usage, estimated_tokens};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// The model that answered, as reported by the endpoint. It may differ from the requested name, which can be an alias or a
/// router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweringModel {
    /// Its name.
    pub model: String,
    /// Further version information: a server's fingerprint, a digest of weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Log-prob of one token, as reported by an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The token's text, as far as it is valid text.
    pub token: String,
    /// Log-prob, natural logarithm; at most 0.
    pub logprob: f64,
    /// The most likely alternatives at this position, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<(String, f64)>,
}

/// A part of a request that the endpoint ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoredRequest {
    /// Log-probs are missing.
    Logprobs,
    /// The text does not have the required format.
    ResponseFormat,
    /// The required tool call is missing, or another tool was called.
    ToolChoice,
    /// The answer was not streamed.
    Stream,
    /// The endpoint's dialect has no seed: equal requests may be answered differently.
    Seed,
    /// The model draws nothing from a distribution, so there is nothing to restrict.
    TopP,
    /// Usage is missing, or is no number of tokens: it is an estimate.
    Usage,
}

impl IgnoredRequest {
    /// Name of the request's field.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logprobs => "logprobs",
            Self::ResponseFormat => "response_format",
            Self::ToolChoice => "tool_choice",
            Self::Seed => "seed",
            Self::Stream => "stream",
            Self::TopP => "top_p",
            Self::Usage => "usage",
        }
    }

    /// What a model ignores that has no distribution of tokens: a follower of rules, a script, a random player.
    pub fn without_sampling(request: &ModelRequest) -> Vec<Self> {
        let restricts = request.top_p.is_some_and(|top_p| top_p < 1.0);
        restricts.then_some(Self::TopP).into_iter().collect()
    }
}

/// A further answer to a request that wanted several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherAnswer {
    /// The assistant's message.
    pub message: Message,
    /// Finish reason.
    pub finish: String,
    /// Log-probs of the text's tokens, if requested and provided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The assistant's message.
    pub message: Message,
    /// Tokens used.
    pub usage: Usage,
    /// Finish reason: `stop`, `length`, `tool_calls`, or the endpoint's own term.
    pub finish: String,
    /// Tokens of the answer, if a local model sampled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Box<TokenRecord>>,
    /// The model that answered, if the endpoint reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweringModel>,
    /// Log-probs of the text's tokens, if requested and provided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// Parts of the request that the endpoint ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<IgnoredRequest>,
    /// Further answers, if several were requested; the usage is that of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherAnswer>,
}

impl ModelResponse {
    /// An answer with only a message, usage and finish reason.
    pub fn new(message: Message, usage: Usage, finish: impl Into<String>) -> Self {
        Self {
            message,
            usage,
            finish: finish.into(),
            tokens: None,
            answered_by: None,
            logprobs: Vec::new(),
            ignored: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Estimates the usage that the endpoint did not report, so that it is charged: `read` are the bytes of the request. Says
    /// whether anything was estimated.
    pub fn estimate_usage(&mut self, read: usize) -> bool {
        let written = self.message.len() + self.others.iter().map(|other| other.message.len()).sum::<usize>();
        let is_missing = [self.usage.prompt_tokens == 0, self.usage.completion_tokens == 0 && written > 0];
        if is_missing[0] {
            self.usage.prompt_tokens = estimated_tokens(read);
        }
        if is_missing[1] {
            self.usage.completion_tokens = estimated_tokens(written);
        }
        is_missing.contains(&true)
    }

    /// The model's reasoning, which is no part of the text.
    pub fn reasoning(&self) -> Option<&str> {
        let attribute = self.message.extra.iter().find(|(name, _)| name == REASONING);
        attribute.map(|(_, text)| text.as_str()).filter(|text| !text.is_empty())
    }

    /// Passes a whole answer on as deltas: reasoning, text part by part, calls, log-probs, usage.
    pub fn pass_on(&self, sink: &mut dyn DeltaSink) -> ControlFlow<()> {
        if let Some(reasoning) = self.reasoning() {
            sink.delta(ModelDelta::Reasoning(reasoning.to_owned()))?;
        }
        let mut said = false;
        for part in &self.message.parts {
            if let Part::Text(text) | Part::Json(text) = part {
                // Parts are joined as in `Message::plain_text`.
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

/// The parts of a request that an answer shows to have been ignored: log-probs, format, tool choice. An ignored stream or
/// seed is not visible in an answer.
///
/// An answer that was truncated, or that has the endpoint's own finish reason, is not checked for what it could not contain.
pub fn ignored_by(response: &ModelResponse, request: &ModelRequest) -> Vec<IgnoredRequest> {
    let text = response.message.plain_text();
    let calls = &response.message.tool_calls;
    let ended = matches!(response.finish.as_str(), "stop" | "tool_calls");
    let mut ignored = Vec::new();
    // Endpoints report log-probs for text; an answer with only tool calls has none.
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

/// A part of an answer, in the order of generation.
///
/// The concatenated text deltas equal [`Message::plain_text`]: a new part of the message starts with a line end. The
/// concatenated argument deltas of a call are the same JSON value as the whole answer's arguments. For dialects that send
/// arguments as an object, the whole answer has compact JSON, while the deltas have the model's spacing.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelDelta {
    /// More of the model's reasoning; never empty. It comes before text and calls, and is no part of the text.
    Reasoning(String),
    /// More text; never empty.
    Text(String),
    /// A part of a tool call. The first part has its id and name.
    ToolCall {
        /// Index of the call in the message.
        index: usize,
        /// The call's id.
        id: Option<String>,
        /// The tool's name.
        name: Option<String>,
        /// More of the arguments' JSON text.
        arguments: String,
    },
    /// Log-probs of tokens whose text was sent before.
    Logprobs(Vec<TokenLogprob>),
    /// Usage of the call so far.
    Usage(Usage),
}

/// Receives the deltas of an answer.
pub trait DeltaSink: Send {
    /// Receives the next delta. `Break`: the caller stops reading, and the model may stop.
    fn delta(&mut self, delta: ModelDelta) -> ControlFlow<()>;
}

/// Ignores all deltas.
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
    fn ignored_parts_of_a_request_are_named() {
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
    fn concatenated_text_deltas_equal_the_message() {
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
