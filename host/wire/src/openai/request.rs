//! Writes a request for an endpoint.

use super::{ChatFunction, ChatMessage, ChatRequest, ChatTool, ChatToolCall, DIALECT, function_word};
use crate::{kept, sent_arguments, sent_name, sent_number};
use clawhost_core::{
    Attributes, Message, ModelRequest, Part, ResponseFormat, Role, ToolCall, ToolChoice, UnknownFields,
};
use serde_json::{Map, Value, json};

/// The field of the token limit that an endpoint accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLimit {
    /// `max_tokens`: nearly all servers.
    MaxTokens,
    /// `max_completion_tokens`: OpenAI, whose newer models reject the other.
    MaxCompletionTokens,
}

/// Request fields that are never copied from a client's unknown fields, because this program determines them.
pub(super) const DECIDED: [&str; 14] = [
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "seed",
    "stop",
    "logprobs",
    "top_logprobs",
    "stream",
    "stream_options",
    "n",
    "tools",
];

/// The request for an endpoint, without streaming; see [`ChatRequest::streamed`].
pub fn request(model: &str, request: &ModelRequest, limit: TokenLimit) -> ChatRequest {
    let (max_tokens, max_completion_tokens) = match limit {
        TokenLimit::MaxTokens => (Some(request.max_tokens), None),
        TokenLimit::MaxCompletionTokens => (None, Some(request.max_tokens)),
    };
    let mut asked = ChatRequest {
        model: model.to_owned(),
        messages: request.messages.iter().map(message).collect(),
        tools: request.tools.iter().map(tool).collect(),
        max_tokens,
        max_completion_tokens,
        temperature: request.temperature.and_then(sent_number),
        top_p: request.top_p.and_then(sent_number),
        // Servers expect a signed number. The low bits are kept, so that consecutive seeds stay distinct.
        seed: request.seed.map(|seed| (seed & i64::MAX as u64) as i64),
        stop: (!request.stop.is_empty()).then(|| Value::from(request.stop.clone())),
        tool_choice: tool_choice(request),
        response_format: request.response_format.as_ref().map(response_format),
        logprobs: request.logprobs.map(|_| true),
        top_logprobs: request.logprobs.filter(|alternatives| *alternatives > 0),
        stream: None,
        stream_options: None,
        rest: Map::new(),
    };
    if let Some(unknown) = request.unknown.as_ref().filter(|unknown| unknown.dialect == DIALECT) {
        add_unknown(&mut asked, unknown);
    }
    asked
}

impl ChatRequest {
    /// The same request with streaming. Some old servers reject the request for usage.
    #[must_use]
    pub fn streamed(mut self, include_usage: bool) -> Self {
        self.stream = Some(true);
        self.stream_options = include_usage.then(|| json!({"include_usage": true}));
        self
    }
}

fn add_unknown(asked: &mut ChatRequest, unknown: &UnknownFields) {
    for (name, value) in &unknown.fields {
        match name.as_str() {
            "tools" => add_tools(asked, value),
            name if DECIDED.contains(&name) => {}
            "tool_choice" => kept::add_missing_to(&mut asked.tool_choice, value),
            "response_format" => kept::add_missing_to(&mut asked.response_format, value),
            name => drop(asked.rest.insert(name.to_owned(), value.clone())),
        }
    }
}

/// Adds additional fields of known tools, and tools that are not functions.
fn add_tools(asked: &mut ChatRequest, unknown: &Value) {
    for tool in unknown.as_array().into_iter().flatten() {
        let Some(fields) = tool.as_object() else { continue };
        let name = |function: &Value| function.get("name").and_then(Value::as_str).map(str::to_owned);
        match fields.get("function") {
            Some(more) => {
                let known = asked.tools.iter_mut().find(|known| name(&known.function) == name(more));
                if let Some(known) = known {
                    if let (Value::Object(function), Value::Object(more)) = (&mut known.function, more) {
                        kept::add_missing(function, more);
                    }
                    let beside = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "type" | "function"));
                    known.rest.extend(beside.map(|(name, value)| (name.clone(), value.clone())));
                }
            }
            None => asked.tools.extend(serde_json::from_value::<ChatTool>(tool.clone())),
        }
    }
}

