//! Parses the answer of an endpoint: whole, or as events.

use super::items::messages;
use crate::openai::logprobs_in;
use crate::sse::SseEvent;
use crate::stream::{AnswerStream, CALLS, Size, usage_delta};
use crate::{WireError, malformed, text_in};
use clawhost_core::{AnsweringModel, Message, ModelDelta, ModelResponse, Origin, Role, Usage};
use serde_json::{Map, Value};

/// Parses an endpoint's answer.
///
/// # Errors
/// The body is not a response, it has not ended, or it contains an error.
pub fn response(body: &str) -> Result<ModelResponse, WireError> {
    let object: Map<String, Value> = serde_json::from_str(body).map_err(|error| malformed(body, &error))?;
    of_object(&object)
}

fn of_object(object: &Map<String, Value>) -> Result<ModelResponse, WireError> {
    if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
        return Err(crate::endpoint_error(error));
    }
    let output = object.get("output").and_then(Value::as_array).ok_or(WireError::Empty)?;
    let message = answer_of(output)?;
    let finish = match object.get("status").and_then(Value::as_str) {
        Some("queued" | "in_progress" | "cancelled" | "failed") => return Err(WireError::Empty),
        Some("incomplete") => {
            let reason = object.get("incomplete_details").and_then(|details| details.get("reason")?.as_str());
            match reason {
                Some("max_output_tokens") | None => "length",
                Some(reason) => reason,
            }
        }
        _ if message.tool_calls.is_empty() => "stop",
        _ => "tool_calls",
    };
    let finish = finish.to_owned();
    let usage = object.get("usage").map(usage).unwrap_or_default();
    Ok(ModelResponse {
        answered_by: text_in(object, "model").map(|model| AnsweringModel { model, version: None }),
        logprobs: output.iter().flat_map(logprobs).collect(),
        ..ModelResponse::new(message, usage, finish)
    })
}

/// What the items of an output say: one message. Reasoning is left out.
fn answer_of(output: &[Value]) -> Result<Message, WireError> {
    let said = messages(output)?;
    let mut all = Message { parts: Vec::new(), ..Message::text(Role::Assistant, Origin::Policy, "") };
    for message in said {
        all.parts.extend(message.parts);
        all.tool_calls.extend(message.tool_calls);
    }
    Ok(all)
}

fn logprobs(item: &Value) -> Vec<clawhost_core::TokenLogprob> {
    let parts = item.get("content").and_then(Value::as_array).into_iter().flatten();
    let tokens = parts.filter_map(|part| part.get("logprobs").filter(|tokens| tokens.is_array()));
    tokens.flat_map(|tokens| logprobs_in(&serde_json::json!({ "content": tokens }))).collect()
}

fn usage(usage: &Value) -> Usage {
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        prompt_tokens: count("/input_tokens"),
        completion_tokens: count("/output_tokens"),
        cached_tokens: count("/input_tokens_details/cached_tokens"),
        ..Usage::default()
    }
}

/// Parses a streamed answer. The last event holds the whole response; the events before it give the deltas.
#[derive(Debug, Default)]
pub struct StreamReader {
    /// Items that ended, for endpoints whose last event has no output.
    items: Vec<Value>,
    /// Output indexes of calls that began.
    calls: Vec<u64>,
    size: Size,
    usage: Usage,
    whole: Option<Map<String, Value>>,
    has_text: bool,
}

impl StreamReader {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    fn call(&mut self, event: &Value, item: Option<&Value>) -> Result<Option<ModelDelta>, WireError> {
        let number = event.get("output_index").and_then(Value::as_u64).unwrap_or(0);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        if let Some(item) = item {
            if self.calls.len() >= CALLS {
                return Err(WireError::TooLarge(format!("the answer calls more than {CALLS} tools")));
            }
            self.calls.push(number);
            let (id, name) = (text(item.get("call_id")), text(item.get("name")));
            return Ok(Some(ModelDelta::ToolCall {
                index: self.calls.len() - 1,
                id: Some(id.unwrap_or_default()),
                name: Some(name.unwrap_or_default()),
                arguments: String::new(),
            }));
        }
        let Some(index) = self.calls.iter().rposition(|known| *known == number) else { return Ok(None) };
        let arguments = text(event.get("delta")).unwrap_or_default();
        self.size.add(arguments.len())?;
        Ok(Some(ModelDelta::ToolCall { index, id: None, name: None, arguments }))
    }
}

