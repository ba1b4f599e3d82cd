//! Parses a streamed answer: events from `message_start` to `message_stop`.

use super::response::{finish, usage};
use super::{MessagesResponse, WireUsage};
use crate::sse::SseEvent;
use crate::stream::{AnswerStream, CALLS, GrowingCall, Size, usage_delta};
use crate::{WireError, malformed};
use clawhost_core::{AnsweringModel, Message, ModelDelta, ModelResponse, Origin, Part, Role, ToolCall, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// Bytes that a block counts besides its text, so that many empty blocks cannot exhaust memory.
const BLOCK_BYTES: usize = 64;

/// An event, as far as it is parsed. It has the fields of all kinds.
#[derive(Debug, Deserialize)]
struct StreamEvent {
    #[serde(rename = "type", default, deserialize_with = "crate::lenient_text")]
    kind: Option<String>,
    #[serde(default)]
    index: u64,
    #[serde(default)]
    message: Option<MessagesResponse>,
    #[serde(default)]
    content_block: Value,
    #[serde(default)]
    delta: Value,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Value,
}

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A text: its index among the texts.
    Text(usize),
    /// A call: its index among the calls.
    Call(usize),
    /// Thinking, and other content that is not part of the policy's action.
    Other,
}

/// A call, and the input at the beginning of its block.
#[derive(Debug, Default)]
struct Call {
    growing: GrowingCall,
    /// The arguments, if the server sent them at the beginning of the block.
    input: Option<String>,
    ended: bool,
}

/// Parses a streamed answer.
#[derive(Debug, Default)]
pub struct StreamReader {
    blocks: HashMap<u64, Kind>,
    /// The block of the last delta.
    last: Option<Kind>,
    texts: Vec<String>,
    calls: Vec<Call>,
    usage: Usage,
    counted: Option<WireUsage>,
    model: Option<String>,
    stop_reason: Option<String>,
    begun: bool,
    over: bool,
    size: Size,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Counts only grow; some servers later omit counts that they sent before.
fn grown(known: Option<WireUsage>, now: WireUsage) -> WireUsage {
    let Some(known) = known else { return now };
    WireUsage {
        input_tokens: known.input_tokens.max(now.input_tokens),
        output_tokens: known.output_tokens.max(now.output_tokens),
        cache_read_input_tokens: known.cache_read_input_tokens.max(now.cache_read_input_tokens),
        cache_creation_input_tokens: known.cache_creation_input_tokens.max(now.cache_creation_input_tokens),
        rest: now.rest,
    }
}

impl StreamReader {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    fn cost(&mut self, now: WireUsage) -> Option<ModelDelta> {
        let counted = grown(self.counted.take(), now);
        let now = usage(&counted);
        self.counted = Some(counted);
        usage_delta(&mut self.usage, now)
    }

    fn start(&mut self, index: u64, block: &Value) -> Result<Vec<ModelDelta>, WireError> {
        self.size.add(BLOCK_BYTES)?;
        let kind = match text(block, "type") {
            "text" => {
                self.texts.push(String::new());
                Kind::Text(self.texts.len() - 1)
            }
            "tool_use" if self.calls.len() >= CALLS => {
                return Err(WireError::TooLarge(format!("the answer calls more than {CALLS} tools")));
            }
            "tool_use" => {
                let mut growing = GrowingCall::default();
                growing.id = text(block, "id").to_owned();
                growing.name = text(block, "name").to_owned();
                if growing.name.is_empty() {
                    return Err(WireError::Malformed(
                        "a tool call without a name".to_owned(),
                        crate::shown(&block.to_string()),
                    ));
                }
                self.size.add(growing.id.len() + growing.name.len())?;
                let input = block.get("input").filter(|input| !input.is_null()).map(Value::to_string);
                self.calls.push(Call { growing, input, ended: false });
                Kind::Call(self.calls.len() - 1)
            }
            _ => Kind::Other,
        };
        self.blocks.insert(index, kind);
        match kind {
            Kind::Text(at) => Ok(self.say(at, text(block, "text"))?.into_iter().collect()),
            Kind::Call(at) => {
                self.last = Some(kind);
                Ok(self.calls.get_mut(at).and_then(|call| call.growing.delta(at)).into_iter().collect())
            }
            Kind::Other => Ok(Vec::new()),
        }
    }

