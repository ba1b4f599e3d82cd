//! The older shape of OpenAI's dialect for plain text: `POST /completions`. Endpoints get it as it came, so it is read for the record alone.
//! A model that works on tokens answers it, and requests of token ids beside it: `text_request` and `answer`.

mod answer;
mod generate;
mod scores;
mod text_request;
mod token_fields;

pub use answer::{TextChoice, TokenIds, body, end, error_event, event, version_pairs};
pub use generate::Generated;
pub use scores::{EchoedToken, TokenName, echoed_tokens, score_request};
pub use text_request::{
    DetokenizeRequest, GenerateRequest, MOST_ANSWERS, MOST_LOGPROBS, MOST_N, MOST_PROMPT_TOKENS, Prompt, TextRequest,
    TokenizeRequest,
};

use crate::openai::DIALECT;
use crate::server::{ClientRequest, Fields};
use crate::sse::SseEvent;
use crate::stream::{AnswerStream, Size, usage_delta};
use crate::{WireError, malformed, text_in};
use clawhost_core::{
    AnsweringModel, Message, ModelDelta, ModelRequest, ModelResponse, Origin, Part, Role, TokenLogprob, Usage,
};
use serde_json::{Map, Value, json};

/// Tokens of an answer for requests without a limit, as the dialect has it.
const MAX_TOKENS: u32 = 16;

/// A client's request for a plain text.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionsRequest {
    /// The request. Its conversation is the prompt, as a message of the user.
    pub client: ClientRequest,
    /// Whether text is generated. A request for the log-probs of its own prompt (`echo` with no tokens) generates none.
    pub generates: bool,
}

/// Parses a client's request.
///
/// # Errors
/// [`WireError::Malformed`]: the body is not a JSON object. [`WireError::Request`]: a field is invalid.
pub fn read_request(body: &str) -> Result<CompletionsRequest, WireError> {
    let mut fields = Fields::of_body(body)?;
    let model = fields.needed("model")?;
    let parts = match fields.take("prompt") {
        None => return Err(fields.problem("prompt", "is missing")),
        Some(Value::String(text)) => vec![Part::Text(text)],
        Some(Value::Array(prompts)) => {
            let part = |prompt: Value| match prompt {
                Value::String(text) => Part::Text(text),
                // Token ids have no text here.
                other => crate::kept::part(DIALECT, json!({"type": "prompt_tokens", "tokens": other})),
            };
            match prompts.first() {
                Some(Value::Number(_)) => vec![part(Value::Array(prompts))],
                _ => prompts.into_iter().map(part).collect(),
            }
        }
        Some(_) => return Err(fields.problem("prompt", "must be a text, a list of texts, or tokens")),
    };
    let max_tokens = fields.count("max_tokens", 0)?;
    let stream = fields.flag("stream")?.unwrap_or(false);
    let include_usage = match fields.take("stream_options") {
        None => false,
        Some(options) => Fields::of("stream_options".to_owned(), options)?.flag("include_usage")?.unwrap_or(false),
    };
    let answers = fields.count("n", 1)?.unwrap_or(1);
    let message = Message { parts, ..Message::text(Role::User, Origin::User, "") };
    let request = ModelRequest {
        messages: vec![message],
        max_tokens: max_tokens.unwrap_or(MAX_TOKENS),
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        ..ModelRequest::default()
    };
    let client = ClientRequest { model, request, stream, include_usage, answers };
    Ok(CompletionsRequest { client, generates: max_tokens != Some(0) })
}

/// Parses an endpoint's answer.
///
/// # Errors
/// The body is not an answer of this shape, contains no answer, or contains an error.
pub fn response(body: &str) -> Result<ModelResponse, WireError> {
    let object: Map<String, Value> = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    let mut reader = StreamReader::default();
    reader.chunk(object)?;
    reader.over = true;
    Box::new(reader).finish()
}

/// Parses a streamed answer: chunks up to `[DONE]`.
#[derive(Debug, Default)]
pub struct StreamReader {
    text: String,
    logprobs: Vec<TokenLogprob>,
    model: Option<AnsweringModel>,
    usage: Usage,
    finish: Option<String>,
    begun: bool,
    over: bool,
    size: Size,
}

impl StreamReader {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    fn chunk(&mut self, object: Map<String, Value>) -> Result<Vec<ModelDelta>, WireError> {
        if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
            return Err(crate::endpoint_error(error));
        }
        let version = text_in(&object, "system_fingerprint");
        let model = text_in(&object, "model").map(|model| AnsweringModel { model, version });
        self.model = self.model.take().or(model);
        let mut deltas = Vec::new();
        let choices = object.get("choices").and_then(Value::as_array);
        // One answer is recorded; others of the same request are not.
        let first = choices.into_iter().flatten().find(|choice| choice.get("index").is_none_or(|index| index == 0));
        if let Some(choice) = first {
            self.begun = true;
            let text = choice.get("text").and_then(Value::as_str).unwrap_or_default();
            if !text.is_empty() {
                self.size.add(text.len())?;
                self.text.push_str(text);
                deltas.push(ModelDelta::Text(text.to_owned()));
            }
            let logprobs = choice.get("logprobs").map(logprobs).unwrap_or_default();
            self.size.add(logprobs.iter().map(|token| token.token.len() + 32).sum())?;
            self.logprobs.extend(logprobs);
            let finish = choice.get("finish_reason").and_then(Value::as_str).map(str::to_owned);
            self.finish = finish.or(self.finish.take());
        }
        if let Some(now) = object.get("usage").filter(|usage| usage.is_object()) {
            let count = |name: &str| now.get(name).and_then(Value::as_u64).unwrap_or(0);
            let now = Usage {
                prompt_tokens: count("prompt_tokens"),
                completion_tokens: count("completion_tokens"),
                ..Usage::default()
            };
            deltas.extend(usage_delta(&mut self.usage, now));
        }
        Ok(deltas)
    }
}

