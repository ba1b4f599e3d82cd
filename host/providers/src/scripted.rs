//! A model that answers from a list.

use crate::ProviderError;
use async_trait::async_trait;
use clawhost_core::{
    Digest, IgnoredRequest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Role, Usage,
    read_script, script_turn,
};
use clawhost_files::Refused;
use std::path::Path;

/// Longest script, in bytes: a hundred thousand turns of a long line each.
const SCRIPT_BYTES: u64 = 16 << 20;

/// Answers each request with the turn of the script at the index of the turn, cyclically: the first answer of a conversation is the
/// first turn of the script.
#[derive(Debug, Clone)]
pub struct Scripted {
    answers: Vec<Message>,
    version: String,
}

impl Scripted {
    /// A model for a list of answers; none if the list is empty.
    pub fn new(answers: Vec<Message>) -> Option<Self> {
        let turns: Vec<String> = answers.iter().map(script_turn).collect();
        let version = Digest::of(turns.join("\n").as_bytes()).to_string();
        (!answers.is_empty()).then_some(Self { answers, version })
    }

    /// A model for a file that holds a script, as [`read_script`] reads it: one turn per line, of text or of tool calls.
    ///
    /// # Errors
    /// The file cannot be read, is empty, is too long, or has a line that is neither text nor a call.
    pub fn from_file(path: &Path) -> Result<Self, ProviderError> {
        let name = path.display().to_string();
        let unread = |error| ProviderError::Script(name.clone(), error);
        let text = clawhost_files::read_text(path, SCRIPT_BYTES).map_err(|error| match Refused::of(&error) {
            Some(Refused::TooLarge { .. }) => ProviderError::ScriptTooLong(name.clone(), SCRIPT_BYTES),
            _ => unread(error),
        })?;
        let answers = read_script(&text).map_err(|error| ProviderError::ScriptLine(name.clone(), error))?;
        Self::new(answers).ok_or(ProviderError::EmptyScript(name))
    }
}

#[async_trait]
impl Llm for Scripted {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "script".into(), model: "script".into(), version: self.version.clone() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let said = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let mut message = match self.answers.iter().cycle().nth(said % self.answers.len().max(1)) {
            Some(answer) => answer.clone(),
            None => return Err(ModelError::Unavailable("the script is empty".into())),
        };
        for (index, call) in message.tool_calls.iter_mut().enumerate() {
            call.id = format!("call-{said}-{index}");
        }
        let finish = if message.tool_calls.is_empty() { "stop" } else { "tool_calls" };
        let ignored = IgnoredRequest::without_sampling(request);
        Ok(ModelResponse { ignored, ..ModelResponse::new(message, Usage::default(), finish) })
    }
}