    fn say(&mut self, at: usize, more: &str) -> Result<Option<ModelDelta>, WireError> {
        if more.is_empty() {
            return Ok(None);
        }
        // Deltas are passed on in order, so an earlier text cannot continue after a later one.
        if self.texts.iter().skip(at + 1).any(|later| !later.is_empty()) {
            let problem = "a text goes on behind the next one".to_owned();
            return Err(WireError::Malformed(problem, crate::shown(more)));
        }
        let (before, Some(said)) = (self.texts.iter().take(at).any(|text| !text.is_empty()), self.texts.get_mut(at))
        else {
            return Ok(None);
        };
        // Parts of a message are joined by line ends.
        let piece = if before && said.is_empty() { format!("\n{more}") } else { more.to_owned() };
        self.size.add(more.len())?;
        said.push_str(more);
        self.last = Some(Kind::Text(at));
        Ok(Some(ModelDelta::Text(piece)))
    }

    fn delta(&mut self, index: u64, delta: &Value) -> Result<Option<ModelDelta>, WireError> {
        let kind = match (text(delta, "type"), self.blocks.get(&index).copied()) {
            // Some servers omit the start of a text block.
            ("text_delta", None) => {
                self.size.add(BLOCK_BYTES)?;
                self.texts.push(String::new());
                let kind = Kind::Text(self.texts.len() - 1);
                self.blocks.insert(index, kind);
                kind
            }
            ("input_json_delta", None) => {
                let problem = "arguments of a tool call that has not begun".to_owned();
                return Err(WireError::Malformed(problem, crate::shown(&delta.to_string())));
            }
            (_, kind) => kind.unwrap_or(Kind::Other),
        };
        match (text(delta, "type"), kind) {
            ("text_delta", Kind::Text(at)) => self.say(at, text(delta, "text")),
            ("input_json_delta", Kind::Call(at)) => {
                let more = text(delta, "partial_json");
                self.size.add(more.len())?;
                self.last = Some(kind);
                let Some(call) = self.calls.get_mut(at) else { return Ok(None) };
                call.growing.arguments.push_str(more);
                Ok(call.growing.delta(at))
            }
            // Thinking, its signature, citations.
            _ => Ok(None),
        }
    }

    /// The end of a block. A call without argument deltas has the arguments of its start.
    fn stop(&mut self, kind: Option<Kind>) -> Option<ModelDelta> {
        let Some(Kind::Call(at)) = kind else { return None };
        let call = self.calls.get_mut(at).filter(|call| !call.ended)?;
        call.ended = true;
        if call.growing.arguments.is_empty() {
            call.growing.arguments = call.input.take().unwrap_or_else(|| "{}".to_owned());
        }
        call.growing.delta(at)
    }

    fn place(&self) -> &'static str {
        match (&self.stop_reason, self.last) {
            (Some(_), _) => "without `message_stop`",
            (None, Some(Kind::Call(_))) => "in the middle of a tool call",
            (None, Some(Kind::Text(_))) => "in the middle of a text",
            (None, _) => "before it said anything",
        }
    }
}

