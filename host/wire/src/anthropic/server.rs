//! Parses a client's request.

use super::DIALECT;
use super::request::is_custom;
use crate::server::{ClientRequest, Fields};
use crate::{WireError, kept};
use clawhost_core::{Message, ModelRequest, Origin, Part, Role, ToolCall, ToolChoice, ToolSpec, UnknownFields};
use serde_json::{Map, Value, json};

/// Parses a client's request. A user message with tool results becomes one message per result, and one for the rest.
///
/// # Errors
/// [`WireError::Malformed`]: the body is not a JSON object. [`WireError::Request`]: a field is invalid. Both are
/// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest).
pub fn read_request(body: &str) -> Result<ClientRequest, WireError> {
    let mut fields = Fields::of_body(body)?;
    let model = fields.needed("model")?;
    let max_tokens = fields.count("max_tokens", 1)?.ok_or_else(|| fields.problem("max_tokens", "is missing"))?;
    let mut messages: Vec<Message> = Vec::new();
    if let Some(said) = fields.take("system") {
        messages.push(conversation_message(Role::System, "system", said)?);
    }
    let said = fields.list("messages")?.ok_or_else(|| fields.problem("messages", "is missing"))?;
    for (at, value) in said.into_iter().enumerate() {
        messages.extend(message(Fields::of(format!("messages[{at}]"), value)?)?);
    }
    let mut unknown = Map::new();
    let tools = tools(&mut fields, &mut unknown)?;
    let request = ModelRequest {
        messages,
        tools,
        tool_choice: tool_choice(&mut fields, &mut unknown)?,
        max_tokens,
        temperature: fields.number("temperature", 0.0..=1.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        stop: fields.texts("stop_sequences")?,
        ..ModelRequest::default()
    };
    let stream = fields.flag("stream")?.unwrap_or(false);
    unknown.extend(fields.rest());
    let unknown = (!unknown.is_empty()).then(|| UnknownFields { dialect: DIALECT.to_owned(), fields: unknown });
    Ok(ClientRequest { model, request: ModelRequest { unknown, ..request }, stream, include_usage: true, answers: 1 })
}

/// Tools that the client runs. Their additional fields, and tools that the endpoint runs, are kept as the unknown field
/// `tools`.
fn tools(fields: &mut Fields, unknown: &mut Map<String, Value>) -> Result<Vec<ToolSpec>, WireError> {
    let (mut known, mut other) = (Vec::new(), Vec::new());
    for (at, value) in fields.list("tools")?.unwrap_or_default().into_iter().enumerate() {
        if value.as_object().is_some_and(|tool| !is_custom(tool)) {
            other.push(value);
            continue;
        }
        let mut tool = Fields::of(format!("tools[{at}]"), value)?;
        let name = tool.needed("name")?;
        let description = tool.text("description")?.unwrap_or_default();
        let schema = tool.take("input_schema").ok_or_else(|| tool.problem("input_schema", "is missing"))?;
        if !schema.is_object() {
            return Err(tool.problem("input_schema", "must be an object"));
        }
        let mut tool = tool.rest();
        if !tool.is_empty() {
            tool.insert("name".to_owned(), name.as_str().into());
            other.push(tool.into());
        }
        known.push(ToolSpec { name, description, input_schema: schema.to_string(), extra: Vec::new() });
    }
    if !other.is_empty() {
        unknown.insert("tools".to_owned(), other.into());
    }
    Ok(known)
}

/// Additional fields of a tool choice are kept as an unknown field.
fn tool_choice(fields: &mut Fields, unknown: &mut Map<String, Value>) -> Result<ToolChoice, WireError> {
    let Some(choice) = fields.take("tool_choice") else { return Ok(ToolChoice::Auto) };
    let mut read = Fields::of("tool_choice".to_owned(), choice.clone())?;
    let chosen = match read.needed("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "any" => ToolChoice::Required,
        "tool" => ToolChoice::Tool(read.needed("name")?),
        _ => return Err(read.problem("type", "must be auto, none, any or tool")),
    };
    if !read.rest().is_empty() {
        unknown.insert("tool_choice".to_owned(), choice);
    }
    Ok(chosen)
}

fn message(mut fields: Fields) -> Result<Vec<Message>, WireError> {
    let role = match fields.needed("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        // Instructions in the middle of a conversation: Claude Code sends them.
        "system" => Role::System,
        _ => return Err(fields.problem("role", "must be user, assistant or system")),
    };
    let place = fields.place("content");
    let content = fields.take("content").ok_or_else(|| fields.problem("content", "is missing"))?;
    if role != Role::User {
        return Ok(vec![conversation_message(role, &place, content)?]);
    }
    let Value::Array(blocks) = content else { return Ok(vec![conversation_message(role, &place, content)?]) };
    // Tool results come before the rest of the user's message, as in the chat dialect.
    let is_result = |block: &Value| block.get("type").is_some_and(|kind| kind == "tool_result");
    let (results, rest): (Vec<_>, Vec<_>) = blocks.into_iter().enumerate().partition(|(_, block)| is_result(block));
    let results = results.into_iter().map(|(at, block)| tool_result(Fields::of(format!("{place}[{at}]"), block)?));
    let mut messages = results.collect::<Result<Vec<_>, _>>()?;
    if !rest.is_empty() || messages.is_empty() {
        messages.push(of_blocks(role, &place, rest)?);
    }
    Ok(messages)
}

/// A message of text or of blocks.
fn conversation_message(role: Role, place: &str, content: Value) -> Result<Message, WireError> {
    match content {
        Value::String(text) => {
            let parts = if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] };
            Ok(Message { parts, ..empty(role) })
        }
        Value::Array(blocks) => of_blocks(role, place, blocks.into_iter().enumerate().collect()),
        _ => Err(WireError::Request(place.to_owned(), "must be a text or a list of blocks".to_owned())),
    }
}

