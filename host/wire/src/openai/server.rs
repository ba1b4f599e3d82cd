//! Parses a client's request.

use super::DIALECT;
use crate::server::{ClientRequest, Fields};
use crate::{WireError, kept};
use clawhost_core::{
    Message, ModelRequest, Origin, Part, ResponseFormat, Role, ToolCall, ToolChoice, ToolSpec, UnknownFields,
};
use serde_json::{Map, Value, json};

/// Most alternatives per token in the dialect.
const ALTERNATIVES: u32 = 20;

/// Parses a client's request. `max_tokens` is the default for requests without a limit.
///
/// # Errors
/// [`WireError::Malformed`]: the body is not a JSON object. [`WireError::Request`]: a field is invalid or not supported.
/// Both are [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest).
pub fn read_request(body: &str, max_tokens: u32) -> Result<ClientRequest, WireError> {
    let mut fields = Fields::of_body(body)?;
    let model = fields.needed("model")?;
    let messages = fields.list("messages")?.ok_or_else(|| fields.problem("messages", "is missing"))?;
    let messages = messages.into_iter().enumerate();
    let messages = messages.map(|(at, value)| message(Fields::of(format!("messages[{at}]"), value)?));
    let messages = messages.collect::<Result<_, _>>()?;
    let mut unknown = Map::new();
    let tools = tools(&mut fields, &mut unknown)?;
    let tool_choice = tool_choice(&mut fields, &mut unknown);
    let response_format = response_format(&mut fields, &mut unknown)?;
    // The newer field has precedence.
    let (older, newer) = (fields.count("max_tokens", 1)?, fields.count("max_completion_tokens", 1)?);
    let wants_logprobs = fields.flag("logprobs")?.unwrap_or(false);
    let alternatives = fields.count("top_logprobs", 0)?;
    if alternatives.is_some_and(|alternatives| alternatives > ALTERNATIVES) {
        return Err(fields.problem("top_logprobs", &format!("must be at most {ALTERNATIVES}")));
    }
    if alternatives.is_some() && !wants_logprobs {
        return Err(fields.problem("top_logprobs", "needs logprobs to be true"));
    }
    let answers = fields.count("n", 1)?.unwrap_or(1);
    let stop = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(list) => {
            fields.put_back("stop", list);
            fields.texts("stop")?
        }
    };
    let stream = fields.flag("stream")?.unwrap_or(false);
    let include_usage = match fields.take("stream_options") {
        None => false,
        Some(options) => Fields::of("stream_options".to_owned(), options)?.flag("include_usage")?.unwrap_or(false),
    };
    let request = ModelRequest {
        messages,
        tools,
        tool_choice,
        max_tokens: newer.or(older).unwrap_or(max_tokens),
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        seed: fields.seed()?,
        stop,
        response_format,
        logprobs: wants_logprobs.then(|| alternatives.unwrap_or(0) as u8),
        ..ModelRequest::default()
    };
    unknown.extend(fields.rest());
    let unknown = (!unknown.is_empty()).then(|| UnknownFields { dialect: DIALECT.to_owned(), fields: unknown });
    Ok(ClientRequest { model, request: ModelRequest { unknown, ..request }, stream, include_usage, answers })
}

/// Functions. Their additional fields, and other kinds of tools, are kept as the unknown field `tools`.
fn tools(fields: &mut Fields, unknown: &mut Map<String, Value>) -> Result<Vec<ToolSpec>, WireError> {
    let (mut known, mut other) = (Vec::new(), Vec::new());
    for (at, value) in fields.list("tools")?.unwrap_or_default().into_iter().enumerate() {
        let at = format!("tools[{at}]");
        let mut tool = Fields::of(at.clone(), value)?;
        if tool.peek("type").is_some_and(|kind| kind != "function") {
            other.push(Value::Object(tool.rest()));
            continue;
        }
        tool.take("type");
        let function = tool.take("function").ok_or_else(|| tool.problem("function", "is missing"))?;
        let mut function = Fields::of(format!("{at}.function"), function)?;
        let name = function.needed("name")?;
        let description = function.text("description")?.unwrap_or_default();
        let schema = function.take("parameters").unwrap_or_else(|| json!({}));
        if !schema.is_object() {
            return Err(function.problem("parameters", "must be an object"));
        }
        let (mut function, mut tool) = (function.rest(), tool.rest());
        if !function.is_empty() || !tool.is_empty() {
            function.insert("name".to_owned(), name.as_str().into());
            tool.insert("type".to_owned(), "function".into());
            tool.insert("function".to_owned(), function.into());
            other.push(tool.into());
        }
        known.push(ToolSpec { name, description, input_schema: schema.to_string(), extra: Vec::new() });
    }
    if !other.is_empty() {
        unknown.insert("tools".to_owned(), other.into());
    }
    Ok(known)
}

