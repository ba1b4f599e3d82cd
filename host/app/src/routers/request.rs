//! A request as a router sees it: the body of an OpenAI or an Anthropic request, or a text.

use crate::{AppError, RequestError};
use clawhost_core::{Message, ModelRequest, Origin, Role};
use clawhost_wire::{WireError, anthropic, openai, responses};
use serde_json::Value;
use std::path::Path;

/// Largest request in bytes, as the gateway accepts it by default.
pub const ROUTED_REQUEST_BYTES: u64 = 32 << 20;
/// Default seed of the draw that an explanation shows.
pub const EXPLAINED_SEED: u64 = 0;
/// Tokens of an answer where a body names no limit. They decide nothing here.
const TOKENS: u32 = 1;

/// The form in which a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestForm {
    /// The body of an OpenAI request: chat completions, or responses.
    Openai,
    /// The body of an Anthropic request.
    Anthropic,
    /// A text: the first message of a user.
    Text,
}

/// A conversation that asks for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutedRequest {
    /// The form in which it came.
    pub form: RequestForm,
    /// The messages.
    pub messages: Vec<Message>,
    /// Number of tools on offer.
    pub tools: usize,
}

impl RoutedRequest {
    /// A request from what a person names: a file (if there is one, or if the name ends in .json), or else the text itself.
    ///
    /// # Errors
    /// The file cannot be read, or is a body that no endpoint accepts.
    pub fn named(named: &str) -> Result<Self, AppError> {
        let path = Path::new(named);
        let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        if !is_json && !path.exists() {
            return Self::read(named);
        }
        let text = clawhost_files::read_text(path, ROUTED_REQUEST_BYTES)
            .map_err(|error| RequestError::File { path: path.display().to_string(), why: error.to_string() })?;
        Self::read(&text)
    }

    /// A request from a body or a text. A JSON object with `messages` or `input` is a body.
    ///
    /// # Errors
    /// It is a body that no endpoint accepts.
    pub fn read(text: &str) -> Result<Self, AppError> {
        let body = serde_json::from_str::<Value>(text).ok();
        let body = body.filter(|body| body.get("messages").is_some() || body.get("input").is_some());
        let Some(body) = body else {
            let messages = vec![Message::text(Role::User, Origin::User, text)];
            return Ok(Self { form: RequestForm::Text, messages, tools: 0 });
        };
        let read = if body.get("input").is_some() {
            responses::read_request(text, TOKENS).map(|read| (RequestForm::Openai, read.client.request))
        } else if is_anthropic(&body) {
            anthropic::read_request(text).map(|read| (RequestForm::Anthropic, read.request))
        } else {
            openai::read_request(text, TOKENS).map(|read| (RequestForm::Openai, read.request))
        };
        let unusable = |error: WireError| RequestError::Other(format!("the request cannot be read: {error}"));
        let (form, ModelRequest { messages, tools, .. }) = read.map_err(unusable)?;
        Ok(Self { form, messages, tools: tools.len() })
    }
}

/// Whether a body with `messages` has a field that only the Anthropic dialect has.
fn is_anthropic(body: &Value) -> bool {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let has_schema = list(body.get("tools")).iter().any(|tool| tool.get("input_schema").is_some());
    let is_tool = |block: &Value| matches!(block.get("type").and_then(Value::as_str), Some("tool_use" | "tool_result"));
    let mut blocks = list(body.get("messages")).into_iter().flat_map(|message| list(message.get("content")));
    let has_field = body.get("system").is_some() || body.get("anthropic_version").is_some();
    has_field || has_schema || blocks.any(|block| is_tool(&block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_a_body_of_either_dialect_or_a_text() {
        let check = |text: String, form: RequestForm, messages: usize, tools: usize| {
            let read = RoutedRequest::read(&text).unwrap();
            assert_eq!((read.form, read.messages.len(), read.tools), (form, messages, tools), "{text}");
        };
        let hello = json!([{"role": "user", "content": "hello"}]);
        check(json!({"model": "m", "messages": hello}).to_string(), RequestForm::Openai, 1, 0);
        let tool = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
        check(json!({"model": "m", "messages": hello, "tools": tool}).to_string(), RequestForm::Openai, 1, 1);
        check(json!({"model": "m", "input": "hello"}).to_string(), RequestForm::Openai, 1, 0);
        let body = json!({"model": "m", "max_tokens": 9, "system": "Be kind.", "messages": hello});
        check(body.to_string(), RequestForm::Anthropic, 2, 0);
        let results = json!([
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "error: none"}]},
        ]);
        check(json!({"model": "m", "max_tokens": 9, "messages": results}).to_string(), RequestForm::Anthropic, 3, 0);
        check("What is 2 + 2?".to_owned(), RequestForm::Text, 1, 0);
        check("{\"a\": 1}".to_owned(), RequestForm::Text, 1, 0);
        let bad = RoutedRequest::read(&json!({"model": "m", "messages": 3}).to_string()).unwrap_err();
        assert!(bad.to_string().starts_with("the request cannot be read: messages: "), "{bad}");
    }

    #[test]
    fn a_file_is_read_and_a_missing_one_is_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body.json");
        let missing = RoutedRequest::named(path.to_str().unwrap()).unwrap_err();
        assert!(missing.to_string().contains("body.json: "), "{missing}");
        std::fs::write(&path, r#"{"model": "m", "messages": [{"role": "user", "content": "a"}]}"#).unwrap();
        assert_eq!(RoutedRequest::named(path.to_str().unwrap()).unwrap().form, RequestForm::Openai);
        assert_eq!(RoutedRequest::named("a question").unwrap().form, RequestForm::Text);
        assert!(RoutedRequest::named(folder.path().to_str().unwrap()).unwrap_err().to_string().contains("a folder"));
    }
}
