//! Parses a client's request.

use super::items::messages;
use super::tools::tools;
use crate::WireError;
use crate::openai::DIALECT;
use crate::server::{ClientRequest, Fields};
use clawhost_core::{Message, ModelRequest, Origin, ResponseFormat, Role, ToolChoice, UnknownFields};
use serde_json::{Map, Value, json};

/// Most alternatives per token.
const ALTERNATIVES: u32 = 20;
/// Fields that an endpoint of the chat shape understands under these names.
const SHARED: [&str; 4] = ["parallel_tool_calls", "service_tier", "user", "safety_identifier"];

/// A client's request.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponsesRequest {
    /// The request. Its conversation is that of the instructions and the input alone; [`Self::after`] adds what went before.
    pub client: ClientRequest,
    /// The id of the response that it continues.
    pub previous: Option<String>,
    /// Whether the response can be read and continued later.
    pub store: bool,
    /// The items of the input.
    pub input: Vec<Value>,
    /// What only an endpoint of this shape can do: a tool of its own, a run in the background. Fields by name.
    pub foreign: Option<String>,
    /// Fields that the response repeats.
    pub repeated: Map<String, Value>,
}

impl ResponsesRequest {
    /// The request with the items of the conversation that it continues.
    ///
    /// # Errors
    /// See [`messages`].
    pub fn after(&self, earlier: &[Value]) -> Result<ClientRequest, WireError> {
        let mut client = self.client.clone();
        let instructions = client.request.messages.iter().take_while(|message| message.role == Role::System);
        let instructions: Vec<Message> = match self.repeated.get("instructions") {
            Some(Value::String(text)) if !text.is_empty() => instructions.take(1).cloned().collect(),
            _ => Vec::new(),
        };
        let items = [earlier, &self.input].concat();
        client.request.messages = [instructions, messages(&items)?].concat();
        Ok(client)
    }
}

/// The first thing in a request that only an endpoint of this shape can do.
#[derive(Debug, Default)]
pub(super) struct Foreign(Option<String>);

impl Foreign {
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        self.0.get_or_insert_with(what);
    }
}

/// Parses a request. `max_tokens` is the default for requests without a limit.
///
/// # Errors
/// [`WireError::Malformed`]: the body is not a JSON object. [`WireError::Request`]: a field is invalid.
pub fn read_request(body: &str, max_tokens: u32) -> Result<ResponsesRequest, WireError> {
    let mut fields = Fields::of_body(body)?;
    let repeated = repeated(&fields);
    let model = fields.needed("model")?;
    let input = input(&mut fields)?;
    let mut foreign = Foreign::default();
    let mut conversation: Vec<Message> = Vec::new();
    if let Some(text) = fields.text("instructions")?.filter(|text| !text.is_empty()) {
        conversation.push(Message::text(Role::System, Origin::User, text));
    }
    conversation.extend(messages(&input)?);
    let tools = tools(&mut fields, &mut foreign)?;
    let tool_choice = tool_choice(&mut fields, &mut foreign);
    let mut unknown = Map::new();
    let response_format = format(&mut fields, &mut unknown)?;
    if let Some(reasoning) = fields.take("reasoning") {
        let effort = reasoning.get("effort").filter(|effort| effort.is_string());
        unknown.extend(effort.map(|effort| ("reasoning_effort".to_owned(), effort.clone())));
    }
    for name in SHARED {
        unknown.extend(fields.take(name).map(|value| (name.to_owned(), value)));
    }
    let alternatives = fields.count("top_logprobs", 0)?;
    if alternatives.is_some_and(|alternatives| alternatives > ALTERNATIVES) {
        return Err(fields.problem("top_logprobs", &format!("must be at most {ALTERNATIVES}")));
    }
    let include = fields.texts("include")?;
    let wants_logprobs = include.iter().any(|what| what == "message.output_text.logprobs");
    if fields.flag("background")?.unwrap_or(false) {
        foreign.note(|| "background".to_owned());
    }
    for name in ["conversation", "prompt"] {
        if fields.take(name).is_some() {
            foreign.note(|| name.to_owned());
        }
    }
    let request = ModelRequest {
        messages: conversation,
        tools,
        tool_choice,
        max_tokens: fields.count("max_output_tokens", 1)?.unwrap_or(max_tokens),
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        seed: None,
        stop: Vec::new(),
        response_format,
        logprobs: wants_logprobs.then(|| alternatives.unwrap_or(0) as u8),
        unknown: (!unknown.is_empty()).then(|| UnknownFields { dialect: DIALECT.to_owned(), fields: unknown }),
        ..ModelRequest::default()
    };
    let stream = fields.flag("stream")?.unwrap_or(false);
    Ok(ResponsesRequest {
        previous: fields.text("previous_response_id")?.filter(|id| !id.is_empty()),
        store: fields.flag("store")?.unwrap_or(true),
        client: ClientRequest { model, request, stream, include_usage: true, answers: 1 },
        input,
        foreign: foreign.0,
        repeated,
    })
}

/// The items of the input; a text is a message of the user.
fn input(fields: &mut Fields) -> Result<Vec<Value>, WireError> {
    match fields.take("input") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![json!({"type": "message", "role": "user", "content": text})]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(fields.problem("input", "must be a text or a list of items")),
    }
}

fn repeated(fields: &Fields) -> Map<String, Value> {
    let names = [
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    ];
    let given = |name: &str| Some((name.to_owned(), fields.peek(name).filter(|value| !value.is_null())?.clone()));
    names.into_iter().filter_map(given).collect()
}