/// An unknown tool choice is kept as an unknown field.
fn tool_choice(fields: &mut Fields, unknown: &mut Map<String, Value>) -> ToolChoice {
    let Some(choice) = fields.take("tool_choice") else { return ToolChoice::Auto };
    let name = choice.pointer("/function/name").and_then(Value::as_str);
    match (choice.as_str(), name) {
        (Some("auto"), _) => ToolChoice::Auto,
        (Some("none"), _) => ToolChoice::None,
        (Some("required"), _) => ToolChoice::Required,
        (None, Some(name)) if choice.get("type").is_some_and(|kind| kind == "function") => {
            ToolChoice::Tool(name.to_owned())
        }
        _ => {
            unknown.insert("tool_choice".to_owned(), choice);
            ToolChoice::Auto
        }
    }
}

/// An unknown format, and additional fields of a schema, are kept as an unknown field.
fn response_format(fields: &mut Fields, unknown: &mut Map<String, Value>) -> Result<Option<ResponseFormat>, WireError> {
    let Some(format) = fields.take("response_format") else { return Ok(None) };
    let at = "response_format".to_owned();
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(ResponseFormat::JsonObject)),
        Some("json_schema") => {
            let mut format = Fields::of(at, format)?;
            let described = format.take("json_schema").ok_or_else(|| format.problem("json_schema", "is missing"))?;
            let mut described = Fields::of(format.place("json_schema"), described)?;
            let name = described.needed("name")?;
            let schema = described.take("schema").unwrap_or_else(|| json!({}));
            let strict = described.flag("strict")?.unwrap_or(false);
            let more = described.rest();
            if !more.is_empty() {
                unknown.insert("response_format".to_owned(), json!({ "json_schema": more }));
            }
            Ok(Some(ResponseFormat::JsonSchema { name, schema, strict }))
        }
        Some(_) => {
            unknown.insert(at, format);
            Ok(None)
        }
        None => Err(WireError::Request(at, "must be an object with a type".to_owned())),
    }
}

fn message(mut fields: Fields) -> Result<Message, WireError> {
    let (role, origin) = match fields.needed("role")?.as_str() {
        // Newer OpenAI models use `developer` for `system`, and accept both.
        "system" | "developer" => (Role::System, Origin::User),
        "user" => (Role::User, Origin::User),
        "assistant" => (Role::Assistant, Origin::Policy),
        "tool" => (Role::Tool, Origin::Tool),
        _ => return Err(fields.problem("role", "must be system, developer, user, assistant or tool")),
    };
    let parts = match fields.take("content") {
        None if role == Role::Assistant => Vec::new(),
        None => return Err(fields.problem("content", "is missing")),
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![Part::Text(text)],
        Some(Value::Array(items)) => {
            let place = fields.place("content");
            let parts = items.into_iter().enumerate().map(|(at, item)| part(format!("{place}[{at}]"), item));
            parts.collect::<Result<_, _>>()?
        }
        Some(_) => return Err(fields.problem("content", "must be a text or a list of parts")),
    };
    let mut tool_calls = Vec::new();
    let mut tool_call_id = None;
    if role == Role::Assistant {
        let place = fields.place("tool_calls");
        for (at, value) in fields.list("tool_calls")?.unwrap_or_default().into_iter().enumerate() {
            tool_calls.push(tool_call(Fields::of(format!("{place}[{at}]"), value)?)?);
        }
    }
    if role == Role::Tool {
        tool_call_id = Some(fields.needed("tool_call_id")?);
    }
    let extra = kept::fields(DIALECT, fields.rest()).into_iter().collect();
    Ok(Message { role, parts, tool_calls, tool_call_id, origin, extra })
}

fn part(at: String, item: Value) -> Result<Part, WireError> {
    let mut fields = Fields::of(at, item.clone())?;
    match fields.needed("type")?.as_str() {
        "text" => match fields.text("text")? {
            Some(text) => Ok(Part::Text(text)),
            None => Err(fields.problem("text", "is missing")),
        },
        _ => Ok(kept::part(DIALECT, item)),
    }
}