fn tool(tool: &clawhost_core::ToolSpec) -> ChatTool {
    let parameters = serde_json::from_str(&tool.input_schema).unwrap_or_else(|_| json!({}));
    let function = json!({ "name": tool.name, "description": tool.description, "parameters": parameters });
    ChatTool { kind: function_word(), function, rest: Map::new() }
}

fn tool_choice(request: &ModelRequest) -> Option<Value> {
    match &request.tool_choice {
        ToolChoice::Auto => None,
        // Servers reject a tool choice without tools; nothing can be called then anyway.
        ToolChoice::None if request.tools.is_empty() => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
    }
}

fn response_format(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::JsonObject => json!({"type": "json_object"}),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            let mut described = json!({"name": name, "schema": schema});
            if let (true, Some(described)) = (*strict, described.as_object_mut()) {
                described.insert("strict".to_owned(), Value::Bool(true));
            }
            json!({"type": "json_schema", "json_schema": described})
        }
    }
}

fn message(message: &Message) -> ChatMessage {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let trusted = kept::is_trusted(message);
    let beside = |attributes: &Attributes, known: &[&str]| {
        let mut fields = if trusted { kept::kept_fields(DIALECT, attributes) } else { Map::new() };
        fields.retain(|name, _| !known.contains(&name.as_str()));
        fields
    };
    let call = |call: &ToolCall| ChatToolCall {
        id: call.id.clone(),
        kind: function_word(),
        function: ChatFunction {
            name: sent_name(&call.name),
            arguments: Value::from(sent_arguments(&call.arguments)),
            rest: Map::new(),
        },
        rest: beside(&call.extra, &["id", "type", "function"]),
    };
    let calls: Vec<ChatToolCall> = message.tool_calls.iter().map(call).collect();
    ChatMessage {
        role: role.to_owned(),
        content: content(message),
        tool_calls: (!calls.is_empty()).then_some(calls),
        tool_call_id: message.tool_call_id.clone(),
        rest: beside(&message.extra, &["role", "content", "tool_calls", "tool_call_id"]),
    }
}