/// Log-probs in the form of this shape: a list of tokens and one of numbers. The first token of an echoed prompt has none.
fn logprobs(choice: &Value) -> Vec<TokenLogprob> {
    let list = |name: &str| choice.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let token = |(token, logprob): (&Value, &Value)| {
        let logprob = logprob.as_f64()?.min(0.0);
        Some(TokenLogprob { token: token.as_str()?.to_owned(), logprob, alternatives: Vec::new() })
    };
    list("tokens").iter().zip(list("token_logprobs")).filter_map(token).collect()
}

impl AnswerStream for StreamReader {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<ModelDelta>, WireError> {
        let data = event.data.trim();
        if self.over || data.is_empty() {
            return Ok(Vec::new());
        }
        if data == "[DONE]" {
            self.over = true;
            return Ok(Vec::new());
        }
        self.chunk(serde_json::from_str(data).map_err(|error| malformed(data, &error))?)
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, WireError> {
        let this = *self;
        match (this.over, this.begun) {
            (false, _) if this.text.is_empty() => return Err(WireError::CutOff("before it said anything")),
            (false, _) => return Err(WireError::CutOff("in the middle of a text")),
            (true, false) => return Err(WireError::Empty),
            (true, true) => {}
        }
        let mut message = Message::text(Role::Assistant, Origin::Policy, this.text);
        message.parts.retain(|part| !part.is_empty());
        let finish = this.finish.unwrap_or_else(|| "stop".to_owned());
        Ok(ModelResponse {
            answered_by: this.model,
            logprobs: this.logprobs,
            ..ModelResponse::new(message, this.usage, finish)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamedAnswer;

    #[test]
    fn prompts_are_texts_or_tokens() {
        let check = |prompt: Value, parts: usize, text: &str| {
            let read = read_request(&json!({"model": "m", "prompt": prompt}).to_string()).unwrap();
            let message = &read.client.request.messages[0];
            assert_eq!((message.parts.len(), message.plain_text().as_str(), read.generates), (parts, text, true));
        };
        check(json!("a"), 1, "a");
        check(json!(["a", "b"]), 2, "a\nb");
        check(json!([1, 2]), 1, "");
        check(json!([[1, 2], [3]]), 2, "");
        let refused =
            |body: Value, says: &str| assert_eq!(read_request(&body.to_string()).unwrap_err().to_string(), says);
        refused(json!({"model": "m"}), "prompt: is missing");
        refused(json!({"model": "m", "prompt": 7}), "prompt: must be a text, a list of texts, or tokens");
        let scores = json!({"model": "m", "prompt": "a", "max_tokens": 0, "echo": true, "logprobs": 1});
        assert!(!read_request(&scores.to_string()).unwrap().generates);
    }

    #[test]
    fn whole_and_streamed_answers_are_alike() {
        let choice = |text: &str, finish: Value| json!({"index": 0, "text": text, "finish_reason": finish});
        let usage = json!({"prompt_tokens": 3, "completion_tokens": 2});
        let whole = json!({"model": "m", "choices": [choice("ab", "stop".into())], "usage": usage});
        let whole = response(&whole.to_string()).unwrap();
        let mut answer = StreamedAnswer::new(StreamReader::new());
        for chunk in [
            json!({"model": "m", "choices": [choice("a", Value::Null)]}),
            json!({"choices": [choice("b", "stop".into())]}),
            json!({"choices": [], "usage": usage}),
        ] {
            answer.push(format!("data: {chunk}\n\n").as_bytes()).unwrap();
        }
        answer.push(b"data: [DONE]\n\n").unwrap();
        assert_eq!(answer.finish().unwrap().1, whole);
        assert_eq!((whole.message.plain_text().as_str(), whole.finish.as_str()), ("ab", "stop"));
    }

    #[test]
    fn log_probs_of_an_echoed_prompt_are_read() {
        let logprobs = json!({"tokens": ["a", "b"], "token_logprobs": [null, -0.5], "text_offset": [0, 1]});
        let body = json!({"choices": [{"index": 0, "text": "ab", "logprobs": logprobs, "finish_reason": "length"}]});
        let read = response(&body.to_string()).unwrap();
        assert_eq!(read.logprobs, [TokenLogprob { token: "b".into(), logprob: -0.5, alternatives: vec![] }]);
        assert_eq!(response("{\"choices\":[]}").unwrap_err(), WireError::Empty);
    }
}
