//! Writes a request for an endpoint.

use super::{Block, Content, DIALECT, EMPTY, KnownBlock, MessagesRequest, WireMessage};
use crate::{WireError, kept, sent_arguments, sent_name, sent_number};
use clawhost_core::{IgnoredRequest, Message, ModelRequest, Origin, Part, Role, ToolChoice, UnknownFields};
use serde_json::{Map, Value, json};

/// Request fields that are never copied from a client's unknown fields, because this program determines them.
const DECIDED: [&str; 9] =
    ["model", "max_tokens", "system", "messages", "temperature", "top_p", "stop_sequences", "stream", "tools"];

fn text_block(text: String) -> Block {
    let text = if text.trim().is_empty() { EMPTY.to_owned() } else { text };
    Block::Known(KnownBlock::Text { text, rest: Map::new() })
}

/// The request for an endpoint, without streaming; see [`MessagesRequest::streamed`]. The dialect has no field for a
/// response format, log-probs or a seed: they are omitted, see [`unsent`].
///
/// # Errors
/// The temperature is above 1, which the dialect rejects.
pub fn request(model: &str, request: &ModelRequest) -> Result<MessagesRequest, WireError> {
    if let Some(hot) = request.temperature.filter(|temperature| *temperature > 1.0) {
        return Err(WireError::Unsupported(format!("temperature {hot}: the Anthropic dialect takes 0 to 1")));
    }
    let mut messages: Vec<WireMessage> = Vec::new();
    for message in request.messages.iter().filter(|message| message.role != Role::System) {
        let (role, blocks) = blocks(message);
        match messages.last_mut() {
            // Roles alternate: consecutive messages of one side are merged.
            Some(WireMessage { role: last, content: Content::Blocks(said), .. }) if last == role => said.extend(blocks),
            _ => {
                let content = Content::Blocks(blocks);
                messages.push(WireMessage { role: role.to_owned(), content, rest: Map::new() });
            }
        }
    }
    let mut asked = MessagesRequest {
        model: model.to_owned(),
        max_tokens: request.max_tokens,
        system: system(request),
        messages,
        tools: request.tools.iter().map(tool).collect(),
        temperature: request.temperature.and_then(sent_number),
        top_p: request.top_p.and_then(sent_number),
        tool_choice: tool_choice(request),
        stop_sequences: request.stop.clone(),
        stream: None,
        rest: Map::new(),
    };
    if let Some(unknown) = request.unknown.as_ref().filter(|unknown| unknown.dialect == DIALECT) {
        add_unknown(&mut asked, unknown);
    }
    Ok(asked)
}

impl MessagesRequest {
    /// The same request with streaming.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        self.stream = Some(true);
        self
    }
}

/// Parts of a request that the dialect cannot express and whose absence is not visible in an answer: a seed.
pub fn unsent(request: &ModelRequest) -> Vec<IgnoredRequest> {
    request.seed.map(|_| IgnoredRequest::Seed).into_iter().collect()
}

fn add_unknown(asked: &mut MessagesRequest, unknown: &UnknownFields) {
    for (name, value) in &unknown.fields {
        match name.as_str() {
            "tools" => add_tools(asked, value),
            name if DECIDED.contains(&name) => {}
            "tool_choice" => kept::add_missing_to(&mut asked.tool_choice, value),
            name => drop(asked.rest.insert(name.to_owned(), value.clone())),
        }
    }
}

/// Whether the client runs the tool. Others have a type of their own, and the endpoint runs them.
pub(super) fn is_custom(tool: &Map<String, Value>) -> bool {
    tool.get("type").is_none_or(|kind| kind.is_null() || kind == "custom")
}

/// Adds additional fields of known tools, and tools that the endpoint runs.
fn add_tools(asked: &mut MessagesRequest, unknown: &Value) {
    for tool in unknown.as_array().into_iter().flatten() {
        let Some(more) = tool.as_object() else { continue };
        if !is_custom(more) {
            asked.tools.push(tool.clone());
            continue;
        }
        let mut known = asked.tools.iter_mut().filter_map(Value::as_object_mut);
        if let Some(known) = known.find(|known| known.get("name") == more.get("name")) {
            kept::add_missing(known, more);
        }
    }
}

fn tool(tool: &clawhost_core::ToolSpec) -> Value {
    let schema: Value = serde_json::from_str(&tool.input_schema).unwrap_or_else(|_| json!({}));
    let mut tool = json!({"name": tool.name, "description": tool.description, "input_schema": schema});
    // The dialect requires the type, which a schema without fields may omit.
    if let Some(schema) = tool.get_mut("input_schema").and_then(Value::as_object_mut) {
        schema.entry("type").or_insert_with(|| "object".into());
    }
    tool
}