impl AnswerStream for StreamReader {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<ModelDelta>, WireError> {
        let data = event.data.trim();
        if self.is_over() || data.is_empty() || data == "[DONE]" {
            return Ok(Vec::new());
        }
        let mut value: Value = serde_json::from_str(data).map_err(|error| malformed(data, &error))?;
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(&event.name).to_owned();
        let is_call = |item: &Value| item.get("type").is_some_and(|kind| kind == "function_call");
        match kind.as_str() {
            "error" => Err(crate::endpoint_error(value.get("error").unwrap_or(&value))),
            "response.output_text.delta" => {
                let text = value.get("delta").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.size.add(text.len())?;
                self.has_text = true;
                Ok(if text.is_empty() { vec![] } else { vec![ModelDelta::Text(text)] })
            }
            "response.output_item.added" => {
                let item = value.get("item").filter(|item| is_call(item)).cloned();
                match item {
                    Some(item) => Ok(self.call(&value, Some(&item))?.into_iter().collect()),
                    None => Ok(Vec::new()),
                }
            }
            "response.function_call_arguments.delta" => Ok(self.call(&value, None)?.into_iter().collect()),
            "response.output_item.done" => {
                self.size.add(data.len())?;
                self.items.extend(value.get_mut("item").map(Value::take));
                Ok(Vec::new())
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let Some(Value::Object(mut whole)) = value.get_mut("response").map(Value::take) else {
                    return Err(WireError::Empty);
                };
                if let Some(error) = whole.get("error").filter(|error| !error.is_null()) {
                    return Err(crate::endpoint_error(error));
                }
                if whole.get("output").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                    whole.insert("output".to_owned(), std::mem::take(&mut self.items).into());
                }
                let now = whole.get("usage").map(usage).unwrap_or_default();
                self.whole = Some(whole);
                Ok(usage_delta(&mut self.usage, now).into_iter().collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn is_over(&self) -> bool {
        self.whole.is_some()
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, WireError> {
        match &self.whole {
            Some(whole) => of_object(whole),
            None if !self.calls.is_empty() => Err(WireError::CutOff("in the middle of a tool call")),
            None if self.has_text => Err(WireError::CutOff("in the middle of a text")),
            None => Err(WireError::CutOff("before it said anything")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamedAnswer;
    use serde_json::json;

    #[test]
    fn whole_answers_are_read() {
        let body = json!({
            "id": "resp_1", "status": "completed", "model": "m", "error": null,
            "output": [
                {"type": "reasoning", "id": "rs", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "logprobs": [{"token": "a", "logprob": -0.5}]}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            ],
            "usage": {"input_tokens": 3, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
        });
        let read = response(&body.to_string()).unwrap();
        assert_eq!((read.message.plain_text().as_str(), read.finish.as_str()), ("a", "tool_calls"));
        assert_eq!(read.usage, Usage { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1, ..Usage::default() });
        assert_eq!((read.logprobs.len(), read.message.tool_calls.len()), (1, 1));
    }

    #[test]
    fn answers_that_did_not_succeed_are_errors() {
        let check = |body: Value, expect: &str| {
            assert_eq!(response(&body.to_string()).unwrap_err().to_string(), expect, "{body}");
        };
        check(json!({"error": {"message": "no"}}), "the endpoint says: no");
        check(json!({"status": "queued", "output": []}), "the body holds no answer");
        check(json!({"id": "x"}), "the body holds no answer");
        let cut = json!({"status": "incomplete", "output": [], "incomplete_details": {"reason": "max_output_tokens"}});
        assert_eq!(response(&cut.to_string()).unwrap().finish, "length");
    }

    #[test]
    fn a_stream_that_breaks_off_is_an_error() {
        let check = |events: &[Value], expect: &str| {
            let mut answer = StreamedAnswer::new(StreamReader::new());
            let error = events.iter().find_map(|event| answer.push(format!("data: {event}\n\n").as_bytes()).err());
            let error = error.unwrap_or_else(|| answer.finish().unwrap_err());
            assert_eq!(error.to_string(), expect, "{events:?}");
        };
        check(&[], "the stream ended before it said anything");
        let text = json!({"type": "response.output_text.delta", "delta": "a"});
        check(std::slice::from_ref(&text), "the stream ended in the middle of a text");
        let call = json!({"type": "response.output_item.added", "item": {"type": "function_call", "call_id": "c", "name": "f"}});
        check(&[text.clone(), call], "the stream ended in the middle of a tool call");
        check(&[text.clone(), json!({"type": "error", "message": "gone"})], "the endpoint says: gone");
        let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": {"message": "no"}}});
        check(&[text, failed], "the endpoint says: no");
    }

    #[test]
    fn items_of_a_last_event_without_output_are_those_that_ended() {
        let mut answer = StreamedAnswer::new(StreamReader::new());
        let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]});
        let events = [
            json!({"type": "response.output_item.done", "item": item}),
            json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
        ];
        events.iter().for_each(|event| drop(answer.push(format!("data: {event}\n\n").as_bytes()).unwrap()));
        assert_eq!(answer.finish().unwrap().1.message.plain_text(), "a");
    }
}
