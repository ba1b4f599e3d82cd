//! Cuts a conversation that is too long for a model's context: its oldest turns go, and what belongs together goes together.
//!
//! System text, the last turn of the user and the last turn of all stay. A tool call never loses its result, nor a result its call, and
//! what is left begins with the user, as the dialects want it.

use crate::splice::TopLevel;
use clawhost_core::{Message, Part, Role, ToolSpec, estimated_tokens};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// A text without white space that is longer than this is data, as of an image.
const DATA_BYTES: usize = 4096;
/// Bytes that data counts: some 1500 tokens, as endpoints count an image of usual size.
const IMAGE_BYTES: usize = 6000;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    System,
    User,
    Model,
    Result,
}

/// A message, or an item of the shape of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    bytes: usize,
    side: Side,
    /// Whether a user says something in it, beside results.
    speaks: bool,
    /// Ids of the calls in it.
    calls: Vec<String>,
    /// Ids of the calls that it answers.
    answers: Vec<String>,
}

/// A conversation, as far as cutting it needs.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Bytes of what is never cut: tools, instructions beside the messages.
    fixed: usize,
    items: Vec<Item>,
}

/// Where the elements of a conversation are in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextShape {
    /// OpenAI's `/chat/completions`.
    Chat,
    /// OpenAI's `/responses`.
    Responses,
    /// Anthropic's `/messages`.
    Messages,
}

impl ContextShape {
    /// The field of the conversation.
    pub fn field(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "messages",
            Self::Responses => "input",
        }
    }

    /// Fields that the model reads beside it.
    fn fixed(self) -> &'static [&'static str] {
        match self {
            Self::Chat => &["tools"],
            Self::Responses => &["instructions", "tools"],
            Self::Messages => &["system", "tools"],
        }
    }
}

/// The bytes of a text as they are counted. `text`: JSON, or the text itself.
fn counted(text: &str) -> usize {
    if text.len() <= DATA_BYTES {
        return text.len();
    }
    let words = text.split(|c: char| c.is_whitespace() || c == '"');
    let data = words.filter(|word| word.len() > DATA_BYTES && word.bytes().all(is_of_data));
    data.fold(text.len(), |bytes, word| bytes - word.len() + IMAGE_BYTES)
}

/// Whether a byte is one of Base64 or of a `data:` address.
fn is_of_data(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=-_:;,.".contains(&byte)
}

fn id(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

impl Item {
    fn new(bytes: usize, side: Side) -> Self {
        Self { bytes, side, speaks: side == Side::User, calls: Vec::new(), answers: Vec::new() }
    }

    /// An element of a request.
    fn of(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let item = |side| Self::new(counted(text), side);
        let call_id = || id(&value, "call_id").into_iter().collect();
        match value.get("type").and_then(Value::as_str) {
            Some(kind) if kind.ends_with("_call_output") => Self { answers: call_id(), ..item(Side::Result) },
            Some(kind) if kind.ends_with("_call") => Self { calls: call_id(), ..item(Side::Model) },
            Some("reasoning" | "item_reference") => item(Side::Model),
            _ => Self::of_message(&value, item),
        }
    }

    fn of_message(value: &Value, item: impl Fn(Side) -> Self) -> Self {
        let blocks = || value.get("content").and_then(Value::as_array).into_iter().flatten();
        let is = |block: &&Value, kind: &str| block.get("type").is_some_and(|known| known == kind);
        match value.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => item(Side::System),
            Some("assistant") => {
                let calls = value.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
                let uses = blocks().filter(|block| is(block, "tool_use"));
                Self { calls: calls.chain(uses).filter_map(|call| id(call, "id")).collect(), ..item(Side::Model) }
            }
            Some("tool" | "function") => {
                Self { answers: id(value, "tool_call_id").into_iter().collect(), ..item(Side::Result) }
            }
            _ => {
                let results = || blocks().filter(|block| is(block, "tool_result"));
                if results().next().is_none() {
                    return item(Side::User);
                }
                let answers = results().filter_map(|block| id(block, "tool_use_id")).collect();
                let speaks = blocks().any(|block| is(&block, "text"));
                Self { answers, speaks, ..item(Side::Result) }
            }
        }
    }

    fn of_translated(message: &Message) -> Self {
        let data = |part: &Part| match part {
            Part::Text(text) | Part::Json(text) | Part::Other(text) => counted(text),
            Part::Blob(_) => IMAGE_BYTES,
        };
        let parts: usize = message.parts.iter().map(Part::len).sum();
        let bytes = message.len() - parts + message.parts.iter().map(data).sum::<usize>();
        let side = match message.role {
            Role::System => Side::System,
            Role::User => Side::User,
            Role::Assistant => Side::Model,
            Role::Tool => Side::Result,
        };
        Self {
            calls: message.tool_calls.iter().map(|call| call.id.clone()).collect(),
            answers: message.tool_call_id.iter().cloned().collect(),
            ..Self::new(bytes, side)
        }
    }
}

