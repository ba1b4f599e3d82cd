//! The chat template of a model.

use super::TemplateArguments;
use super::jinja::Inert;
use super::order::{Ask, Told};
use super::process::refused;
use super::texts::Interpreter;
use crate::LocalModelError;
use crate::answers::AnswerFormat;
use clawhost_core::{Message, Origin, Role, ToolSpec};
use std::borrow::Cow;
use std::sync::Arc;

/// A template for conversations.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    interpreter: Arc<Interpreter>,
    control: Arc<[String]>,
    answers: AnswerFormat,
}

impl ChatTemplate {
    /// The template of these texts, and the control words of their tokenizer.
    pub(super) fn of(interpreter: Arc<Interpreter>, control: Vec<String>, answers: AnswerFormat) -> Self {
        Self { interpreter, control: control.into(), answers }
    }

    /// How the models of its family write answers.
    pub(crate) fn answers(&self) -> &AnswerFormat {
        &self.answers
    }

    /// Whether it omits system messages: a system prompt or a playbook would have no effect.
    pub fn ignores_system_prompt(&self) -> bool {
        let said = |role, text| Message::text(role, Origin::User, text);
        let none = TemplateArguments::default();
        let [without, with] = [
            self.render(&[said(Role::User, "1")], &[], &none),
            self.render(&[said(Role::System, "1"), said(Role::User, "1")], &[], &none),
        ];
        matches!((without, with), (Ok(without), Ok(with)) if without == with)
    }

    /// A text with control words made inert, as in a message.
    pub fn harmless(&self, text: &str) -> String {
        Inert(&self.control).text(text.to_owned())
    }

    /// Renders the conversation, with the prompt for the next answer.
    ///
    /// # Errors
    /// The template refuses the conversation, or reaches a limit.
    pub fn render(
        &self,
        messages: &[Message],
        tools: &[ToolSpec],
        arguments: &TemplateArguments,
    ) -> Result<String, LocalModelError> {
        let ask = Ask::Render { messages: messages.into(), tools: tools.into(), arguments: Cow::Borrowed(arguments) };
        match self.interpreter.ask(&ask)? {
            Told::Text(text) => Ok(text),
            other => Err(refused(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tokens::{TextFiles, TextHost, Texts, alphabet_json};
    use std::collections::BTreeMap;

    #[test]
    fn a_template_that_omits_system_messages_is_detected() {
        let alphabet = alphabet_json(&['1', '2']);
        let check = |source: &str, expect| {
            let (tool_template, words) = (None, &BTreeMap::new());
            let files = TextFiles { tokenizer_json: &alphabet, template: Some(source), tool_template, words };
            let template = Texts::open(&files, &[], &TextHost::InProcess).unwrap().template.unwrap();
            assert_eq!(template.ignores_system_prompt(), expect, "{source}");
        };
        check("{% for m in messages %}{{ m.content }}{% endfor %}", false);
        check("{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}", true);
        // The template refuses system messages itself.
        check("{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}", false);
    }
}
