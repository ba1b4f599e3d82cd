//! Writes a streamed answer: items begin, grow and end, and the last event holds all of them.

use super::answer::{
    State, arguments, call_item, ended, error_events, failed_with, item_id, logprobs, message_item, object,
    reasoning_item, reasoning_part, text_part,
};
use super::tools::{Namespaces, ToolName};
use crate::server::{AnswerHead, ErrorKind};
use crate::sse;
use clawhost_core::{ModelDelta, ModelResponse};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// An item that grows.
#[derive(Debug)]
enum Item {
    Reasoning { id: String, text: String },
    Text { id: String, text: String },
    Call { id: String, call: String, tool: ToolName, arguments: String },
}

/// Writes a streamed answer as events: [`Self::begin`], then each delta, then [`Self::end`] or [`Self::error`].
///
/// A text ends when a call begins, and reasoning when anything else does. Calls end with the answer, because they may be interleaved.
#[derive(Debug)]
pub struct StreamWriter {
    head: AnswerHead,
    repeated: Map<String, Value>,
    namespaces: Namespaces,
    /// Events so far.
    number: u64,
    items: Vec<Item>,
    /// The last item, if it is reasoning that still grows.
    open_reasoning: Option<usize>,
    /// The last item, if it is a text that still grows.
    open_text: Option<usize>,
    /// Items of calls, by the call's index.
    calls: HashMap<usize, usize>,
}

impl StreamWriter {
    /// A writer for one answer. `repeated` are the fields of the request that a response repeats.
    pub fn new(head: AnswerHead, repeated: Map<String, Value>) -> Self {
        let namespaces = Namespaces::of(&repeated);
        Self {
            head,
            repeated,
            namespaces,
            number: 0,
            items: Vec::new(),
            open_reasoning: None,
            open_text: None,
            calls: HashMap::new(),
        }
    }

    fn event(&mut self, kind: &str, fields: Value) -> String {
        let mut event = json!({"type": kind, "sequence_number": self.number});
        self.number += 1;
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        sse::write(kind, &event.to_string())
    }

    fn object(&self, state: &State) -> Value {
        object(&self.head, &self.repeated, state)
    }

    /// The first events.
    pub fn begin(&mut self) -> String {
        let state = State { status: "in_progress", incomplete: None, output: vec![], usage: None, error: Value::Null };
        let response = self.object(&state);
        let created = self.event("response.created", json!({"response": response}));
        created + &self.event("response.in_progress", json!({"response": response}))
    }

    /// The events of one delta. Log-probs and usage are sent at the end.
    pub fn delta(&mut self, delta: &ModelDelta) -> String {
        match delta {
            ModelDelta::Reasoning(delta) => {
                let (at, mut events) = match self.open_reasoning {
                    Some(at) => (at, String::new()),
                    None => self.begin_reasoning(),
                };
                let Some(Item::Reasoning { id, text }) = self.items.get_mut(at) else { return events };
                text.push_str(delta);
                let place = json!({"item_id": id, "output_index": at, "content_index": 0, "delta": delta});
                events.push_str(&self.event("response.reasoning_text.delta", place));
                events
            }
            ModelDelta::Text(delta) => {
                let (at, mut events) = match self.open_text {
                    Some(at) => (at, String::new()),
                    None => self.begin_text(),
                };
                let Some(Item::Text { id, text }) = self.items.get_mut(at) else { return events };
                text.push_str(delta);
                let place = json!({
                    "item_id": id, "output_index": at, "content_index": 0, "delta": delta, "logprobs": [],
                });
                events.push_str(&self.event("response.output_text.delta", place));
                events
            }
            ModelDelta::ToolCall { index, id, name, arguments } => {
                let (at, mut events) = match self.calls.get(index) {
                    Some(at) => (*at, String::new()),
                    None => self.begin_call(*index, id.as_deref(), name.as_deref()),
                };
                let Some(Item::Call { id, arguments: all, .. }) = self.items.get_mut(at) else { return events };
                if !arguments.is_empty() {
                    all.push_str(arguments);
                    let place = json!({"item_id": id, "output_index": at, "delta": arguments});
                    events.push_str(&self.event("response.function_call_arguments.delta", place));
                }
                events
            }
            ModelDelta::Logprobs(_) | ModelDelta::Usage(_) => String::new(),
        }
    }

    /// The beginning of an item with its only part.
    fn begin_part(&mut self, (at, id): (usize, &str), item: &Value, part: &Value) -> String {
        let added = self.event("response.output_item.added", json!({"output_index": at, "item": item}));
        let place = json!({"item_id": id, "output_index": at, "content_index": 0, "part": part});
        added + &self.event("response.content_part.added", place)
    }

