//! Conversations as one text, by the Jinja template that comes with a model.

use crate::LocalModelError;
use clawhost_core::{Message, Part, Role, ToolSpec, escaped};
use minijinja::{Environment, ErrorKind, Value, context};
use serde_json::json;
use std::sync::Arc;

/// A template with the words for the special tokens that it may use.
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    beginning: String,
    end: String,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").finish_non_exhaustive()
    }
}

/// The name it is known by inside.
const NAME: &str = "chat";

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// The text of a message: parts in order.
fn text(message: &Message) -> String {
    let of = |part: &Part| match part {
        Part::Text(text) | Part::Json(text) | Part::Other(text) => text.clone(),
        Part::Blob(blob) => format!("[{} {}]", blob.media_type, blob.digest),
    };
    message.parts.iter().map(of).collect()
}

impl ChatTemplate {
    /// A template, and the words for the tokens of beginning and end.
    ///
    /// # Errors
    /// It is no Jinja.
    pub fn new(source: &str, beginning: &str, end: &str) -> Result<Self, LocalModelError> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        // What templates call that were written for Python.
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", super::json::tojson);
        environment.add_function("raise_exception", |why: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, why))
        });
        // A template that asks for the date gets none: equal conversations give equal texts.
        environment.add_function("strftime_now", |_: String| String::new());
        let wrong = |error: minijinja::Error| LocalModelError::Template(escaped(&error.to_string(), 400));
        environment.add_template_owned(NAME, source.to_owned()).map_err(wrong)?;
        Ok(Self { environment: Arc::new(environment), beginning: beginning.to_owned(), end: end.to_owned() })
    }

    /// The conversation as text, with the words that invite an answer.
    ///
    /// # Errors
    /// The template refuses the conversation.
    pub fn render(&self, messages: &[Message], tools: &[ToolSpec]) -> Result<String, LocalModelError> {
        let messages: Vec<serde_json::Value> = messages
            .iter()
            .map(|message| {
                let mut told = json!({ "role": role(message.role), "content": text(message) });
                let Some(object) = told.as_object_mut() else { return told };
                if let Some(id) = &message.tool_call_id {
                    object.insert("tool_call_id".into(), json!(id));
                    let mut calls = messages.iter().flat_map(|message| &message.tool_calls);
                    // Some templates say which tool it was that answers.
                    if let Some(call) = calls.find(|call| call.id == *id) {
                        object.insert("name".into(), json!(call.name));
                    }
                }
                if !message.tool_calls.is_empty() {
                    let calls: Vec<_> = message
                        .tool_calls
                        .iter()
                        .map(|call| {
                            let arguments: serde_json::Value =
                                serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
                            json!({ "type": "function", "id": call.id, "function": { "name": call.name, "arguments": arguments } })
                        })
                        .collect();
                    object.insert("tool_calls".into(), json!(calls));
                }
                told
            })
            .collect();
        let tools: Vec<serde_json::Value> = tools
            .iter()
            .map(|tool| {
                let schema: serde_json::Value = serde_json::from_str(&tool.input_schema).unwrap_or_else(|_| json!({}));
                json!({ "type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": schema,
                } })
            })
            .collect();
        let tools = if tools.is_empty() { Value::from(()) } else { Value::from_serialize(&tools) };
        let wrong = |error: minijinja::Error| {
            let why = error.detail().map_or_else(|| error.to_string(), str::to_owned);
            LocalModelError::Template(escaped(&why, 400))
        };
        let template = self.environment.get_template(NAME).map_err(wrong)?;
        template
            .render(context! {
                messages => Value::from_serialize(&messages), tools => tools, add_generation_prompt => true,
                bos_token => self.beginning, eos_token => self.end,
            })
            .map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Origin;

    fn said(role: Role, text: &str) -> Message {
        Message::text(role, Origin::Host, text)
    }

    #[test]
    fn conversations_become_texts() {
        let source = "{% for message in messages %}<{{ message.role }}>{{ message.content.strip() }}{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
        let template = ChatTemplate::new(source, "", "#").unwrap();
        let talk = [
            said(Role::System, "Be brief."),
            said(Role::User, " Hi "),
            said(Role::Assistant, "Ho"),
            said(Role::User, "?"),
        ];
        let text = template.render(&talk, &[]).unwrap();
        assert_eq!(text, "<system>Be brief.#\n<user>Hi#\n<assistant>Ho#\n<user>?#\n<assistant>");
    }

    #[test]
    fn templates_may_refuse_and_say_why() {
        let source = "{% if messages[0].role != 'user' %}{{ raise_exception('the user speaks first') }}{% endif %}";
        let template = ChatTemplate::new(source, "", "").unwrap();
        let error = template.render(&[said(Role::Assistant, "Hi")], &[]).unwrap_err().to_string();
        assert_eq!(error, "chat template: the user speaks first");
        assert!(ChatTemplate::new("{% if %}", "", "").is_err());
    }
}