fn tool_call(mut fields: Fields) -> Result<ToolCall, WireError> {
    if fields.take("type").is_some_and(|kind| kind != "function") {
        return Err(fields.problem("type", "must be function"));
    }
    let id = fields.needed("id")?;
    let function = fields.take("function").ok_or_else(|| fields.problem("function", "is missing"))?;
    let mut function = Fields::of(fields.place("function"), function)?;
    let name = function.needed("name")?;
    let arguments = match function.take("arguments") {
        None => "{}".to_owned(),
        Some(Value::String(text)) => text,
        Some(object) => object.to_string(),
    };
    Ok(ToolCall { id, name, arguments, extra: kept::fields(DIALECT, fields.rest()).into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::{TokenLimit, request};

    fn asked(more: Value) -> Value {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    fn read(more: Value) -> Result<ClientRequest, WireError> {
        read_request(&asked(more).to_string(), 99)
    }

    #[test]
    fn invalid_requests_name_the_field() {
        let check = |more: Value, expected: &str| {
            assert_eq!(read(more.clone()).unwrap_err().to_string(), expected, "{more}");
        };
        check(json!({"model": null}), "model: is missing");
        check(json!({"model": 7}), "model: must be a text");
        check(json!({"messages": "hi"}), "messages: must be a list");
        check(json!({"messages": [7]}), "messages[0]: must be an object");
        check(
            json!({"messages": [{"role": "robot"}]}),
            "messages[0].role: must be system, developer, user, assistant or tool",
        );
        check(json!({"messages": [{"role": "user"}]}), "messages[0].content: is missing");
        check(
            json!({"messages": [{"role": "user", "content": 7}]}),
            "messages[0].content: must be a text or a list of parts",
        );
        check(
            json!({"messages": [{"role": "user", "content": [{"text": "a"}]}]}),
            "messages[0].content[0].type: is missing",
        );
        check(
            json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
            "messages[0].content[0].text: is missing",
        );
        check(json!({"messages": [{"role": "tool", "content": "x"}]}), "messages[0].tool_call_id: is missing");
        check(
            json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom"}]}]}),
            "messages[0].tool_calls[0].type: must be function",
        );
        check(
            json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]}]}),
            "messages[0].tool_calls[0].function.name: is missing",
        );
        check(
            json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": 7}}]}),
            "tools[0].function.parameters: must be an object",
        );
        check(json!({"temperature": 3}), "temperature: must be a number from 0 to 2");
        check(json!({"top_p": "a"}), "top_p: must be a number from 0 to 1");
        check(json!({"max_tokens": 0}), "max_tokens: must be a whole number of at least 1");
        check(json!({"n": 0}), "n: must be a whole number of at least 1");
        check(json!({"top_logprobs": 2}), "top_logprobs: needs logprobs to be true");
        check(json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs: must be at most 20");
        check(json!({"stop": [7]}), "stop: must be a list of texts");
        check(json!({"seed": 0.5}), "seed: must be a whole number");
        check(json!({"stream": "yes"}), "stream: must be true or false");
        check(json!({"stream_options": {"include_usage": 1}}), "stream_options.include_usage: must be true or false");
        check(json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema: is missing");
        assert!(matches!(read_request("[1]", 1), Err(WireError::Malformed(..))));
    }

    #[test]
    fn absent_fields_have_the_dialects_defaults() {
        let plain = read(json!({"stream": null, "tools": null})).unwrap();
        let messages = vec![Message::text(Role::User, Origin::User, "hi")];
        let request = ModelRequest { messages, max_tokens: 99, ..ModelRequest::default() };
        assert_eq!(
            plain,
            ClientRequest { model: "m".into(), request, stream: false, include_usage: false, answers: 1 }
        );
        let both =
            read(json!({"max_tokens": 5, "max_completion_tokens": 7, "stop": "END", "seed": -1})).unwrap().request;
        assert_eq!((both.max_tokens, both.stop, both.seed), (7, vec!["END".to_owned()], Some(u64::MAX)));
        let streamed = read(json!({"stream": true, "stream_options": {"include_usage": true}})).unwrap();
        assert!(streamed.stream && streamed.include_usage);
    }

    /// A client's request reaches an endpoint of its dialect unchanged.
    #[test]
    fn unknown_content_is_passed_on_unchanged() {
        let body = asked(json!({
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}], "name": "bob"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}, "extra_content": {"google": {"thought_signature": "s"}}}]},
                {"role": "tool", "content": "done", "tool_call_id": "a"},
            ],
            "tools": [
                {"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}, "strict": true}},
                {"type": "custom", "custom": {"name": "c"}},
            ],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true, "description": "d"}},
            "max_tokens": 5, "temperature": 0.7, "top_p": 0.9, "seed": 4, "stop": ["a"], "logprobs": true, "top_logprobs": 2,
            "reasoning_effort": "low", "logit_bias": {"1": 2}, "parallel_tool_calls": false,
        }));
        let read = read_request(&body.to_string(), 1).unwrap();
        let written = request(&read.model, &read.request, TokenLimit::MaxTokens);
        assert_eq!(serde_json::to_value(written).unwrap(), body);
        assert_eq!(read.request.messages[1].plain_text(), "what is this?");
        assert_eq!(read.request.tools.len(), 1);
    }
}