    /// The end of an item with its only part.
    fn end_part(&mut self, (at, id): (usize, &str), item: &Value, part: &Value) -> String {
        let place = json!({"item_id": id, "output_index": at, "content_index": 0, "part": part});
        let done = self.event("response.content_part.done", place);
        done + &self.event("response.output_item.done", json!({"output_index": at, "item": item}))
    }

    fn begin_reasoning(&mut self) -> (usize, String) {
        let mut events = self.end_text(&json!([]));
        let at = self.items.len();
        let id = item_id(&self.head, "rs", at);
        let item = reasoning_item(&id, "", "in_progress");
        events.push_str(&self.begin_part((at, &id), &item, &reasoning_part("")));
        self.items.push(Item::Reasoning { id, text: String::new() });
        self.open_reasoning = Some(at);
        (at, events)
    }

    fn end_reasoning(&mut self) -> String {
        let Some(at) = self.open_reasoning.take() else { return String::new() };
        let Some(Item::Reasoning { id, text }) = self.items.get(at) else { return String::new() };
        let (id, text) = (id.clone(), text.clone());
        let place = json!({"item_id": id, "output_index": at, "content_index": 0, "text": text});
        let done = self.event("response.reasoning_text.done", place);
        done + &self.end_part((at, &id), &reasoning_item(&id, &text, "completed"), &reasoning_part(&text))
    }

    fn begin_text(&mut self) -> (usize, String) {
        let mut events = self.end_reasoning();
        let at = self.items.len();
        let id = item_id(&self.head, "msg", at);
        let item = message_item(&id, "", json!([]), "in_progress");
        events.push_str(&self.begin_part((at, &id), &item, &text_part("", json!([]))));
        self.items.push(Item::Text { id, text: String::new() });
        self.open_text = Some(at);
        (at, events)
    }

    fn begin_call(&mut self, index: usize, call: Option<&str>, name: Option<&str>) -> (usize, String) {
        let mut events = self.end_reasoning() + &self.end_text(&json!([]));
        let at = self.items.len();
        let id = item_id(&self.head, "fc", at);
        let (call, tool) = (call.unwrap_or_default().to_owned(), self.namespaces.name(name.unwrap_or_default()));
        let item = call_item(&id, &call, &tool, "", "in_progress");
        events.push_str(&self.event("response.output_item.added", json!({"output_index": at, "item": item})));
        self.items.push(Item::Call { id, call, tool, arguments: String::new() });
        self.calls.insert(index, at);
        (at, events)
    }

    fn end_text(&mut self, logprobs: &Value) -> String {
        let Some(at) = self.open_text.take() else { return String::new() };
        let Some(Item::Text { id, text }) = self.items.get(at) else { return String::new() };
        let (id, text) = (id.clone(), text.clone());
        let place = json!({"item_id": id, "output_index": at, "content_index": 0, "text": text, "logprobs": logprobs});
        let done = self.event("response.output_text.done", place);
        let item = message_item(&id, &text, logprobs.clone(), "completed");
        done + &self.end_part((at, &id), &item, &text_part(&text, logprobs.clone()))
    }

    fn end_calls(&mut self) -> String {
        let mut events = String::new();
        let mut open: Vec<usize> = self.calls.drain().map(|(_, at)| at).collect();
        open.sort_unstable();
        for at in open {
            let Some(Item::Call { id, call, tool, arguments: all }) = self.items.get_mut(at) else { continue };
            let (id, tool, is_empty) = (id.clone(), tool.clone(), all.is_empty());
            *all = arguments(all).to_owned();
            let arguments = all.clone();
            let item = call_item(&id, call, &tool, &arguments, "completed");
            if is_empty {
                let place = json!({"item_id": id, "output_index": at, "delta": arguments});
                events.push_str(&self.event("response.function_call_arguments.delta", place));
            }
            let place = json!({"item_id": id, "output_index": at, "name": tool.name, "arguments": arguments});
            events.push_str(&self.event("response.function_call_arguments.done", place));
            events.push_str(&self.event("response.output_item.done", json!({"output_index": at, "item": item})));
        }
        events
    }

    fn output(&self, logprobs: &Value) -> Vec<Value> {
        let item = |item: &Item| match item {
            Item::Reasoning { id, text } => reasoning_item(id, text, "completed"),
            Item::Text { id, text } => message_item(id, text, logprobs.clone(), "completed"),
            Item::Call { id, call, tool, arguments } => call_item(id, call, tool, arguments, "completed"),
        };
        self.items.iter().map(item).collect()
    }

