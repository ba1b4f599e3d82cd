//! A conversation with a local model, turn by turn.

use super::folder::{LocalSource, read};
use super::{MAX_TOKENS, SEED};
use crate::{AppError, EventSink, ModelSettings, RequestError};
use clawhost_core::{Message, ModelDelta, ModelRequest, Origin, Role, Usage};
use clawhost_model::tokens::TemplateArguments;
use clawhost_model::{ChatFormat, LEFT_OUT, LocalModel, LocalModelError, Overlong};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The settings of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSettings {
    /// The system prompt.
    pub system: Option<String>,
    /// Largest number of tokens per answer.
    pub max_tokens: u32,
    /// Sampling temperature. 0: greedy. `None`: the model's own.
    pub temperature: Option<f32>,
    /// The seed: equal seeds give equal answers.
    pub seed: u64,
    /// Arguments of the chat template: whether to think, the date.
    pub arguments: TemplateArguments,
}

impl Default for ChatSettings {
    fn default() -> Self {
        Self {
            system: None,
            max_tokens: MAX_TOKENS,
            temperature: None,
            seed: SEED,
            arguments: TemplateArguments::default(),
        }
    }
}

/// An answer of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The model's reasoning, if there was any. It is no part of the text.
    pub reasoning: Option<String>,
    /// Its whole text.
    pub text: String,
    /// The part of the text that was not streamed.
    pub rest: String,
    /// Why it ended.
    pub finish: String,
    /// Tokens of the turn.
    pub usage: Usage,
    /// Number of oldest messages that were dropped because the context is full.
    pub left_out: u64,
}

/// The result of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The model answered.
    Answered(Answered),
    /// The answer was interrupted. The conversation continues with the part that was streamed.
    Interrupted {
        /// The streamed part.
        heard: String,
    },
}