/// Items that go together: what the model said with the results of its calls, or what users said behind each other.
#[derive(Debug)]
struct Unit {
    items: Vec<usize>,
    bytes: usize,
    is_user: bool,
    speaks: bool,
    stays: bool,
}

impl Context {
    /// The conversation of a request's body. `None`: it has no list of messages.
    pub fn of_body(shape: ContextShape, body: &TopLevel<'_>) -> Option<Self> {
        let elements = elements(body.value(shape.field())?)?;
        let fixed = shape.fixed().iter().filter_map(|name| body.value(name)).map(counted).sum();
        Some(Self { fixed, items: elements.iter().map(|element| Item::of(element.get())).collect() })
    }

    /// The conversation of a request that is translated.
    pub fn of_request(messages: &[Message], tools: &[ToolSpec]) -> Self {
        let tool = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.input_schema.len();
        Self { fixed: tools.iter().map(tool).sum(), items: messages.iter().map(Item::of_translated).collect() }
    }

    /// Its estimated tokens.
    pub fn tokens(&self) -> u64 {
        estimated_tokens(self.bytes())
    }

    fn bytes(&self) -> usize {
        self.fixed + self.items.iter().map(|item| item.bytes).sum::<usize>()
    }

    /// Which items are kept so that it has at most so many tokens: all of them if it is short enough. `None`: what must stay is too long.
    pub fn cut(&self, tokens: u64) -> Option<Vec<bool>> {
        let mut kept = vec![true; self.items.len()];
        let mut bytes = self.bytes();
        let fits = |bytes: usize| estimated_tokens(bytes) <= tokens;
        if fits(bytes) {
            return Some(kept);
        }
        let units = self.units();
        let has_user = units.iter().any(|unit| unit.is_user);
        let mut is_open = false;
        for unit in &units {
            // What is left must begin with the user.
            let begins = !is_open && has_user && !unit.is_user;
            if fits(bytes) && !begins {
                break;
            }
            if unit.stays {
                is_open |= unit.is_user;
                continue;
            }
            for at in &unit.items {
                if let Some(kept) = kept.get_mut(*at) {
                    *kept = false;
                }
            }
            bytes = bytes.saturating_sub(unit.bytes);
        }
        fits(bytes).then_some(kept)
    }

    /// The units in order, system text left out.
    fn units(&self) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        let mut calls: HashMap<&str, usize> = HashMap::new();
        let mut before = Side::System;
        for (at, item) in self.items.iter().enumerate() {
            if item.side == Side::System {
                continue;
            }
            let goes_on = item.side == before && item.side != Side::Result;
            let known = item.answers.iter().find_map(|id| calls.get(id.as_str()).copied());
            let unit = match (item.side, units.len().checked_sub(1)) {
                (Side::Result, last) => known.or(last),
                (_, Some(last)) if goes_on => Some(last),
                _ => None,
            };
            let unit = unit.unwrap_or_else(|| {
                let is_user = item.side == Side::User;
                units.push(Unit { items: Vec::new(), bytes: 0, is_user, speaks: false, stays: false });
                units.len() - 1
            });
            if let Some(unit) = units.get_mut(unit) {
                unit.items.push(at);
                unit.bytes += item.bytes;
                unit.speaks |= item.speaks;
            }
            calls.extend(item.calls.iter().map(|id| (id.as_str(), unit)));
            before = item.side;
        }
        let last = |is: &dyn Fn(&Unit) -> bool| units.iter().rposition(is);
        let stay = [last(&|unit| unit.is_user), last(&|unit| unit.speaks), units.len().checked_sub(1)];
        for at in stay.into_iter().flatten() {
            if let Some(unit) = units.get_mut(at) {
                unit.stays = true;
            }
        }
        units
    }
}

