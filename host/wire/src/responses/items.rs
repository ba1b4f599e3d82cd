//! Items of a conversation, and the messages that they mean.

use super::tools::flat;
use crate::openai::DIALECT;
use crate::{WireError, kept};
use clawhost_core::{Message, Origin, Part, REASONING, Role, ToolCall};
use serde_json::{Map, Value, json};

/// The kind of an item. A message may leave its out.
fn kind(item: &Value) -> &str {
    match item.get("type").and_then(Value::as_str) {
        Some(kind) => kind,
        None if item.get("role").is_some() => "message",
        None => "",
    }
}

fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The first item that only an endpoint of this shape understands: a call of a tool of its own, a reference. Reasoning is left out of
/// a translation and does not count.
pub fn untranslatable(items: &[Value]) -> Option<(usize, &str)> {
    let known = ["message", "function_call", "function_call_output", "reasoning"];
    items.iter().map(kind).enumerate().find(|(_, kind)| !known.contains(kind))
}

/// Items without reasoning that only the endpoint that made it can read.
pub fn without_encrypted(items: Vec<Value>) -> Vec<Value> {
    items.into_iter().filter(|item| kind(item) != "reasoning").collect()
}

/// The conversation that items mean. What the model said between two other items is one message, as in the other shapes. Items of
/// unknown kinds are kept as they are, in a message of the model, or of a tool if they are an output.
///
/// # Errors
/// [`WireError::Request`]: an item is not an object, or a known one is incomplete.
pub fn messages(items: &[Value]) -> Result<Vec<Message>, WireError> {
    let mut messages: Vec<Message> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let problem = |what: &str| WireError::Request(format!("input[{at}]"), what.to_owned());
        if !item.is_object() {
            return Err(problem("must be an object"));
        }
        match kind(item) {
            "message" => message(&mut messages, item, &problem)?,
            "function_call" => {
                let (id, name) = (text(item, "call_id"), text(item, "name"));
                if id.is_empty() || name.is_empty() {
                    return Err(problem("a function_call needs a call_id and a name"));
                }
                let name = flat(text(item, "namespace"), name);
                let (id, arguments) = (id.to_owned(), text(item, "arguments").to_owned());
                let call = ToolCall { id, name, arguments, extra: Vec::new() };
                say(&mut messages, |message| message.tool_calls.push(call));
            }
            "function_call_output" => {
                let id = text(item, "call_id");
                if id.is_empty() {
                    return Err(problem("a function_call_output needs a call_id"));
                }
                let parts = parts(item.get("output"));
                messages.push(Message { parts, tool_call_id: Some(id.to_owned()), ..empty(Role::Tool, Origin::Tool) });
            }
            "reasoning" => {
                // Encrypted, it is for the endpoint that made it alone.
                let thought = thought(item);
                if !thought.is_empty() {
                    say(&mut messages, |message| message.extra.push((REASONING.to_owned(), thought)));
                }
            }
            "" => return Err(problem("needs a type or a role")),
            other if other.ends_with("_output") => {
                let parts = vec![kept::part(DIALECT, item.clone())];
                messages.push(Message { parts, ..empty(Role::Tool, Origin::Tool) });
            }
            _ => say(&mut messages, |message| message.parts.push(kept::part(DIALECT, item.clone()))),
        }
    }
    Ok(messages)
}

/// The text of an item of reasoning.
fn thought(item: &Value) -> String {
    let parts = item.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter(|part| kind(part) == "reasoning_text").map(|part| text(part, "text")).collect()
}

fn empty(role: Role, origin: Origin) -> Message {
    Message { parts: Vec::new(), ..Message::text(role, origin, "") }
}

/// Adds to what the model says.
fn say(messages: &mut Vec<Message>, add: impl FnOnce(&mut Message)) {
    match messages.last_mut() {
        Some(last) if last.role == Role::Assistant => add(last),
        _ => {
            let mut message = empty(Role::Assistant, Origin::Policy);
            add(&mut message);
            messages.push(message);
        }
    }
}

fn message(messages: &mut Vec<Message>, item: &Value, problem: &dyn Fn(&str) -> WireError) -> Result<(), WireError> {
    let (role, origin) = match text(item, "role") {
        "system" | "developer" => (Role::System, Origin::User),
        "user" => (Role::User, Origin::User),
        "assistant" => (Role::Assistant, Origin::Policy),
        _ => return Err(problem("role must be system, developer, user or assistant")),
    };
    let parts = parts(item.get("content"));
    if role == Role::Assistant {
        say(messages, |message| message.parts.extend(parts));
    } else {
        messages.push(Message { parts, ..empty(role, origin) });
    }
    Ok(())
}