impl AnswerStream for StreamReader {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<ModelDelta>, WireError> {
        let data = event.data.trim();
        if self.over || data.is_empty() {
            return Ok(Vec::new());
        }
        let StreamEvent { kind, index, message, content_block, delta, usage, error } =
            serde_json::from_str(data).map_err(|error| malformed(data, &error))?;
        if !error.is_null() {
            return Err(crate::endpoint_error(&error));
        }
        match kind.as_deref().unwrap_or(&event.name) {
            "error" => Err(WireError::Endpoint(crate::shown(data))),
            "message_start" => {
                self.begun = true;
                let Some(message) = message else { return Ok(Vec::new()) };
                self.model = self.model.take().or(crate::text_in(&message.rest, "model"));
                Ok(message.usage.and_then(|usage| self.cost(usage)).into_iter().collect())
            }
            "content_block_start" => self.start(index, &content_block),
            "content_block_delta" => Ok(self.delta(index, &delta)?.into_iter().collect()),
            "content_block_stop" => Ok(self.stop(self.blocks.get(&index).copied()).into_iter().collect()),
            "message_delta" => {
                let reason = delta.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
                self.stop_reason = reason.or(self.stop_reason.take());
                Ok(usage.and_then(|usage| self.cost(usage)).into_iter().collect())
            }
            "message_stop" => {
                self.over = true;
                // Some servers omit the ends of blocks.
                let open: Vec<Kind> = (0..self.calls.len()).map(Kind::Call).collect();
                Ok(open.into_iter().filter_map(|kind| self.stop(Some(kind))).collect())
            }
            // `ping` and unknown events.
            _ => Ok(Vec::new()),
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, WireError> {
        if !self.over {
            return Err(WireError::CutOff(self.place()));
        }
        let Some(reason) = self.stop_reason else {
            return Err(if self.begun { WireError::CutOff("without a reason to stop") } else { WireError::Empty });
        };
        let call = |call: Call| -> ToolCall {
            let mut call = call.growing.into_call();
            // Compact, as in the whole answer. Truncated arguments stay unchanged.
            if let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) {
                call.arguments = arguments.to_string();
            }
            call
        };
        let tool_calls: Vec<ToolCall> = self.calls.into_iter().map(call).collect();
        let finish = finish(Some(&reason), &tool_calls);
        let message = Message {
            role: Role::Assistant,
            parts: self.texts.into_iter().filter(|text| !text.is_empty()).map(Part::Text).collect(),
            tool_calls,
            tool_call_id: None,
            origin: Origin::Policy,
            extra: Vec::new(),
        };
        Ok(ModelResponse {
            answered_by: self.model.map(|model| AnsweringModel { model, version: None }),
            ..ModelResponse::new(message, self.usage, finish)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamedAnswer;
    use serde_json::json;

    fn read(events: &[Value], end: &str) -> Result<(Vec<ModelDelta>, ModelResponse), WireError> {
        let mut answer = StreamedAnswer::new(StreamReader::new());
        let mut deltas = Vec::new();
        for event in events {
            let name = event["type"].as_str().unwrap();
            deltas.extend(answer.push(format!("event: {name}\ndata: {event}\n\n").as_bytes())?);
        }
        deltas.extend(answer.push(end.as_bytes())?);
        let (last, response) = answer.finish()?;
        deltas.extend(last);
        Ok((deltas, response))
    }

    const END: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

    fn begins() -> Value {
        json!({"type": "message_start", "message": {"id": "x", "model": "m", "content": [], "stop_reason": null, "usage": {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}}})
    }

    fn block(index: u64, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn text(index: u64, text: &str) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}})
    }