fn empty(role: Role) -> Message {
    let origin = match role {
        Role::System | Role::User => Origin::User,
        Role::Assistant => Origin::Policy,
        Role::Tool => Origin::Tool,
    };
    Message { parts: Vec::new(), ..Message::text(role, origin, "") }
}

/// A message of these blocks, each with its index in the original list.
fn of_blocks(role: Role, place: &str, blocks: Vec<(usize, Value)>) -> Result<Message, WireError> {
    let mut message = empty(role);
    let mut additional = Map::new();
    for (at, value) in blocks {
        let mut block = Fields::of(format!("{place}[{at}]"), value.clone())?;
        match (block.needed("type")?.as_str(), role) {
            ("text", _) => {
                let text = block.text("text")?.ok_or_else(|| block.problem("text", "is missing"))?;
                let more = block.rest();
                if !more.is_empty() {
                    additional.insert(message.parts.len().to_string(), more.into());
                }
                message.parts.push(Part::Text(text));
            }
            ("tool_use", Role::Assistant) => message.tool_calls.push(tool_call(block)?),
            _ => message.parts.push(kept::part(DIALECT, value)),
        }
    }
    message.extra.extend(kept::fields(DIALECT, additional));
    Ok(message)
}

fn tool_call(mut block: Fields) -> Result<ToolCall, WireError> {
    let (id, name) = (block.needed("id")?, block.needed("name")?);
    let input = block.take("input").unwrap_or_else(|| json!({}));
    if !input.is_object() {
        return Err(block.problem("input", "must be an object"));
    }
    let extra = kept::fields(DIALECT, block.rest()).into_iter().collect();
    Ok(ToolCall { id, name, arguments: input.to_string(), extra })
}

