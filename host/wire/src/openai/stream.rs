//! Parses a streamed answer: chunks up to `[DONE]`.

use super::response::{logprobs, usage};
use super::{ChatUsage, DIALECT};
use crate::sse::SseEvent;
use crate::stream::{AnswerStream, CALLS, GrowingCall, Size, usage_delta};
use crate::{WireError, malformed};
use clawhost_core::{
    AnsweringModel, Message, ModelDelta, ModelResponse, Origin, OtherAnswer, Part, Role, TokenLogprob, ToolCall, Usage,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The data of the final event.
pub(super) const DONE: &str = "[DONE]";

/// Bytes that a log-prob counts besides its token's text: about its size in memory.
const ENTRY_BYTES: usize = 32;

/// A chunk, as far as it is parsed.
#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "crate::or_default")]
    choices: Vec<ChunkChoice>,
    #[serde(default, deserialize_with = "crate::lenient_text")]
    model: Option<String>,
    #[serde(default, deserialize_with = "crate::lenient_text")]
    system_fingerprint: Option<String>,
    #[serde(default)]
    usage: Option<ChatUsage>,
    #[serde(default)]
    error: Value,
}

#[derive(Debug, Deserialize)]
struct ChunkChoice {
    #[serde(default)]
    index: u64,
    #[serde(default, deserialize_with = "crate::or_default")]
    delta: Delta,
    #[serde(default)]
    logprobs: Value,
    #[serde(default, deserialize_with = "crate::lenient_text")]
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Value,
    #[serde(default, deserialize_with = "crate::or_default")]
    tool_calls: Vec<CallPiece>,
}