    fn arguments(index: u64, text: &str) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}})
    }

    fn stop(index: u64) -> Value {
        json!({"type": "content_block_stop", "index": index})
    }

    fn finishes(reason: &str) -> Value {
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    }

    #[test]
    fn an_answer_is_assembled_from_its_blocks() {
        let thinking =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}});
        let events = [
            begins(),
            json!({"type": "ping"}),
            block(0, json!({"type": "thinking", "thinking": ""})),
            thinking,
            stop(0),
            block(1, json!({"type": "text", "text": ""})),
            text(1, "a"),
            text(1, "b"),
            stop(1),
            block(2, json!({"type": "text", "text": "c"})),
            stop(2),
            block(3, json!({"type": "text", "text": ""})),
            stop(3),
            block(4, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
            arguments(4, ""),
            arguments(4, "{\"x\""),
            arguments(4, ": 1}"),
            stop(4),
            json!({"type": "something_new", "x": 1}),
            finishes("tool_use"),
        ];
        let (deltas, response) = read(&events, END).unwrap();
        assert_eq!(response.message.parts, [Part::Text("ab".into()), Part::Text("c".into())]);
        assert_eq!(response.message.tool_calls[0].arguments, "{\"x\":1}", "compact, as in the whole answer");
        assert_eq!(
            response.usage,
            Usage { prompt_tokens: 7, completion_tokens: 7, cached_tokens: 2, ..Usage::default() }
        );
        assert_eq!((response.finish.as_str(), response.answered_by.unwrap().model.as_str()), ("tool_calls", "m"));
        let call = |head: Option<&str>, arguments: &str| ModelDelta::ToolCall {
            index: 0,
            id: head.map(|_| "t".into()),
            name: head.map(str::to_owned),
            arguments: arguments.into(),
        };
        let expected = [
            ModelDelta::Usage(Usage { prompt_tokens: 7, completion_tokens: 1, cached_tokens: 2, ..Usage::default() }),
            ModelDelta::Text("a".into()),
            ModelDelta::Text("b".into()),
            ModelDelta::Text("\nc".into()),
            call(Some("f"), ""),
            call(None, "{\"x\""),
            call(None, ": 1}"),
            ModelDelta::Usage(response.usage),
        ];
        assert_eq!(deltas, expected);
    }

    #[test]
    fn arguments_may_be_missing_whole_interleaved_or_truncated() {
        let tool = |index, input: Value| block(index, json!({"type": "tool_use", "name": "f", "input": input}));
        let check = |events: &[Value], reason: &str, expected: &[&str]| {
            let events = [&[begins()], events, &[finishes(reason)]].concat();
            let (_, response) = read(&events, END).unwrap();
            let calls = response.message.tool_calls;
            assert_eq!(calls.iter().map(|call| call.arguments.as_str()).collect::<Vec<_>>(), expected);
            assert!(calls.iter().enumerate().all(|(at, call)| call.id == format!("call-{at}")));
        };
        check(&[tool(0, json!({})), stop(0)], "tool_use", &["{}"]);
        check(&[tool(0, Value::Null)], "tool_use", &["{}"]);
        check(&[tool(0, json!({"x": 1})), stop(0)], "tool_use", &["{\"x\":1}"]);
        let interleaved =
            [tool(0, json!({})), tool(1, json!({})), arguments(0, "[1,"), arguments(1, "2"), arguments(0, "3]")];
        check(&interleaved, "tool_use", &["[1,3]", "2"]);
        check(&[tool(0, json!({})), arguments(0, "{\"x\": "), stop(0)], "max_tokens", &["{\"x\": "]);
    }

    #[test]
    fn a_truncated_stream_is_an_error() {
        let check = |events: &[Value], end: &str, expected: &str| {
            let error = read(events, end).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{events:?} {end}: {error}");
        };
        let texts = [begins(), block(0, json!({"type": "text", "text": ""})), text(0, "a")];
        let tool = block(1, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}));
        check(&[], "", "the stream ended before it said anything");
        check(&[], END, "the body holds no answer");
        check(&[begins()], "", "the stream ended before it said anything");
        check(&texts, "", "the stream ended in the middle of a text");
        check(&[&texts[..], &[tool, arguments(1, "{")]].concat(), "", "the stream ended in the middle of a tool call");
        check(&texts, END, "the stream ended without a reason to stop");
        check(&[&texts[..], &[finishes("end_turn")]].concat(), "", "the stream ended without `message_stop`");
        check(&texts, "data: {\"type\": \"mess", "the stream ended in the middle of an event");
        let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
        check(&texts, error, "the endpoint says: Overloaded");
        check(&texts, "data: <html>\n\n", "expected value at line 1 column 1; it begins with `<html>`");
        check(&[begins(), arguments(0, "{")], END, "arguments of a tool call that has not begun");
        check(&[block(0, json!({"type": "tool_use"}))], END, "a tool call without a name");
        let back = [block(0, json!({"type": "text"})), text(0, "a"), text(1, "b"), text(0, "c")];
        check(&back, END, "a text goes on behind the next one");
        let many: Vec<Value> =
            (0..=CALLS as u64).map(|at| block(at, json!({"type": "tool_use", "name": "f"}))).collect();
        check(&many, END, "the answer calls more than 1024 tools");
        let long = text(0, &"x".repeat(6 << 20));
        check(&[long.clone(), long], END, "the answer is longer than 10485760 bytes");
    }
}