/// The parts of a content: a text, or a list.
fn parts(content: Option<&Value>) -> Vec<Part> {
    match content {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![Part::Text(text.clone())],
        Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
        Some(other) => vec![Part::Text(other.to_string())],
    }
}

/// A part in the form of the chat shape, which endpoints of this dialect understand.
fn part(part: &Value) -> Option<Part> {
    let field = |name: &str| part.get(name).filter(|value| !value.is_null()).cloned();
    match kind(part) {
        "input_text" | "output_text" | "text" | "summary_text" => {
            let text = text(part, "text");
            (!text.is_empty()).then(|| Part::Text(text.to_owned()))
        }
        "refusal" => Some(Part::Text(text(part, "refusal").to_owned())),
        "input_image" if part.get("image_url").is_some_and(Value::is_string) => {
            let mut image = Map::new();
            image.insert("url".to_owned(), field("image_url")?);
            image.extend(field("detail").map(|detail| ("detail".to_owned(), detail)));
            Some(kept::part(DIALECT, json!({"type": "image_url", "image_url": image})))
        }
        "input_file" => {
            let names = ["file_data", "file_id", "filename"];
            let file: Map<String, Value> =
                names.into_iter().filter_map(|name| Some((name.to_owned(), field(name)?))).collect();
            Some(kept::part(DIALECT, json!({"type": "file", "file": file})))
        }
        _ => Some(kept::part(DIALECT, part.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(items: Value) -> Vec<(Role, String, Vec<String>)> {
        let Value::Array(items) = items else { panic!("a list") };
        let calls = |message: &Message| message.tool_calls.iter().map(|call| call.id.clone()).collect();
        let all = messages(&items).unwrap();
        all.iter().map(|message| (message.role, message.plain_text(), calls(message))).collect()
    }

    #[test]
    fn what_the_model_said_is_one_message() {
        let items = json!([
            {"role": "user", "content": "a"},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b", "annotations": []}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "2"}]},
            {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
        ]);
        let none = Vec::new;
        assert_eq!(
            seen(items),
            [
                (Role::User, "a".to_owned(), none()),
                (Role::Assistant, "b".into(), vec!["c1".into(), "c2".into()]),
                (Role::Tool, "1".into(), none()),
                (Role::Tool, "2".into(), none()),
                (Role::Assistant, String::new(), vec!["c3".into()]),
            ]
        );
    }

    #[test]
    fn reasoning_that_can_be_read_belongs_to_the_message_after_it() {
        let items = [
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}),
            json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "c1", "output": "1"}),
            json!({"type": "reasoning", "id": "rs_2", "summary": [], "content": null, "encrypted_content": "x"}),
            json!({"role": "assistant", "content": "a"}),
        ];
        let all = messages(&items).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].extra, [(REASONING.to_owned(), "hm".to_owned())]);
        assert_eq!((all[0].tool_calls.len(), all[2].extra.len()), (1, 0));
    }

    #[test]
    fn images_and_files_have_the_form_of_the_chat_shape() {
        let check = |part: Value, expect: Value| {
            let items = [json!({"role": "user", "content": [part]})];
            let message = messages(&items).unwrap().remove(0);
            assert_eq!(kept::kept_part(DIALECT, &message, &message.parts[0]), Some(expect));
        };
        check(
            json!({"type": "input_image", "image_url": "data:,", "detail": "low"}),
            json!({"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}),
        );
        check(
            json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:,", "file_id": null}),
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:,"}}),
        );
    }

    #[test]
    fn items_that_cannot_be_translated_are_named_and_invalid_ones_refused() {
        let check = |items: Value, expect: Option<(usize, &str)>| {
            assert_eq!(untranslatable(items.as_array().unwrap()), expect, "{items}");
        };
        check(json!([{"role": "user", "content": "a"}, {"type": "web_search_call"}]), Some((1, "web_search_call")));
        check(json!([{"type": "item_reference", "id": "msg_1"}]), Some((0, "item_reference")));
        check(json!([{"type": "reasoning"}]), None);
        let refused = |item: Value, says: &str| {
            let error = messages(&[item]).unwrap_err().to_string();
            assert_eq!(error, format!("input[0]: {says}"));
        };
        refused(json!(7), "must be an object");
        refused(json!({}), "needs a type or a role");
        refused(json!({"role": "robot"}), "role must be system, developer, user or assistant");
        refused(json!({"type": "function_call", "name": "f"}), "a function_call needs a call_id and a name");
        refused(json!({"type": "function_call_output"}), "a function_call_output needs a call_id");
        let kept = messages(&[json!({"type": "web_search_call"}), json!({"type": "x_call_output"})]).unwrap();
        assert_eq!((kept[0].role, kept[1].role), (Role::Assistant, Role::Tool));
    }
}