fn tool_result(mut block: Fields) -> Result<Message, WireError> {
    block.take("type");
    let id = block.needed("tool_use_id")?;
    let place = block.place("content");
    let said = match block.take("content") {
        None => empty(Role::Tool),
        Some(content) => conversation_message(Role::Tool, &place, content)?,
    };
    // Additional fields of a result's blocks are dropped; those of the result itself are kept.
    let extra = kept::fields(DIALECT, block.rest()).into_iter().collect();
    Ok(Message { tool_call_id: Some(id), extra, ..said })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anthropic::request;

    fn asked(more: Value) -> Value {
        let mut body = json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    #[test]
    fn instructions_may_stand_in_the_middle() {
        let text = json!([{"type": "text", "text": "be brief"}]);
        let messages = json!([{"role": "user", "content": "hi"}, {"role": "system", "content": text}]);
        let read = read_request(&asked(json!({"messages": messages})).to_string()).unwrap();
        let last = &read.request.messages[1];
        assert_eq!((last.role, last.origin, last.plain_text().as_str()), (Role::System, Origin::User, "be brief"));
    }

    #[test]
    fn invalid_requests_name_the_field() {
        let check = |more: Value, expected: &str| {
            let error = read_request(&asked(more.clone()).to_string()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{more}");
        };
        let said = |role: &str, content: Value| json!({"messages": [{"role": role, "content": content}]});
        check(json!({"max_tokens": null}), "max_tokens: is missing");
        check(json!({"max_tokens": 0.5}), "max_tokens: must be a whole number of at least 1");
        check(json!({"model": ""}), "model: is missing");
        check(json!({"messages": null}), "messages: is missing");
        check(said("robot", json!("x")), "messages[0].role: must be user, assistant or system");
        check(said("user", Value::Null), "messages[0].content: is missing");
        check(said("user", json!(7)), "messages[0].content: must be a text or a list of blocks");
        check(said("user", json!([7])), "messages[0].content[0]: must be an object");
        check(said("user", json!([{"type": "text"}])), "messages[0].content[0].text: is missing");
        check(said("user", json!([{"type": "tool_result"}])), "messages[0].content[0].tool_use_id: is missing");
        check(said("assistant", json!([{"type": "tool_use", "name": "f"}])), "messages[0].content[0].id: is missing");
        check(
            said("assistant", json!([{"type": "tool_use", "id": "a", "name": "f", "input": "x"}])),
            "messages[0].content[0].input: must be an object",
        );
        check(json!({"temperature": 1.5}), "temperature: must be a number from 0 to 1");
        check(json!({"tools": [{"name": "f"}]}), "tools[0].input_schema: is missing");
        check(json!({"tool_choice": "auto"}), "tool_choice: must be an object");
        check(json!({"tool_choice": {"type": "tool"}}), "tool_choice.name: is missing");
        check(json!({"tool_choice": {"type": "maybe"}}), "tool_choice.type: must be auto, none, any or tool");
        check(json!({"stop_sequences": "END"}), "stop_sequences: must be a list");
        assert!(matches!(read_request("{"), Err(WireError::Malformed(..))));
    }

    /// A client's request reaches an endpoint of its dialect unchanged.
    #[test]
    fn unknown_content_is_passed_on_unchanged() {
        let cached = json!({"type": "ephemeral"});
        let body = asked(json!({
            "system": [{"type": "text", "text": "be brief", "cache_control": cached}, {"type": "text", "text": "and kind"}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    {"type": "text", "text": "again", "cache_control": cached},
                ]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}, "cache_control": cached},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": true},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "see"}, {"type": "image", "source": {}}]},
                    {"type": "text", "text": "go on"},
                ]},
            ],
            "tools": [
                {"name": "f", "description": "does f", "input_schema": {"type": "object"}, "cache_control": cached},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "temperature": 0.7, "top_p": 0.9, "stop_sequences": ["a"],
            "thinking": {"type": "enabled", "budget_tokens": 9}, "metadata": {"user_id": "u"}, "top_k": 5,
        }));
        let read = read_request(&body.to_string()).unwrap();
        let written = request(&read.model, &read.request).unwrap();
        assert_eq!(serde_json::to_value(written).unwrap(), body);
        let roles: Vec<Role> = read.request.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::User]);
        assert_eq!(read.request.messages[2].plain_text(), "I look.");
    }
}