/// The elements of a list, as they are written.
pub(crate) fn elements(list: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(list).ok()
}

/// A list with only those of its elements that are kept, byte for byte. `None`: it is no list.
pub fn list_of_kept(list: &str, kept: &[bool]) -> Option<String> {
    let elements = elements(list)?;
    let kept = elements.iter().zip(kept).filter(|(_, kept)| **kept).map(|(element, _)| element.get());
    Some(format!("[{}]", kept.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Origin, ToolCall};
    use proptest::prelude::*;
    use serde_json::json;

    const LONG: usize = 400;

    /// A conversation of the chat shape in which `s`, `u`, `a` are messages of about 100 tokens, and `c` is two calls with their results.
    fn chat(shape: &str) -> Vec<Value> {
        let text = "x".repeat(LONG);
        let mut all = Vec::new();
        for (at, kind) in shape.chars().enumerate() {
            match kind {
                's' => all.push(json!({"role": "system", "content": text})),
                'u' => all.push(json!({"role": "user", "content": text})),
                'a' => all.push(json!({"role": "assistant", "content": text})),
                _ => {
                    let ids = [format!("c{at}-1"), format!("c{at}-2")];
                    let call = |id: &String| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
                    all.push(json!({"role": "assistant", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()}));
                    all.extend(ids.iter().rev().map(|id| json!({"role": "tool", "tool_call_id": id, "content": text})));
                }
            }
        }
        all
    }

    fn cut(messages: &[Value], tokens: u64) -> Option<Vec<Value>> {
        let body = json!({"model": "m", "messages": messages, "tools": []}).to_string();
        let top = TopLevel::of(&body, &[]).unwrap();
        let kept = Context::of_body(ContextShape::Chat, &top)?.cut(tokens)?;
        let list = list_of_kept(top.value("messages")?, &kept)?;
        Some(serde_json::from_str(&list).unwrap())
    }

    fn roles(messages: &[Value]) -> String {
        messages.iter().map(|message| message["role"].as_str().unwrap().chars().next().unwrap()).collect()
    }

    #[test]
    fn the_oldest_turns_go_and_what_belongs_together_goes_together() {
        let check = |shape: &str, tokens: u64, expect: Option<&str>| {
            let kept = cut(&chat(shape), tokens);
            assert_eq!(kept.map(|kept| roles(&kept)).as_deref(), expect, "{shape} {tokens}");
        };
        check("suaua", 10_000, Some("suaua"));
        check("suaua", 400, Some("sua"));
        check("suau", 400, Some("su"));
        check("su", 50, None);
        // Both results go with the calls.
        check("sucau", 500, Some("su"));
        check("uccc", 800, Some("uattatt"));
        check("uccc", 500, Some("uatt"));
        check("uccc", 300, None);
        // System text in the middle stays.
        check("uasuau", 350, Some("su"));
        check("aau", 150, Some("u"));
        check("", 1, Some(""));
    }

    #[test]
    fn other_shapes_keep_calls_and_results_together() {
        let text = "x".repeat(LONG);
        let check = |shape: ContextShape, body: Value, tokens: u64, expect: Option<&[bool]>| {
            let body = body.to_string();
            let context = Context::of_body(shape, &TopLevel::of(&body, &[]).unwrap()).unwrap();
            assert_eq!(context.cut(tokens).as_deref(), expect, "{body}");
        };
        let said = |role: &str| json!({"role": role, "content": text});
        let uses = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]});
        let result = |more: &[Value]| {
            let mut blocks = vec![json!({"type": "tool_result", "tool_use_id": "a", "content": text})];
            blocks.extend_from_slice(more);
            json!({"role": "user", "content": blocks})
        };
        let messages = [said("user"), uses.clone(), result(&[]), said("assistant"), said("user")];
        let body = json!({"system": text, "messages": messages});
        check(ContextShape::Messages, body, 350, Some(&[false, false, false, false, true]));
        // What a user says beside a result stays as a last turn does.
        let speaks = result(&[json!({"type": "text", "text": "stop"})]);
        let messages =
            json!({"messages": [said("user"), uses.clone(), result(&[]), uses.clone(), speaks, uses, result(&[])]});
        check(ContextShape::Messages, messages.clone(), 450, Some(&[true, false, false, true, true, true, true]));
        check(ContextShape::Messages, messages, 350, None);
        let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
        let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": text});
        let reasoning = json!({"type": "reasoning", "summary": []});
        let input = [
            said("user"),
            reasoning.clone(),
            call("a"),
            call("b"),
            output("b"),
            output("a"),
            reasoning,
            call("c"),
            output("c"),
        ];
        let kept = [true, false, false, false, false, false, true, true, true];
        check(ContextShape::Responses, json!({"input": input}), 330, Some(&kept));
    }

    #[test]
    fn what_is_kept_stays_byte_for_byte() {
        let list = r#"[ {"a" : 1.50}, 2 , "x\u0041",[ ] ]"#;
        assert_eq!(list_of_kept(list, &[true, false, true, true]).unwrap(), r#"[{"a" : 1.50},"x\u0041",[ ]]"#);
        assert_eq!(list_of_kept("\"text\"", &[true]), None);
    }

    #[test]
    fn data_counts_as_an_image() {
        let image =
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "A".repeat(1 << 20)}}]});
        let body = json!({"messages": [image]}).to_string();
        let context = Context::of_body(ContextShape::Chat, &TopLevel::of(&body, &[]).unwrap()).unwrap();
        assert!((1_500..1_600).contains(&context.tokens()), "{}", context.tokens());
        assert!(counted(&"word ".repeat(10_000)) == 50_000);
    }

    #[test]
    fn a_translated_request_is_cut_alike() {
        let text = "x".repeat(LONG);
        let say = |role| Message::text(role, Origin::User, text.clone());
        let call = ToolCall { id: "a".into(), name: "f".into(), arguments: "{}".into(), extra: vec![] };
        let messages = [
            say(Role::System),
            say(Role::User),
            Message { tool_calls: vec![call], ..say(Role::Assistant) },
            Message { tool_call_id: Some("a".into()), ..say(Role::Tool) },
            say(Role::User),
        ];
        let check = |tokens: u64, expect: Option<[bool; 5]>| {
            assert_eq!(Context::of_request(&messages, &[]).cut(tokens), expect.map(Vec::from));
        };
        check(600, Some([true; 5]));
        check(450, Some([true, false, false, false, true]));
        check(150, None);
    }

    proptest! {
        #[test]
        fn a_cut_conversation_fits_and_is_still_one(shape in "s{0,1}[uaac]{0,12}s{0,1}[uaccc]{0,6}", tokens in 1_u64..2_500) {
            let messages = chat(&shape);
            let Some(kept) = cut(&messages, tokens) else { return Ok(()) };
            let body = json!({"messages": kept, "tools": []}).to_string();
            let context = Context::of_body(ContextShape::Chat, &TopLevel::of(&body, &[]).unwrap()).unwrap();
            prop_assert!(context.tokens() <= tokens);
            // In order, and nothing new.
            let mut rest = messages.iter();
            prop_assert!(kept.iter().all(|one| rest.any(|known| known == one)));
            let count = |all: &[Value], role: &str| all.iter().filter(|one| one["role"] == role).count();
            prop_assert_eq!(count(&kept, "system"), count(&messages, "system"));
            let ids = |all: &[Value]| {
                let calls = all.iter().flat_map(|one| one["tool_calls"].as_array().cloned().unwrap_or_default());
                let mut calls: Vec<String> = calls.map(|call| call["id"].to_string()).collect();
                let mut results: Vec<String> =
                    all.iter().filter(|one| one["role"] == "tool").map(|one| one["tool_call_id"].to_string()).collect();
                calls.sort();
                results.sort();
                (calls, results)
            };
            let (calls, results) = ids(&kept);
            prop_assert_eq!(calls, results);
            if kept.len() < messages.len() && count(&messages, "user") > 0 {
                let first = kept.iter().find(|one| one["role"] != "system").unwrap();
                prop_assert_eq!(&first["role"], "user");
                let last = |all: &[Value]| all.iter().rev().find(|one| one["role"] == "user").cloned();
                prop_assert_eq!(last(&kept), last(&messages));
            }
            prop_assert_eq!(kept.last(), messages.last());
        }
    }
}