fn tool_choice(fields: &mut Fields, foreign: &mut Foreign) -> ToolChoice {
    let Some(choice) = fields.take("tool_choice") else { return ToolChoice::Auto };
    let field = |name: &str| choice.get(name).and_then(Value::as_str);
    match (choice.as_str(), field("type"), field("name")) {
        (Some("auto"), ..) => ToolChoice::Auto,
        (Some("none"), ..) => ToolChoice::None,
        (Some("required"), ..) => ToolChoice::Required,
        (None, Some("function"), Some(name)) => ToolChoice::Tool(name.to_owned()),
        _ => {
            foreign.note(|| "tool_choice".to_owned());
            ToolChoice::Auto
        }
    }
}

fn format(fields: &mut Fields, unknown: &mut Map<String, Value>) -> Result<Option<ResponseFormat>, WireError> {
    let Some(text) = fields.take("text") else { return Ok(None) };
    let mut text = Fields::of("text".to_owned(), text)?;
    unknown.extend(text.take("verbosity").map(|verbosity| ("verbosity".to_owned(), verbosity)));
    let Some(format) = text.take("format") else { return Ok(None) };
    let mut format = Fields::of(text.place("format"), format)?;
    match format.text("type")?.as_deref() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(ResponseFormat::JsonObject)),
        Some("json_schema") => Ok(Some(ResponseFormat::JsonSchema {
            name: format.needed("name")?,
            schema: format.take("schema").unwrap_or_else(|| json!({})),
            strict: format.flag("strict")?.unwrap_or(false),
        })),
        _ => Err(format.problem("type", "must be text, json_object or json_schema")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: Value) -> Result<ResponsesRequest, WireError> {
        let mut body = json!({"model": "m", "input": "hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read_request(&body.to_string(), 99)
    }

    #[test]
    fn invalid_requests_name_the_field() {
        let check = |more: Value, expected: &str| {
            assert_eq!(read(more.clone()).unwrap_err().to_string(), expected, "{more}");
        };
        check(json!({"model": null}), "model: is missing");
        check(json!({"input": 7}), "input: must be a text or a list of items");
        check(json!({"input": [7]}), "input[0]: must be an object");
        check(json!({"instructions": 7}), "instructions: must be a text");
        check(json!({"tools": [{"type": "function"}]}), "tools[0].name: is missing");
        check(
            json!({"tools": [{"type": "function", "name": "f", "parameters": 7}]}),
            "tools[0].parameters: must be an object",
        );
        check(json!({"top_logprobs": 21}), "top_logprobs: must be at most 20");
        check(
            json!({"text": {"format": {"type": "xml"}}}),
            "text.format.type: must be text, json_object or json_schema",
        );
        check(json!({"store": "no"}), "store: must be true or false");
        check(json!({"max_output_tokens": 0}), "max_output_tokens: must be a whole number of at least 1");
    }

    #[test]
    fn fields_have_their_meaning_in_the_chat_shape() {
        let schema = json!({"type": "object"});
        let asked = read(json!({
            "instructions": "be brief",
            "tools": [{"type": "function", "name": "f", "parameters": schema, "strict": true}],
            "tool_choice": {"type": "function", "name": "f"},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": true}, "verbosity": "low"},
            "reasoning": {"effort": "low"},
            "include": ["message.output_text.logprobs"],
            "top_logprobs": 2,
            "store": false,
            "previous_response_id": "resp_1",
        }))
        .unwrap();
        let request = &asked.client.request;
        assert_eq!(request.messages[0], Message::text(Role::System, Origin::User, "be brief"));
        assert_eq!(request.messages[1].plain_text(), "hi");
        assert_eq!((request.tools[0].name.as_str(), &request.tool_choice), ("f", &ToolChoice::Tool("f".into())));
        let format = ResponseFormat::JsonSchema { name: "n".into(), schema, strict: true };
        assert_eq!((request.response_format.as_ref(), request.logprobs), (Some(&format), Some(2)));
        let unknown = &request.unknown.as_ref().unwrap().fields;
        assert_eq!(Value::Object(unknown.clone()), json!({"verbosity": "low", "reasoning_effort": "low"}));
        assert_eq!((asked.store, asked.previous.as_deref(), asked.foreign), (false, Some("resp_1"), None));
    }

    #[test]
    fn what_only_such_an_endpoint_can_do_is_named() {
        let check = |more: Value, expect: &str| {
            assert_eq!(read(more.clone()).unwrap().foreign.as_deref(), Some(expect), "{more}");
        };
        check(json!({"tools": [{"type": "web_search"}]}), "tools[0] of the type `web_search`");
        check(
            json!({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]}]}),
            "tools[0].tools[0] of the type `custom`",
        );
        check(
            json!({"tools": [{"type": "function", "name": "n__f"}, {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]}),
            "tools[1].tools[0], whose name `n__f` another tool has,",
        );
        check(json!({"background": true}), "background");
        check(json!({"conversation": "conv_1"}), "conversation");
        check(json!({"prompt": {"id": "p"}}), "prompt");
        check(json!({"tool_choice": {"type": "allowed_tools"}}), "tool_choice");
        assert_eq!(read(json!({"background": false, "conversation": null})).unwrap().foreign, None);
    }

    #[test]
    fn earlier_items_stand_between_instructions_and_input() {
        let asked = read(json!({"instructions": "be brief"})).unwrap();
        let earlier = [json!({"role": "user", "content": "a"}), json!({"role": "assistant", "content": "b"})];
        let texts: Vec<String> =
            asked.after(&earlier).unwrap().request.messages.iter().map(Message::plain_text).collect();
        assert_eq!(texts, ["be brief", "a", "b", "hi"]);
    }
}
