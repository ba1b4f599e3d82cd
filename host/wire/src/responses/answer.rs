//! Writes a whole answer for a client.

use super::tools::{Namespaces, ToolName};
use crate::openai;
use crate::server::{AnswerHead, ErrorKind};
use crate::sse;
use clawhost_core::{ModelResponse, Usage};
use serde_json::{Map, Value, json};

/// The prefix of response ids.
const PREFIX: &str = "resp_";

/// The body of a whole answer. `repeated` are the fields of the request that a response repeats.
pub fn body(head: &AnswerHead, repeated: &Map<String, Value>, response: &ModelResponse) -> Value {
    let names = Namespaces::of(repeated);
    let mut output = Vec::new();
    output.extend(response.reasoning().map(|text| reasoning_item(&item_id(head, "rs", 0), text, "completed")));
    let text = response.message.plain_text();
    if !text.is_empty() {
        output.push(message_item(&item_id(head, "msg", output.len()), &text, logprobs(response), "completed"));
    }
    for call in &response.message.tool_calls {
        let id = item_id(head, "fc", output.len());
        output.push(call_item(&id, &call.id, &names.name(&call.name), arguments(&call.arguments), "completed"));
    }
    let (status, incomplete) = ended(&response.finish);
    object(head, repeated, &State { status, incomplete, output, usage: Some(response.usage), error: Value::Null })
}

/// The status of an answer that ended for a reason, and why it is incomplete.
pub(super) fn ended(finish: &str) -> (&'static str, Option<&'static str>) {
    match finish {
        "length" => ("incomplete", Some("max_output_tokens")),
        "content_filter" => ("incomplete", Some("content_filter")),
        _ => ("completed", None),
    }
}

/// How far an answer has come.
pub(super) struct State {
    pub(super) status: &'static str,
    pub(super) incomplete: Option<&'static str>,
    pub(super) output: Vec<Value>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Value,
}

/// The object of a response.
pub(super) fn object(head: &AnswerHead, repeated: &Map<String, Value>, state: &State) -> Value {
    let mut object = json!({
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "status": state.status,
        "background": false,
        "error": state.error,
        "incomplete_details": state.incomplete.map(|reason| json!({"reason": reason})),
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "model": head.model,
        "output": state.output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "store": true,
        "temperature": null,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": null,
        "truncation": "disabled",
        "usage": state.usage.map(usage),
        "user": null,
        "metadata": {},
    });
    if let Some(object) = object.as_object_mut() {
        object.extend(repeated.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    object
}

/// An id for an item of an answer, as unique as the id of the answer.
pub(super) fn item_id(head: &AnswerHead, kind: &str, number: usize) -> String {
    format!("{kind}_{}{number:04x}", head.id.strip_prefix(PREFIX).unwrap_or(&head.id))
}

pub(super) fn text_part(text: &str, logprobs: Value) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
}

pub(super) fn message_item(id: &str, text: &str, logprobs: Value, status: &str) -> Value {
    let content = if status == "in_progress" { json!([]) } else { json!([text_part(text, logprobs)]) };
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
}

pub(super) fn reasoning_part(text: &str) -> Value {
    json!({"type": "reasoning_text", "text": text})
}

/// What a model thought, as the text that it wrote. There is no summary.
pub(super) fn reasoning_item(id: &str, text: &str, status: &str) -> Value {
    let content = if status == "in_progress" { json!([]) } else { json!([reasoning_part(text)]) };
    json!({"id": id, "type": "reasoning", "status": status, "summary": [], "content": content})
}

pub(super) fn call_item(id: &str, call: &str, tool: &ToolName, arguments: &str, status: &str) -> Value {
    let ToolName { namespace, name } = tool;
    let mut item = json!({
        "id": id, "type": "function_call", "status": status, "call_id": call, "name": name, "arguments": arguments,
    });
    if let (Some(fields), Some(namespace)) = (item.as_object_mut(), namespace) {
        fields.insert("namespace".to_owned(), namespace.as_str().into());
    }
    item
}

/// The log-probs of an answer, in the form of the chat shape; an empty list without them.
pub(super) fn logprobs(response: &ModelResponse) -> Value {
    match openai::logprobs_of(&response.logprobs).get_mut("content") {
        Some(content) => content.take(),
        None => json!([]),
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.tokens(),
    })
}

/// The code of an error inside of a response.
pub(super) fn error_code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::TooMany => "rate_limit_exceeded",
        ErrorKind::Budget => "insufficient_quota",
        ErrorKind::TooLong => "context_length_exceeded",
        ErrorKind::InvalidRequest | ErrorKind::TooLarge => "invalid_prompt",
        _ => "server_error",
    }
}

/// The last events of a stream that broke off after `number` events: an error, which SDKs raise, and a response that failed, which
/// codex waits for. `failed` is the object of the response; [`failed`] makes one.
pub fn error_events(kind: ErrorKind, message: &str, number: u64, failed: &Value) -> String {
    let code = error_code(kind);
    let error = json!({"type": "server_error", "code": code, "message": message, "param": null});
    let event = json!({
        "type": "error", "code": code, "message": message, "param": null, "sequence_number": number, "error": error,
    });
    let last = json!({"type": "response.failed", "sequence_number": number + 1, "response": failed});
    sse::write("error", &event.to_string()) + &sse::write("response.failed", &last.to_string())
}

/// The object of a response that failed.
pub fn failed(head: &AnswerHead, repeated: &Map<String, Value>, kind: ErrorKind, message: &str) -> Value {
    failed_with(head, repeated, Vec::new(), kind, message)
}

pub(super) fn failed_with(
    head: &AnswerHead,
    repeated: &Map<String, Value>,
    output: Vec<Value>,
    kind: ErrorKind,
    message: &str,
) -> Value {
    let error = json!({"code": error_code(kind), "message": message});
    object(head, repeated, &State { status: "failed", incomplete: None, output, usage: None, error })
}

/// The arguments of a call. Clients parse them, so that none are an empty object.
pub(super) fn arguments(text: &str) -> &str {
    if text.trim().is_empty() { "{}" } else { text }
}
