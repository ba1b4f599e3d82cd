//! Writes an answer for a client: whole, or as chunks up to `[DONE]`.

use super::stream::DONE;
use crate::server::{AnswerHead, ErrorKind};
use crate::sse;
use clawhost_core::{ModelDelta, ModelResponse, TokenLogprob, Usage};
use serde_json::{Map, Value, json};

/// The body of a whole answer.
pub fn body(head: &AnswerHead, response: &ModelResponse) -> Value {
    let text = response.message.plain_text();
    let calls: Vec<Value> = response
        .message
        .tool_calls
        .iter()
        .map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { Value::from(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if let Some(message) = message.as_object_mut() {
        message.extend(response.reasoning().map(|text| ("reasoning_content".to_owned(), text.into())));
        message.extend((!calls.is_empty()).then(|| ("tool_calls".to_owned(), calls.into())));
    }
    let choice = json!({
        "index": 0,
        "message": message,
        "logprobs": logprobs(&response.logprobs),
        "finish_reason": response.finish,
    });
    let mut body = head_fields(head, "chat.completion");
    body.insert("choices".to_owned(), json!([choice]));
    body.insert("usage".to_owned(), usage(response.usage));
    Value::Object(body)
}

/// The body of an error.
pub fn error_body(kind: ErrorKind, message: &str) -> Value {
    let (word, code) = match kind {
        ErrorKind::InvalidRequest
        | ErrorKind::Conflict
        | ErrorKind::TooLarge
        | ErrorKind::Unprocessable
        | ErrorKind::NotFound => ("invalid_request_error", None),
        ErrorKind::TooLong => ("invalid_request_error", Some("context_length_exceeded")),
        ErrorKind::Unauthenticated => ("invalid_request_error", Some("invalid_api_key")),
        ErrorKind::Forbidden => ("permission_error", None),
        ErrorKind::UnknownModel => ("invalid_request_error", Some("model_not_found")),
        ErrorKind::TooMany => ("rate_limit_error", Some("rate_limit_exceeded")),
        ErrorKind::Budget => ("insufficient_quota", Some("insufficient_quota")),
        ErrorKind::Internal | ErrorKind::BadUpstream | ErrorKind::Unavailable => ("server_error", None),
    };
    json!({"error": {"message": message, "type": word, "param": null, "code": code}})
}

fn head_fields(head: &AnswerHead, object: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), head.id.as_str().into());
    fields.insert("object".to_owned(), object.into());
    fields.insert("created".to_owned(), head.created.into());
    fields.insert("model".to_owned(), head.model.as_str().into());
    if let Some(version) = &head.version {
        fields.insert("system_fingerprint".to_owned(), version.as_str().into());
    }
    fields
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// Null if there are none.
pub(crate) fn logprobs(tokens: &[TokenLogprob]) -> Value {
    let one = |text: &str, logprob: f64| json!({"token": text, "logprob": logprob, "bytes": text.as_bytes()});
    let token = |token: &TokenLogprob| {
        let alternatives = token.alternatives.iter().map(|(text, logprob)| one(text, *logprob));
        let mut written = one(&token.token, token.logprob);
        if let Some(written) = written.as_object_mut() {
            written.insert("top_logprobs".to_owned(), alternatives.collect());
        }
        written
    };
    if tokens.is_empty() {
        return Value::Null;
    }
    json!({"content": tokens.iter().map(token).collect::<Vec<_>>()})
}

/// Writes a streamed answer as events: [`Self::begin`], then each delta, then [`Self::end`] or [`Self::error`].
#[derive(Debug)]
pub struct StreamWriter {
    head: AnswerHead,
    include_usage: bool,
}

impl StreamWriter {
    /// A writer for one answer. `include_usage` is the client's setting.
    pub fn new(head: AnswerHead, include_usage: bool) -> Self {
        Self { head, include_usage }
    }

    /// The first event.
    pub fn begin(&mut self) -> String {
        self.choice(&json!({"role": "assistant", "content": ""}), &Value::Null, &Value::Null)
    }

    /// The events of one delta. Usage is sent at the end of the stream.
    pub fn delta(&mut self, delta: &ModelDelta) -> String {
        match delta {
            // The field of vLLM, DeepSeek and others; OpenAI's own models keep theirs.
            ModelDelta::Reasoning(text) => self.choice(&json!({"reasoning_content": text}), &Value::Null, &Value::Null),
            ModelDelta::Text(text) => self.choice(&json!({"content": text}), &Value::Null, &Value::Null),
            ModelDelta::ToolCall { index, id, name, arguments } => {
                let mut call = json!({"index": index, "function": {"arguments": arguments}});
                if let (Some(id), Some(name)) = (id, name) {
                    let function = json!({"name": name, "arguments": arguments});
                    call = json!({"index": index, "id": id, "type": "function", "function": function});
                }
                self.choice(&json!({"tool_calls": [call]}), &Value::Null, &Value::Null)
            }
            ModelDelta::Logprobs(tokens) => self.choice(&json!({}), &logprobs(tokens), &Value::Null),
            ModelDelta::Usage(_) => String::new(),
        }
    }

    /// The end of the answer, after all deltas.
    pub fn end(&mut self, response: &ModelResponse) -> String {
        let mut text = self.choice(&json!({}), &Value::Null, &response.finish.as_str().into());
        if self.include_usage {
            let mut chunk = head_fields(&self.head, "chat.completion.chunk");
            chunk.insert("choices".to_owned(), json!([]));
            chunk.insert("usage".to_owned(), usage(response.usage));
            text.push_str(&sse::write("", &Value::Object(chunk).to_string()));
        }
        text.push_str(&sse::write("", DONE));
        text
    }

    /// An error event, the last event of a stream.
    pub fn error(&mut self, kind: ErrorKind, message: &str) -> String {
        sse::write("", &error_body(kind, message).to_string())
    }

    fn choice(&self, delta: &Value, logprobs: &Value, finish: &Value) -> String {
        let mut chunk = head_fields(&self.head, "chat.completion.chunk");
        let choice = json!({"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish});
        chunk.insert("choices".to_owned(), json!([choice]));
        sse::write("", &Value::Object(chunk).to_string())
    }
}