#[derive(Debug, Deserialize)]
struct CallPiece {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, deserialize_with = "crate::lenient_text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "crate::or_default")]
    function: FunctionPiece,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionPiece {
    #[serde(default, deserialize_with = "crate::lenient_text")]
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

/// A call, and how the server numbers it.
#[derive(Debug, Default)]
struct Call {
    /// The server's index, if it sends one.
    number: Option<u64>,
    growing: GrowingCall,
    /// Whether any arguments arrived, even an empty text.
    has_arguments: bool,
}

/// Most answers to one request. Endpoints give 128.
const ANSWERS: usize = 128;
/// The finish reason of a further answer that came without one.
const UNFINISHED: &str = "unfinished";

/// One of the answers.
#[derive(Debug, Default)]
struct GrowingAnswer {
    text: String,
    calls: Vec<Call>,
    logprobs: Vec<TokenLogprob>,
    finish: Option<String>,
}

/// Parses a streamed answer.
#[derive(Debug, Default)]
pub struct StreamReader {
    first: GrowingAnswer,
    /// Further answers, if several were requested.
    others: BTreeMap<u64, GrowingAnswer>,
    usage: Usage,
    model: Option<String>,
    version: Option<String>,
    begun: bool,
    over: bool,
    size: Size,
}

impl GrowingAnswer {
    /// The call of a delta. Servers number calls, and send id and name with the first delta. Some omit numbers, some give
    /// every call the number 0, some repeat id and name: a name with another id is another call.
    fn position(&self, piece: &CallPiece) -> Option<usize> {
        let same = |call: &Call| match (&piece.id, &piece.function.name) {
            (Some(id), Some(_)) => call.growing.id.is_empty() || call.growing.id == *id,
            _ => true,
        };
        match piece.index {
            Some(number) => self
                .calls
                .iter()
                .rposition(|call| call.number == Some(number))
                .filter(|at| self.calls.get(*at).is_some_and(same)),
            None => {
                let last = self.calls.last()?;
                let goes_on = piece.function.name.is_none() || (piece.id.is_some() && same(last));
                goes_on.then(|| self.calls.len().saturating_sub(1))
            }
        }
    }

    fn call(&mut self, piece: CallPiece, size: &mut Size) -> Result<Option<ModelDelta>, WireError> {
        let at = match self.position(&piece) {
            Some(at) => at,
            None if self.calls.len() >= CALLS => {
                return Err(WireError::TooLarge(format!("the answer calls more than {CALLS} tools")));
            }
            None => {
                self.calls.push(Call { number: piece.index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return Ok(None) };
        let growing = &mut call.growing;
        if growing.id.is_empty() {
            growing.id = piece.id.unwrap_or_default();
            size.add(growing.id.len())?;
        }
        if growing.name.is_empty() {
            growing.name = piece.function.name.unwrap_or_default();
            size.add(growing.name.len())?;
        }
        let arguments = match piece.function.arguments {
            Value::Null => None,
            Value::String(text) => Some(text),
            object => Some(object.to_string()),
        };
        if let Some(arguments) = arguments {
            call.has_arguments = true;
            size.add(arguments.len())?;
            growing.arguments.push_str(&arguments);
        }
        Ok(growing.delta(at))
    }

    fn choice(&mut self, choice: ChunkChoice, size: &mut Size, deltas: &mut Vec<ModelDelta>) -> Result<(), WireError> {
        let text = match choice.delta.content {
            Value::String(text) => text,
            Value::Array(items) => items.iter().filter_map(|item| item.get("text").and_then(Value::as_str)).collect(),
            _ => String::new(),
        };
        if !text.is_empty() {
            size.add(text.len())?;
            self.text.push_str(&text);
            deltas.push(ModelDelta::Text(text));
        }
        for piece in choice.delta.tool_calls {
            deltas.extend(self.call(piece, size)?);
        }
        let logprobs = logprobs(&choice.logprobs);
        if !logprobs.is_empty() {
            let bytes = |token: &TokenLogprob| {
                let alternatives = token.alternatives.iter().map(|(text, _)| text.len() + ENTRY_BYTES);
                token.token.len() + ENTRY_BYTES + alternatives.sum::<usize>()
            };
            size.add(logprobs.iter().map(bytes).sum())?;
            self.logprobs.extend(logprobs.iter().cloned());
            deltas.push(ModelDelta::Logprobs(logprobs));
        }
        self.finish = choice.finish_reason.or(self.finish.take());
        Ok(())
    }

    fn whole(self, finish: String) -> OtherAnswer {
        let call = |mut call: Call| -> ToolCall {
            if !call.has_arguments {
                call.growing.arguments = "{}".to_owned();
            }
            call.growing.into_call()
        };
        let message = Message {
            role: Role::Assistant,
            parts: if self.text.is_empty() { Vec::new() } else { vec![Part::Text(self.text)] },
            tool_calls: self.calls.into_iter().map(call).collect(),
            tool_call_id: None,
            origin: Origin::Policy,
            extra: Vec::new(),
        };
        OtherAnswer { message, finish, logprobs: self.logprobs }
    }
}

impl StreamReader {
    /// A parser at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece of an answer. Only pieces of the first answer are passed on.
    fn choice(&mut self, choice: ChunkChoice, deltas: &mut Vec<ModelDelta>) -> Result<(), WireError> {
        if choice.index == 0 {
            return self.first.choice(choice, &mut self.size, deltas);
        }
        if self.others.len() + 1 >= ANSWERS && !self.others.contains_key(&choice.index) {
            return Err(WireError::TooLarge(format!("the stream has more than {ANSWERS} answers")));
        }
        self.others.entry(choice.index).or_default().choice(choice, &mut self.size, &mut Vec::new())
    }

    /// The incomplete part of the answer.
    fn place(&self) -> &'static str {
        match (self.first.finish.is_some(), self.first.calls.is_empty(), self.first.text.is_empty()) {
            (true, ..) => "without `[DONE]`",
            (false, false, _) => "in the middle of a tool call",
            (false, true, false) => "in the middle of a text",
            (false, true, true) => "before it said anything",
        }
    }
}

impl AnswerStream for StreamReader {
    fn event(&mut self, event: &SseEvent) -> Result<Vec<ModelDelta>, WireError> {
        let data = event.data.trim();
        if self.over || data.is_empty() {
            return Ok(Vec::new());
        }
        if data == DONE {
            self.over = true;
            return Ok(Vec::new());
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| malformed(data, &error))?;
        if !chunk.error.is_null() {
            return Err(crate::endpoint_error(&chunk.error));
        }
        if event.name == "error" {
            return Err(WireError::Endpoint(crate::shown(data)));
        }
        self.begun = true;
        self.model = self.model.take().or(chunk.model);
        self.version = self.version.take().or(chunk.system_fingerprint);
        let mut deltas = Vec::new();
        for choice in chunk.choices {
            self.choice(choice, &mut deltas)?;
        }
        if let Some(now) = chunk.usage {
            deltas.extend(usage_delta(&mut self.usage, usage(&now)));
        }
        Ok(deltas)
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, WireError> {
        let this = *self;
        if !this.over {
            return Err(WireError::CutOff(this.place()));
        }
        let Self { mut first, others, usage, model, version, begun, .. } = this;
        let Some(finish) = first.finish.take() else {
            // Proxies end a stream properly even if their upstream was interrupted.
            return Err(if begun { WireError::CutOff("without a reason to finish") } else { WireError::Empty });
        };
        let nameless = |call: &Call| call.growing.name.is_empty();
        if first.calls.iter().any(nameless) {
            return Err(WireError::Malformed(format!("a tool call without a name in the {DIALECT} dialect"), finish));
        }
        let OtherAnswer { message, finish, logprobs } = first.whole(finish);
        let whole = |mut other: GrowingAnswer| {
            let finish = other.finish.take().unwrap_or_else(|| UNFINISHED.to_owned());
            other.whole(finish)
        };
        Ok(ModelResponse {
            answered_by: model.map(|model| AnsweringModel { model, version }),
            logprobs,
            others: others.into_values().map(whole).collect(),
            ..ModelResponse::new(message, usage, finish)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamedAnswer;
    use serde_json::json;

    /// A stream of these chunks: a choice's delta and finish reason, or a whole chunk.
    fn read(events: &[Value], end: &str) -> Result<(Vec<ModelDelta>, ModelResponse), WireError> {
        let mut answer = StreamedAnswer::new(StreamReader::new());
        let mut deltas = Vec::new();
        for event in events {
            deltas.extend(answer.push(format!("data: {event}\n\n").as_bytes())?);
        }
        deltas.extend(answer.push(end.as_bytes())?);
        let (last, response) = answer.finish()?;
        deltas.extend(last);
        Ok((deltas, response))
    }

    const END: &str = "data: [DONE]\n\n";

    fn says(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    }

    fn finishes(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    #[test]
    fn further_answers_stand_beside_the_first() {
        let piece = |index: u64, delta: Value, finish: Option<&str>| json!({"choices": [{"index": index, "delta": delta, "finish_reason": finish}]});
        let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"x\":"}}]});
        let events = [
            piece(1, call, None),
            piece(0, json!({"content": "a"}), None),
            piece(2, json!({"content": "cut"}), None),
            piece(1, json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}), Some("tool_calls")),
            piece(0, json!({"content": "b"}), Some("stop")),
        ];
        let (deltas, response) = read(&events, END).unwrap();
        assert_eq!(deltas, [ModelDelta::Text("a".into()), ModelDelta::Text("b".into())]);
        assert_eq!(response.message.plain_text(), "ab");
        let [one, two] = response.others.as_slice() else { panic!("{response:?}") };
        assert_eq!((one.message.tool_calls[0].arguments.as_str(), one.finish.as_str()), ("{\"x\":1}", "tool_calls"));
        assert_eq!((two.message.plain_text().as_str(), two.finish.as_str()), ("cut", "unfinished"));
        let many: Vec<Value> = (0..=ANSWERS as u64).map(|index| piece(index, json!({"content": "x"}), None)).collect();
        assert!(matches!(read(&many, END), Err(WireError::TooLarge(_))));
    }

    fn piece(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Value {
        let mut piece = json!({"index": index, "function": {"arguments": arguments}});
        if !id.is_empty() {
            piece["id"] = id.into();
        }
        if !name.is_empty() {
            piece["function"]["name"] = name.into();
        }
        says(json!({"tool_calls": [piece]}))
    }

    #[test]
    fn calls_are_assembled_for_every_numbering_scheme() {
        let check = |pieces: &[Value], expected: &[(&str, &str, &str)]| {
            let events = [pieces, &[finishes("tool_calls")]].concat();
            let (deltas, response) = read(&events, END).unwrap();
            let calls: Vec<(&str, &str, &str)> = response
                .message
                .tool_calls
                .iter()
                .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
                .collect();
            assert_eq!(calls, expected, "{pieces:?}");
            let mut heard = vec![(String::new(), String::new(), String::new()); calls.len()];
            for delta in deltas {
                let ModelDelta::ToolCall { index, id, name, arguments } = delta else { panic!("{delta:?}") };
                assert_eq!(heard[index].1.is_empty(), name.is_some(), "only the first delta has the name");
                heard[index].0.push_str(&id.unwrap_or_default());
                heard[index].1.push_str(&name.unwrap_or_default());
                heard[index].2.push_str(&arguments);
            }
            let heard: Vec<(&str, &str, &str)> =
                heard.iter().map(|(id, name, text)| (id.as_str(), name.as_str(), text.as_str())).collect();
            assert_eq!(heard, expected, "{pieces:?}");
        };
        let (zero, one) = (Some(0), Some(1));
        check(
            &[piece(zero, "a", "f", ""), piece(zero, "", "", "{\"x\""), piece(zero, "", "", ":1}")],
            &[("a", "f", "{\"x\":1}")],
        );
        // Interleaved by number.
        check(
            &[piece(zero, "a", "f", "1"), piece(one, "b", "g", "2"), piece(zero, "", "", "3"), piece(one, "", "", "4")],
            &[("a", "f", "13"), ("b", "g", "24")],
        );
        // Numbers that do not start at 0.
        check(&[piece(Some(3), "a", "f", "1"), piece(Some(7), "b", "g", "2")], &[("a", "f", "1"), ("b", "g", "2")]);
        // No ids.
        check(&[piece(zero, "", "f", "1"), piece(one, "", "f", "2")], &[("call-0", "f", "1"), ("call-1", "f", "2")]);
        // Id and name in every delta.
        check(&[piece(zero, "a", "f", "1"), piece(zero, "a", "f", "2")], &[("a", "f", "12")]);
        // The name in every delta, and no id.
        check(&[piece(zero, "", "f", "1"), piece(zero, "", "f", "2")], &[("call-0", "f", "12")]);
        // Number 0 for every call.
        check(
            &[piece(zero, "a", "f", "1"), piece(zero, "b", "g", "2"), piece(zero, "", "", "3")],
            &[("a", "f", "1"), ("b", "g", "23")],
        );
        // No numbers.
        check(
            &[piece(None, "a", "f", "1"), piece(None, "", "", "2"), piece(None, "b", "f", "3")],
            &[("a", "f", "12"), ("b", "f", "3")],
        );
        check(&[piece(None, "", "f", "1"), piece(None, "", "g", "2")], &[("call-0", "f", "1"), ("call-1", "g", "2")]);
        // The name after the first arguments.
        check(&[piece(zero, "a", "", "1"), piece(zero, "", "f", "2")], &[("a", "f", "12")]);
    }

    #[test]
    fn arguments_may_be_objects_or_missing() {
        let call = |function: Value| says(json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]}));
        for (function, expected) in [
            (json!({"name": "f", "arguments": {"x": 1}}), "{\"x\":1}"),
            (json!({"name": "f"}), "{}"),
            (json!({"name": "f", "arguments": null}), "{}"),
            (json!({"name": "f", "arguments": ""}), ""),
        ] {
            let (_, response) = read(&[call(function.clone()), finishes("tool_calls")], END).unwrap();
            assert_eq!(response.message.tool_calls[0].arguments, expected, "{function}");
        }
    }