fn tool_choice(request: &ModelRequest) -> Option<Value> {
    match &request.tool_choice {
        ToolChoice::Auto => None,
        // Servers reject a tool choice without tools; nothing can be called then anyway.
        ToolChoice::None if request.tools.is_empty() => None,
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Required => Some(json!({"type": "any"})),
        ToolChoice::Tool(name) => Some(json!({"type": "tool", "name": name})),
    }
}

/// The system prompt: one text, or a list of blocks if a block has additional fields.
fn system(request: &ModelRequest) -> Option<Value> {
    let said: Vec<&Message> = request.messages.iter().filter(|message| message.role == Role::System).collect();
    if said.iter().any(|message| !additional(message).is_empty()) {
        return Some(said.iter().flat_map(|message| part_by_part(message)).map(|block| json!(block)).collect());
    }
    let texts: Vec<String> = said.into_iter().map(Message::plain_text).collect();
    let text = texts.join("\n\n");
    (!text.trim().is_empty()).then_some(Value::String(text))
}

/// Additional fields of a message's parts by index; of a tool result, its own.
fn additional(message: &Message) -> Map<String, Value> {
    if kept::is_trusted(message) { kept::kept_fields(DIALECT, &message.extra) } else { Map::new() }
}

/// The blocks of a message, one per part that the dialect can express.
fn part_by_part(message: &Message) -> Vec<Block> {
    let additional = additional(message);
    let block = |(at, part): (usize, &Part)| match part {
        Part::Text(text) | Part::Json(text) => {
            let mut rest = additional.get(&at.to_string()).and_then(Value::as_object).cloned().unwrap_or_default();
            rest.retain(|name, _| !matches!(name.as_str(), "type" | "text"));
            let text = if text.trim().is_empty() { EMPTY.to_owned() } else { text.clone() };
            Some(Block::Known(KnownBlock::Text { text, rest }))
        }
        other => kept::kept_part(DIALECT, message, other).map(Block::Other),
    };
    message.parts.iter().enumerate().filter_map(block).collect()
}

/// Whether a message has additional content for this dialect besides its text.
fn has_more(message: &Message) -> bool {
    message.parts.iter().any(|part| kept::kept_part(DIALECT, message, part).is_some())
        || (message.role != Role::Tool && !additional(message).is_empty())
}

/// A message's role and its blocks.
fn blocks(message: &Message) -> (&'static str, Vec<Block>) {
    if message.role == Role::Tool {
        return ("user", vec![Block::Known(tool_result(message))]);
    }
    let role = if message.role == Role::Assistant { "assistant" } else { "user" };
    let text = message.plain_text();
    let mut blocks = Vec::new();
    if has_more(message) {
        blocks.extend(part_by_part(message));
    } else if !text.trim().is_empty() || message.tool_calls.is_empty() {
        blocks.push(text_block(text));
    }
    blocks.extend(message.tool_calls.iter().map(|call| {
        let input = serde_json::from_str(&sent_arguments(&call.arguments)).unwrap_or_default();
        let mut rest = Map::new();
        if kept::is_trusted(message) {
            rest = kept::kept_fields(DIALECT, &call.extra);
            rest.retain(|name, _| !matches!(name.as_str(), "type" | "id" | "name" | "input"));
        }
        Block::Known(KnownBlock::ToolUse { id: call.id.clone(), name: sent_name(&call.name), input, rest })
    }));
    (role, blocks)
}