fn content(message: &Message) -> Value {
    let text = message.plain_text();
    let parts: Vec<Option<Value>> = message.parts.iter().map(|part| kept::kept_part(DIALECT, message, part)).collect();
    if parts.iter().any(Option::is_some) {
        let written = message.parts.iter().zip(parts).filter_map(|(part, kept)| match part {
            Part::Text(text) | Part::Json(text) => Some(json!({"type": "text", "text": text})),
            _ => kept,
        });
        return Value::Array(written.collect());
    }
    if text.is_empty() && !message.tool_calls.is_empty() { Value::Null } else { Value::from(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Origin, ToolSpec};

    fn written(request_in: &ModelRequest) -> Value {
        serde_json::to_value(request("m", request_in, TokenLimit::MaxTokens)).unwrap()
    }

    #[test]
    fn seeds_stay_distinct_and_the_history_is_valid() {
        let asked = |seed, name: &str, arguments: &str| {
            let call = ToolCall { id: "a".into(), name: name.into(), arguments: arguments.into(), extra: vec![] };
            let said = Message { tool_calls: vec![call], ..Message::text(Role::Assistant, Origin::Policy, "") };
            written(&ModelRequest { messages: vec![said], max_tokens: 1, seed, ..ModelRequest::default() })
        };
        assert_ne!(asked(Some(6), "f", "{}")["seed"], asked(Some(7), "f", "{}")["seed"]);
        let json = asked(None, "find<|im_end|> it", "{oops");
        assert!(json.get("temperature").is_none() && json.get("seed").is_none(), "defaults are not sent");
        let function = &json["messages"][0]["tool_calls"][0]["function"];
        assert_eq!(function["name"], "find__im_end___it");
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments["unreadable_arguments"], "{oops");
    }

    fn tool_named(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            description: "does f".into(),
            input_schema: r#"{"type":"object"}"#.into(),
            extra: vec![],
        }
    }

    #[test]
    fn a_request_has_all_fields_and_keeps_unknown_ones() {
        let request_in = ModelRequest {
            messages: vec![
                Message::text(Role::System, Origin::Host, "be brief"),
                Message::text(Role::User, Origin::Environment, "2+2?"),
            ],
            tools: vec![tool_named("f")],
            max_tokens: 5,
            temperature: Some(0.7),
            seed: Some(u64::MAX),
            ..ModelRequest::default()
        };
        let expected = json!({
            "model": "m",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "2+2?"}],
            "tools": [{"type": "function", "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}}}],
            "max_tokens": 5, "temperature": 0.7, "seed": i64::MAX,
        });
        assert_eq!(written(&request_in), expected);

        let odd = r#"{"model":"m","messages":[{"role":"user","content":"x","name":"bob"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}","note":1},"index":0}]}],"tools":[{"type":"custom","custom":{"name":"c"}},{"type":"function","function":{"name":"f","strict":true},"x":1}],"stop":"END","logit_bias":{"1":2}}"#;
        let read: ChatRequest = serde_json::from_str(odd).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), serde_json::from_str::<Value>(odd).unwrap());
    }

    #[test]
    fn every_field_is_written_under_its_name() {
        let check = |change: fn(&mut ModelRequest), expected: Value| {
            let mut asked = ModelRequest { max_tokens: 1, tools: vec![tool_named("f")], ..ModelRequest::default() };
            let mut plain = written(&asked);
            change(&mut asked);
            let fields = expected.as_object().unwrap().clone();
            plain.as_object_mut().unwrap().extend(fields);
            assert_eq!(written(&asked), plain);
        };
        check(|_| (), json!({}));
        check(|asked| asked.top_p = Some(0.9), json!({"top_p": 0.9}));
        check(|asked| asked.stop = vec!["a".into(), "b".into()], json!({"stop": ["a", "b"]}));
        check(|asked| asked.tool_choice = ToolChoice::None, json!({"tool_choice": "none"}));
        check(|asked| asked.tool_choice = ToolChoice::Required, json!({"tool_choice": "required"}));
        check(
            |asked| asked.tool_choice = ToolChoice::Tool("f".into()),
            json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        );
        check(
            |asked| asked.response_format = Some(ResponseFormat::JsonObject),
            json!({"response_format": {"type": "json_object"}}),
        );
        check(
            |asked| {
                let schema = json!({"type": "object"});
                asked.response_format = Some(ResponseFormat::JsonSchema { name: "n".into(), schema, strict: true });
            },
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}}}),
        );
        check(|asked| asked.logprobs = Some(0), json!({"logprobs": true}));
        check(|asked| asked.logprobs = Some(5), json!({"logprobs": true, "top_logprobs": 5}));
        let none = ModelRequest { tool_choice: ToolChoice::None, ..ModelRequest::default() };
        assert!(written(&none).get("tool_choice").is_none(), "there are no tools");
        let streamed = request("m", &none, TokenLimit::MaxTokens).streamed(true);
        let streamed = serde_json::to_value(streamed).unwrap();
        assert_eq!((&streamed["stream"], &streamed["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    }

    #[test]
    fn unknown_fields_are_sent_in_their_dialect_and_overwrite_nothing() {
        let fields = json!({
            "logit_bias": {"1": 2}, "stream": true, "n": 3, "model": "other", "max_completion_tokens": 9,
            "tool_choice": {"type": "allowed_tools"},
            "tools": [{"type": "custom", "custom": {"name": "c"}}, {"type": "function", "function": {"name": "f", "description": "other", "strict": true}},
                {"type": "function", "function": {"name": "gone", "strict": true}}],
        });
        let asked = |dialect: &str, tool_choice| {
            let fields = fields.as_object().unwrap().clone();
            let unknown = Some(UnknownFields { dialect: dialect.into(), fields });
            let tools = vec![tool_named("f")];
            written(&ModelRequest { max_tokens: 1, tools, tool_choice, unknown, ..ModelRequest::default() })
        };
        let f = json!({"name": "f", "description": "does f", "parameters": {"type": "object"}, "strict": true});
        assert_eq!(
            asked("openai", ToolChoice::Auto),
            json!({
                "model": "m", "messages": [], "max_tokens": 1, "logit_bias": {"1": 2},
                "tools": [{"type": "function", "function": f}, {"type": "custom", "custom": {"name": "c"}}],
                "tool_choice": {"type": "allowed_tools"},
            })
        );
        assert_eq!(asked("openai", ToolChoice::Required)["tool_choice"], "required");
        assert!(asked("anthropic", ToolChoice::Auto).get("logit_bias").is_none());
    }
}