    #[test]
    fn text_usage_and_model_are_assembled() {
        let first = json!({"model": "m", "system_fingerprint": "fp", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]});
        let logprobs = json!({"content": [{"token": "ab", "logprob": -0.25, "top_logprobs": []}]});
        let text = json!({"choices": [{"index": 0, "delta": {"content": "ab"}, "logprobs": logprobs}, {"index": 1, "delta": {"content": "other"}}]});
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}});
        let events = [first, text, says(json!({"content": [{"type": "text", "text": "c"}]})), finishes("stop"), usage];
        let (deltas, response) = read(&events, END).unwrap();
        assert_eq!(response.message.plain_text(), "abc");
        assert_eq!(
            response.usage,
            Usage { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1, ..Usage::default() }
        );
        assert_eq!(response.answered_by, Some(AnsweringModel { model: "m".into(), version: Some("fp".into()) }));
        let logprobs = vec![TokenLogprob { token: "ab".into(), logprob: -0.25, alternatives: vec![] }];
        assert_eq!(response.logprobs, logprobs);
        let expected = [
            ModelDelta::Text("ab".into()),
            ModelDelta::Logprobs(logprobs),
            ModelDelta::Text("c".into()),
            ModelDelta::Usage(response.usage),
        ];
        assert_eq!(deltas, expected);
    }

    #[test]
    fn a_truncated_stream_is_an_error() {
        let check = |events: &[Value], end: &str, expected: &str| {
            let error = read(events, end).unwrap_err();
            assert_eq!(error.to_string(), expected, "{events:?} {end}");
        };
        let text = says(json!({"content": "ab"}));
        check(&[], "", "the stream ended before it said anything");
        check(&[], END, "the body holds no answer");
        check(std::slice::from_ref(&text), "", "the stream ended in the middle of a text");
        check(&[text.clone(), piece(Some(0), "a", "f", "{")], "", "the stream ended in the middle of a tool call");
        check(std::slice::from_ref(&text), END, "the stream ended without a reason to finish");
        check(&[text.clone(), finishes("stop")], "", "the stream ended without `[DONE]`");
        check(&[text.clone(), finishes("stop")], "data: {\"usage\"", "the stream ended in the middle of an event");
        check(
            std::slice::from_ref(&text),
            "data: {\"error\":{\"message\":\"overloaded\"}}\n\n",
            "the endpoint says: overloaded",
        );
        check(std::slice::from_ref(&text), "event: error\ndata: {\"oops\":1}\n\n", "the endpoint says: {\"oops\":1}");
        check(&[text], "data: <html>\n\n", "expected value at line 1 column 1; it begins with `<html>`");
        let nameless = [piece(Some(0), "a", "", "{}"), finishes("tool_calls")];
        assert!(read(&nameless, END).unwrap_err().to_string().contains("a tool call without a name"));
        let many: Vec<Value> = (0..=CALLS as u64).map(|number| piece(Some(number), "", "f", "")).collect();
        check(&many, END, "the answer calls more than 1024 tools");
        let long = says(json!({"content": "x".repeat(6 << 20)}));
        check(&[long.clone(), long], END, "the answer is longer than 10485760 bytes");
    }

    #[test]
    fn the_final_event_may_lack_its_empty_line() {
        let events = [says(json!({"content": "ab"})), finishes("stop")];
        assert_eq!(read(&events, "data: [DONE]").unwrap().1.message.plain_text(), "ab");
    }
}