fn tool_result(message: &Message) -> KnownBlock {
    let text = message.plain_text();
    let mut rest = additional(message);
    rest.retain(|name, _| !matches!(name.as_str(), "type" | "tool_use_id" | "content"));
    // The host answered a call that could not be run.
    if message.origin == Origin::Host {
        rest.insert("is_error".to_owned(), Value::Bool(true));
    }
    let content = if has_more(message) {
        part_by_part(message).into_iter().map(|block| json!(block)).collect()
    } else {
        Value::String(if text.trim().is_empty() { EMPTY.to_owned() } else { text })
    };
    KnownBlock::ToolResult { tool_use_id: message.tool_call_id.clone().unwrap_or_default(), content, rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_temperature_above_one_is_an_error() {
        let hot = ModelRequest { max_tokens: 1, temperature: Some(1.5), ..ModelRequest::default() };
        assert!(request("m", &hot).unwrap_err().to_string().contains("takes 0 to 1"));
    }

    fn written(request_in: &ModelRequest) -> Value {
        serde_json::to_value(request("m", request_in).unwrap()).unwrap()
    }

    fn tool_named(name: &str) -> clawhost_core::ToolSpec {
        let [description, input_schema] = ["does f", r#"{"type":"object"}"#].map(str::to_owned);
        clawhost_core::ToolSpec { name: name.into(), description, input_schema, extra: vec![] }
    }

    #[test]
    fn every_field_is_written_under_its_name() {
        let check = |change: fn(&mut ModelRequest), expected: Value| {
            let mut asked = ModelRequest { max_tokens: 1, tools: vec![tool_named("f")], ..ModelRequest::default() };
            let mut plain = written(&asked);
            change(&mut asked);
            plain.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
            assert_eq!(written(&asked), plain);
        };
        check(|_| (), json!({}));
        check(|asked| asked.top_p = Some(0.9), json!({"top_p": 0.9}));
        check(|asked| asked.stop = vec!["a".into()], json!({"stop_sequences": ["a"]}));
        check(|asked| asked.tool_choice = ToolChoice::None, json!({"tool_choice": {"type": "none"}}));
        check(|asked| asked.tool_choice = ToolChoice::Required, json!({"tool_choice": {"type": "any"}}));
        check(
            |asked| asked.tool_choice = ToolChoice::Tool("f".into()),
            json!({"tool_choice": {"type": "tool", "name": "f"}}),
        );
        let none = ModelRequest { max_tokens: 1, tool_choice: ToolChoice::None, ..ModelRequest::default() };
        assert!(written(&none).get("tool_choice").is_none(), "there are no tools");
        let streamed = request("m", &none).unwrap().streamed();
        assert_eq!(serde_json::to_value(streamed).unwrap()["stream"], true);
    }

    #[test]
    fn unsupported_fields_are_omitted_and_a_seed_is_reported() {
        let format = Some(clawhost_core::ResponseFormat::JsonObject);
        let asked =
            ModelRequest { seed: Some(1), logprobs: Some(2), response_format: format, ..ModelRequest::default() };
        assert_eq!(written(&asked), written(&ModelRequest::default()));
        assert_eq!(unsent(&asked), [IgnoredRequest::Seed]);
        assert_eq!(unsent(&ModelRequest::default()), []);
    }

    #[test]
    fn unknown_fields_are_sent_in_their_dialect_and_overwrite_nothing() {
        let fields = json!({
            "metadata": {"user_id": "u"}, "stream": true, "system": "other", "max_tokens": 9,
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "tools": [{"type": "web_search_20250305", "name": "web_search"}, {"name": "f", "description": "other", "cache_control": {"type": "ephemeral"}}, {"name": "gone"}],
        });
        let asked = |dialect: &str, tool_choice| {
            let fields = fields.as_object().unwrap().clone();
            let unknown = Some(UnknownFields { dialect: dialect.into(), fields });
            let tools = vec![tool_named("f")];
            written(&ModelRequest { max_tokens: 1, tools, tool_choice, unknown, ..ModelRequest::default() })
        };
        let f = json!({"name": "f", "description": "does f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}});
        assert_eq!(
            asked("anthropic", ToolChoice::Auto),
            json!({
                "model": "m", "max_tokens": 1, "messages": [], "metadata": {"user_id": "u"},
                "tools": [f, {"type": "web_search_20250305", "name": "web_search"}],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            })
        );
        let required = json!({"type": "any", "disable_parallel_tool_use": true});
        assert_eq!(asked("anthropic", ToolChoice::Required)["tool_choice"], required);
        assert!(asked("openai", ToolChoice::Auto).get("metadata").is_none());
    }

    proptest! {
        #[test]
        fn roles_alternate_and_texts_are_not_empty(turns in proptest::collection::vec((0u8..4, "[ a]{0,3}"), 0..12)) {
            let messages: Vec<Message> = turns.iter().map(|(role, text)| {
                let role = [Role::System, Role::User, Role::Assistant, Role::Tool][*role as usize];
                Message::text(role, Origin::Environment, text.clone())
            }).collect();
            let asked = ModelRequest { messages, tools: vec![], max_tokens: 1, temperature: Some(0.5), seed: None, stop: vec![], ..ModelRequest::default() };
            let sent = request("m", &asked).unwrap();
            for pair in sent.messages.windows(2) {
                prop_assert_ne!(&pair[0].role, &pair[1].role);
            }
            let json = serde_json::to_value(&sent).unwrap();
            for message in json["messages"].as_array().unwrap() {
                for block in message["content"].as_array().unwrap() {
                    let text = block.get("text").or_else(|| block.get("content")).and_then(Value::as_str).unwrap();
                    prop_assert!(!text.trim().is_empty());
                }
            }
        }
    }
}