/// A part of an answer as it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// Of the reasoning, which comes first.
    Reasoning(&'a str),
    /// Of the text.
    Text(&'a str),
}

/// Whether a model's chat template omits the system prompt.
fn ignores_system_prompt(model: &LocalModel) -> bool {
    model.ignores_system_prompt()
}

/// A conversation with a model.
#[derive(Debug)]
pub struct Conversation {
    model: LocalModel,
    settings: ChatSettings,
    messages: Vec<Message>,
}

impl Conversation {
    /// Opens a model, and begins a conversation.
    ///
    /// # Errors
    /// The folder has no model that chats, the device cannot be used, or the chat template omits the system prompt.
    pub fn open(
        source: LocalSource<'_>,
        settings: ChatSettings,
        models: &ModelSettings,
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        let read = read(source, &models.texts, events)?;
        let shown = source.folder.display().to_string();
        let of_folder = |error| RequestError::ModelFolder { folder: shown.clone(), error };
        // A conversation with a person may drop old turns. Their number is reported.
        let format = ChatFormat { overlong: Overlong::LeaveOut, ..read.chat_format(&shown).map_err(of_folder)? };
        let format = format.with_arguments(settings.arguments.clone());
        let device = models.open_device(read.config.parameters(), events)?;
        let model = LocalModel::new(format, Arc::new(read.engine(&device)?));
        if settings.system.is_some() && ignores_system_prompt(&model) {
            return Err(RequestError::SystemPromptUnsupported { what: "the system prompt".to_owned() }.into());
        }
        let system = |text: &String| Message::text(Role::System, Origin::User, text.as_str());
        let messages = settings.system.iter().map(system).collect();
        Ok(Self { model, settings, messages })
    }

    /// Sends a message, and receives the answer. Its text is streamed to `stream`; the future `interrupted` ends it. A
    /// message that is refused does not become part of the conversation.
    ///
    /// # Errors
    /// The model cannot read the message, or its device failed.
    pub async fn turn(
        &mut self,
        said: impl Into<String>,
        mut stream: impl FnMut(Heard<'_>) + Send,
        interrupted: impl Future<Output = ()>,
    ) -> Result<Turn, LocalModelError> {
        self.messages.push(Message::text(Role::User, Origin::User, said));
        let request = ModelRequest {
            messages: self.messages.clone(),
            tools: Vec::new(),
            max_tokens: self.settings.max_tokens,
            temperature: self.settings.temperature,
            seed: Some(self.settings.seed),
            stop: Vec::new(),
            ..ModelRequest::default()
        };
        let mut heard = String::new();
        let mut hear = |delta: ModelDelta| {
            match &delta {
                ModelDelta::Reasoning(text) => stream(Heard::Reasoning(text)),
                ModelDelta::Text(text) => {
                    heard.push_str(text);
                    stream(Heard::Text(text));
                }
                ModelDelta::ToolCall { .. } | ModelDelta::Logprobs(_) | ModelDelta::Usage(_) => {}
            }
            ControlFlow::Continue(())
        };
        let response = tokio::select! {
            response = self.model.answer_streamed(&request, &mut hear) => Some(response),
            () = interrupted => None,
        };
        let response = match response {
            Some(Ok(response)) => response,
            Some(Err(error)) => {
                self.messages.pop();
                return Err(error);
            }
            None => {
                self.messages.push(Message::text(Role::Assistant, Origin::Policy, heard.as_str()));
                return Ok(Turn::Interrupted { heard });
            }
        };
        let text = response.message.plain_text();
        let reasoning = response.reasoning().map(str::to_owned);
        let left_out = response.message.extra.iter().find(|(name, _)| name == LEFT_OUT);
        let left_out = left_out.and_then(|(_, count)| count.parse().ok()).unwrap_or_default();
        self.messages.push(response.message);
        Ok(Turn::Answered(Answered {
            reasoning,
            rest: text.strip_prefix(heard.as_str()).unwrap_or_default().to_owned(),
            text,
            finish: response.finish,
            usage: response.usage,
            left_out,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_models::{NewModel, create_model};
    use crate::{ErrorKind, Silent};
    use std::future::{pending, ready};

    fn open(
        folder: &std::path::Path,
        includes_system_prompt: bool,
        system: Option<&str>,
    ) -> Result<Conversation, AppError> {
        let vocabulary = Some(clawhost_model::Vocabulary::Characters("0123456789+=#".to_owned()));
        let new = NewModel { width: 16, context: 32, vocabulary, overwrite: true, ..NewModel::new(folder) };
        create_model(&NewModel { includes_system_prompt, ..new }).unwrap();
        let settings = ChatSettings { system: system.map(str::to_owned), max_tokens: 6, ..ChatSettings::default() };
        Conversation::open(LocalSource::new(folder), settings, &ModelSettings::default(), &Silent)
    }

    #[tokio::test]
    async fn a_conversation_continues_after_refused_and_interrupted_turns() {
        let folder = tempfile::tempdir().unwrap();
        let mut talk = open(folder.path(), false, None).unwrap();
        let refused = talk.turn("1+x=", |_| {}, pending()).await.unwrap_err();
        assert!(refused.to_string().contains("the alphabet has no 'x'"), "{refused}");
        assert!(talk.messages.is_empty());
        let Turn::Answered(answer) = talk.turn("1+1=", |_| {}, pending()).await.unwrap() else { panic!() };
        assert!(answer.text.ends_with(&answer.rest) && answer.left_out == 0, "{answer:?}");
        talk.turn("2+2=", |_| {}, ready(())).await.unwrap();
        assert_eq!(talk.messages.len(), 4);
    }

    #[tokio::test]
    async fn a_system_prompt_needs_a_template_that_includes_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(folder.path(), false, Some("1")).unwrap_err();
        assert!(
            error.to_string().starts_with("the system prompt would have no effect: the chat template of this model"),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Usage);
        let mut told = open(folder.path(), true, Some("123")).unwrap();
        let mut plain = open(folder.path(), true, None).unwrap();
        let Turn::Answered(told) = told.turn("1+1=", |_| {}, pending()).await.unwrap() else { panic!() };
        let Turn::Answered(plain) = plain.turn("1+1=", |_| {}, pending()).await.unwrap() else { panic!() };
        assert!(told.usage.prompt_tokens > plain.usage.prompt_tokens);
    }
}
