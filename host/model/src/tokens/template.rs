//! Conversations as one text, by the Jinja template that comes with a model.

use crate::LocalModelError;
use clawhost_core::{Message, Part, Role, ToolSpec, escaped};
use minijinja::value::{Enumerator, Object};
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

/// A message as templates see it. They see every message of a conversation again at every turn, so it costs little to make.
#[derive(Debug)]
struct Told {
    role: &'static str,
    content: Value,
    /// What few messages have.
    more: Vec<(&'static str, Value)>,
}

impl Told {
    fn new(message: &Message, all: &[Message]) -> Self {
        let mut more = Vec::new();
        if let Some(id) = &message.tool_call_id {
            more.push(("tool_call_id", Value::from(id.as_str())));
            // Some templates say which tool it was that answers.
            let call = all.iter().flat_map(|message| &message.tool_calls).find(|call| call.id == *id);
            more.extend(call.map(|call| ("name", Value::from(call.name.as_str()))));
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
            more.push(("tool_calls", Value::from_serialize(&calls)));
        }
        Self { role: role(message.role), content: Value::from(text(message)), more }
    }
}

impl Object for Told {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "role" => Some(Value::from(self.role)),
            "content" => Some(self.content.clone()),
            other => self.more.iter().find(|(name, _)| *name == other).map(|(_, value)| value.clone()),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = ["role", "content"].into_iter().chain(self.more.iter().map(|(name, _)| *name));
        Enumerator::Values(names.map(Value::from).collect())
    }
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
        let told: Vec<Value> =
            messages.iter().map(|message| Value::from_object(Told::new(message, messages))).collect();
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
                messages => told, tools => tools, add_generation_prompt => true,
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
