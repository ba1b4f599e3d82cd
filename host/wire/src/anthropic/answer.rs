//! Writes an answer for a client: whole, or as events from `message_start` to `message_stop`.

use crate::server::{AnswerHead, ErrorKind};
use crate::{sent_arguments, sse};
use clawhost_core::{ModelDelta, ModelResponse, Usage};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The body of a whole answer. Call arguments that are not a JSON object are wrapped in one, as the dialect requires.
pub fn body(head: &AnswerHead, response: &ModelResponse) -> Value {
    let text = response.message.plain_text();
    let mut content = Vec::new();
    content.extend(response.reasoning().map(thinking));
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    content.extend(response.message.tool_calls.iter().map(|call| {
        let input: Value = serde_json::from_str(&sent_arguments(&call.arguments)).unwrap_or_default();
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    }));
    json!({
        "id": head.id, "type": "message", "role": "assistant", "model": head.model,
        "content": content,
        "stop_reason": stop_reason(&response.finish), "stop_sequence": null,
        "usage": usage(response.usage),
    })
}

/// A block of reasoning. Its signature is empty: the models of this program need none.
fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": ""})
}

/// The body of an error.
pub fn error_body(kind: ErrorKind, message: &str) -> Value {
    let word = match kind {
        ErrorKind::InvalidRequest | ErrorKind::TooLong | ErrorKind::Conflict | ErrorKind::Unprocessable => {
            "invalid_request_error"
        }
        ErrorKind::Unauthenticated => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::UnknownModel | ErrorKind::NotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::TooMany => "rate_limit_error",
        ErrorKind::Budget => "billing_error",
        ErrorKind::Internal | ErrorKind::BadUpstream => "api_error",
        ErrorKind::Unavailable => "overloaded_error",
    };
    json!({"type": "error", "error": {"type": word, "message": message}})
}

fn stop_reason(finish: &str) -> &str {
    match finish {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        other => other,
    }
}

/// The dialect counts cached tokens separately.
fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    })
}

/// Writes a streamed answer as events: [`Self::begin`], then each delta, then [`Self::end`] or [`Self::error`].
///
/// A text block ends when a call begins. Blocks of calls end with the answer, because calls may be interleaved and a closed
/// block cannot continue.
#[derive(Debug)]
pub struct StreamWriter {
    head: AnswerHead,
    /// Number of blocks so far.
    blocks: usize,
    /// The open block of reasoning.
    reasoning: Option<usize>,
    /// The open text block.
    text: Option<usize>,
    /// Block of each call, by the call's index.
    calls: HashMap<usize, usize>,
}

impl StreamWriter {
    /// A writer for one answer.
    pub fn new(head: AnswerHead) -> Self {
        Self { head, blocks: 0, reasoning: None, text: None, calls: HashMap::new() }
    }

    /// The first event. Prompt tokens are only known at the end and sent there.
    pub fn begin(&mut self) -> String {
        let message = json!({
            "id": self.head.id, "type": "message", "role": "assistant", "model": self.head.model,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage(Usage::default()),
        });
        event("message_start", &json!({"type": "message_start", "message": message}))
    }

    /// The events of one delta. The dialect has no log-probs and reports usage at the end.
    pub fn delta(&mut self, delta: &ModelDelta) -> String {
        match delta {
            ModelDelta::Reasoning(text) => {
                let (at, mut events) = match self.reasoning {
                    Some(at) => (at, String::new()),
                    None => self.start(&thinking("")),
                };
                self.reasoning = Some(at);
                events.push_str(&block_delta(at, &json!({"type": "thinking_delta", "thinking": text})));
                events
            }
            ModelDelta::Text(text) => {
                let mut events: String = self.reasoning.take().map(stop).into_iter().collect();
                let at = match self.text {
                    Some(at) => at,
                    None => {
                        let (at, begun) = self.start(&json!({"type": "text", "text": ""}));
                        self.text = Some(at);
                        events.push_str(&begun);
                        at
                    }
                };
                events.push_str(&block_delta(at, &json!({"type": "text_delta", "text": text})));
                events
            }
            ModelDelta::ToolCall { index, id, name, arguments } => {
                let mut events = String::new();
                let at = match self.calls.get(index) {
                    Some(at) => *at,
                    None => {
                        events.extend(self.reasoning.take().into_iter().chain(self.text.take()).map(stop));
                        let (id, name) = (id.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
                        let (at, begun) = self.start(&json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                        events.push_str(&begun);
                        self.calls.insert(*index, at);
                        at
                    }
                };
                if !arguments.is_empty() {
                    events.push_str(&block_delta(at, &json!({"type": "input_json_delta", "partial_json": arguments})));
                }
                events
            }
            ModelDelta::Logprobs(_) | ModelDelta::Usage(_) => String::new(),
        }
    }

    /// The end of the answer, after all deltas.
    pub fn end(&mut self, response: &ModelResponse) -> String {
        let mut open: Vec<usize> = self.calls.drain().map(|(_, at)| at).collect();
        open.extend(self.reasoning.take().into_iter().chain(self.text.take()));
        open.sort_unstable();
        let mut events: String = open.into_iter().map(stop).collect();
        let delta = json!({"stop_reason": stop_reason(&response.finish), "stop_sequence": null});
        let ends = json!({"type": "message_delta", "delta": delta, "usage": usage(response.usage)});
        events.push_str(&event("message_delta", &ends));
        events.push_str(&event("message_stop", &json!({"type": "message_stop"})));
        events
    }

    /// An error event, the last event of a stream.
    pub fn error(&mut self, kind: ErrorKind, message: &str) -> String {
        event("error", &error_body(kind, message))
    }

    fn start(&mut self, block: &Value) -> (usize, String) {
        let at = self.blocks;
        self.blocks += 1;
        let starts = json!({"type": "content_block_start", "index": at, "content_block": block});
        (at, event("content_block_start", &starts))
    }
}

fn block_delta(at: usize, delta: &Value) -> String {
    event("content_block_delta", &json!({"type": "content_block_delta", "index": at, "delta": delta}))
}

fn stop(at: usize) -> String {
    event("content_block_stop", &json!({"type": "content_block_stop", "index": at}))
}

fn event(name: &str, data: &Value) -> String {
    sse::write(name, &data.to_string())
}