    /// The object of the whole answer, as the last event holds it.
    pub fn whole(&self, response: &ModelResponse) -> Value {
        let (status, incomplete) = ended(&response.finish);
        let output = self.output(&logprobs(response));
        self.object(&State { status, incomplete, output, usage: Some(response.usage), error: Value::Null })
    }

    /// The end of the answer, after all deltas.
    pub fn end(&mut self, response: &ModelResponse) -> String {
        let mut events = self.end_reasoning() + &self.end_text(&logprobs(response));
        events.push_str(&self.end_calls());
        let whole = self.whole(response);
        let (status, _) = ended(&response.finish);
        events + &self.event(&format!("response.{status}"), json!({"response": whole}))
    }

    /// The end of an answer that broke off.
    pub fn error(&mut self, kind: ErrorKind, message: &str) -> String {
        let failed = failed_with(&self.head, &self.repeated, self.output(&json!([])), kind, message);
        error_events(kind, message, self.number, &failed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StreamReader, body, response};
    use super::*;
    use crate::stream::StreamedAnswer;
    use clawhost_core::{Message, Origin, REASONING, Role, ToolCall, Usage};

    fn head() -> AnswerHead {
        AnswerHead { id: "resp_1".into(), model: "m".into(), version: None, created: 5 }
    }

    fn answer(text: &str, calls: &[&str], finish: &str) -> ModelResponse {
        let mut message = Message::text(Role::Assistant, Origin::Policy, text);
        if text.is_empty() {
            message.parts.clear();
        }
        let call = |id: &&str| ToolCall {
            id: (*id).to_owned(),
            name: "f".into(),
            arguments: "{\"a\":1}".into(),
            extra: Vec::new(),
        };
        message.tool_calls = calls.iter().map(call).collect();
        let usage = Usage { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1, ..Usage::default() };
        ModelResponse::new(message, usage, finish)
    }

    fn streamed(response: &ModelResponse) -> (Vec<Value>, String) {
        let mut writer = StreamWriter::new(head(), Map::new());
        let mut text = writer.begin();
        for letter in response.reasoning().unwrap_or_default().chars() {
            text.push_str(&writer.delta(&ModelDelta::Reasoning(letter.to_string())));
        }
        let said = response.message.plain_text();
        for letter in said.chars() {
            text.push_str(&writer.delta(&ModelDelta::Text(letter.to_string())));
        }
        for (index, call) in response.message.tool_calls.iter().enumerate() {
            let first = ModelDelta::ToolCall {
                index,
                id: Some(call.id.clone()),
                name: Some(call.name.clone()),
                arguments: String::new(),
            };
            text.push_str(&writer.delta(&first));
            for piece in call.arguments.chars() {
                let arguments = piece.to_string();
                text.push_str(&writer.delta(&ModelDelta::ToolCall { index, id: None, name: None, arguments }));
            }
        }
        text.push_str(&writer.end(response));
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        (data.map(|data| serde_json::from_str(data).unwrap()).collect(), text)
    }

    #[test]
    fn a_streamed_answer_is_the_whole_one() {
        let check = |answer: &ModelResponse| {
            let (events, text) = streamed(answer);
            let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
            assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
            assert_eq!(events.last().unwrap()["response"], body(&head(), &Map::new(), answer));
            let mut reader = StreamedAnswer::new(StreamReader::new());
            reader.push(text.as_bytes()).unwrap();
            let (_, read) = reader.finish().unwrap();
            let whole = response(&body(&head(), &Map::new(), answer).to_string()).unwrap();
            assert_eq!(read, whole);
            assert_eq!((&read.message, read.usage, &read.finish), (&answer.message, answer.usage, &answer.finish));
        };
        check(&answer("hello", &[], "stop"));
        check(&answer("", &["c1", "c2"], "tool_calls"));
        check(&answer("let me look", &["c1"], "tool_calls"));
        check(&answer("cut", &[], "length"));
        let mut without = answer("", &["c1"], "tool_calls");
        without.message.tool_calls[0].arguments.clear();
        let (events, _) = streamed(&without);
        let whole = body(&head(), &Map::new(), &without);
        assert_eq!(events.last().unwrap()["response"], whole);
        assert_eq!(whole["output"][0]["arguments"], "{}");
        let is_delta = |event: &&Value| event["type"] == "response.function_call_arguments.delta";
        let deltas: String = events.iter().filter(is_delta).map(|event| event["delta"].as_str().unwrap()).collect();
        assert_eq!(deltas, "{}");
    }

    #[test]
    fn reasoning_is_an_item_before_the_answer() {
        let check = |mut said: ModelResponse, after: &[&str]| {
            said.message.extra.push((REASONING.to_owned(), "hm".to_owned()));
            let (events, text) = streamed(&said);
            let whole = body(&head(), &Map::new(), &said);
            assert_eq!(events.last().unwrap()["response"], whole);
            let part = json!({"type": "reasoning_text", "text": "hm"});
            assert_eq!((&whole["output"][0]["type"], &whole["output"][0]["content"][0]), (&"reasoning".into(), &part));
            let ids: Vec<&str> =
                whole["output"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
            assert_eq!(ids, after);
            let of_reasoning = |event: &&Value| event["item_id"] == ids[0];
            let kinds: Vec<&str> =
                events.iter().filter(of_reasoning).map(|event| event["type"].as_str().unwrap()).collect();
            let expect = [
                "response.content_part.added",
                "response.reasoning_text.delta",
                "response.reasoning_text.delta",
                "response.reasoning_text.done",
                "response.content_part.done",
            ];
            assert_eq!(kinds, expect);
            let of_item = |kind: &str, number: u64| {
                events.iter().position(|event| event["type"] == kind && event["output_index"] == number)
            };
            let ended = of_item("response.output_item.done", 0).unwrap();
            assert_eq!(events[ended]["item"], whole["output"][0]);
            assert!(
                of_item("response.output_item.added", 1).is_none_or(|next| ended < next),
                "it ends before the next"
            );
            // The text alone is the answer.
            let mut reader = StreamedAnswer::new(StreamReader::new());
            reader.push(text.as_bytes()).unwrap();
            assert_eq!(reader.finish().unwrap().1.message.plain_text(), said.message.plain_text());
        };
        check(answer("hello", &["c1"], "tool_calls"), &["rs_10000", "msg_10001", "fc_10002"]);
        check(answer("", &["c1"], "tool_calls"), &["rs_10000", "fc_10001"]);
        check(answer("", &[], "length"), &["rs_10000"]);
    }

    #[test]
    fn calls_of_tools_in_a_namespace_have_both_names() {
        let tools = json!([{"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]}]);
        let repeated = json!({"tools": tools}).as_object().cloned().unwrap();
        let mut said = answer("", &["c1"], "tool_calls");
        said.message.tool_calls[0].name = "agents__spawn".into();
        let check = |item: &Value| assert_eq!((&item["namespace"], &item["name"]), (&"agents".into(), &"spawn".into()));
        let whole = body(&head(), &repeated, &said);
        check(&whole["output"][0]);
        assert_eq!(response(&whole.to_string()).unwrap().message.tool_calls, said.message.tool_calls);
        let mut writer = StreamWriter::new(head(), repeated);
        let name = Some("agents__spawn".to_owned());
        let begun =
            writer.delta(&ModelDelta::ToolCall { index: 0, id: Some("c1".into()), name, arguments: "{}".into() });
        let added = begun.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        check(&serde_json::from_str::<Value>(added).unwrap()["item"]);
        check(&writer.whole(&said)["output"][0]);
    }

    #[test]
    fn every_item_begins_and_ends() {
        let (events, _) = streamed(&answer("ab", &["c1"], "tool_calls"));
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let mut expect = vec!["response.created", "response.in_progress"];
        expect.extend(["response.output_item.added", "response.content_part.added"]);
        expect.extend(["response.output_text.delta"; 2]);
        expect.extend(["response.output_text.done", "response.content_part.done", "response.output_item.done"]);
        expect.push("response.output_item.added");
        expect.extend(["response.function_call_arguments.delta"; 7]);
        expect.extend(["response.function_call_arguments.done", "response.output_item.done", "response.completed"]);
        assert_eq!(kinds, expect);
    }

    #[test]
    fn an_answer_that_breaks_off_ends_with_a_failed_response() {
        let mut writer = StreamWriter::new(head(), Map::new());
        writer.begin();
        writer.delta(&ModelDelta::Text("a".into()));
        let events = writer.error(ErrorKind::BadUpstream, "gone");
        let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let data: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        assert_eq!((&data[0]["type"], &data[0]["error"]["message"]), (&"error".into(), &"gone".into()));
        assert_eq!((&data[1]["type"], &data[1]["response"]["status"]), (&"response.failed".into(), &"failed".into()));
        assert_eq!(data[1]["response"]["error"], json!({"code": "server_error", "message": "gone"}));
        assert_eq!(data[1]["response"]["output"][0]["content"][0]["text"], "a");
    }
}
