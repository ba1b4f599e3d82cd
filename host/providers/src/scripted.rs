//! A model that answers from a list.

use crate::ProviderError;
use async_trait::async_trait;
use clawhost_core::{Digest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role, Usage};
use std::path::Path;

/// Answers each request with the line at the position of the turn: the first answer of a conversation with the first
/// line, and so on; past the end it begins again.
#[derive(Debug, Clone)]
pub struct Scripted {
    answers: Vec<String>,
    version: String,
}

impl Scripted {
    /// A model for a list of answers; none if the list is empty.
    pub fn new(answers: Vec<String>) -> Option<Self> {
        let version = Digest::of(answers.join("\n").as_bytes()).to_string();
        (!answers.is_empty()).then_some(Self { answers, version })
    }

    /// A model for a file with one answer per line; `\n` in a line stands for a line end.
    ///
    /// # Errors
    /// The file cannot be read or is empty.
    pub fn from_file(path: &Path) -> Result<Self, ProviderError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ProviderError::Script(name.clone(), error))?;
        let answers = text.lines().map(|line| line.replace("\\n", "\n")).collect();
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
        let text = self.answers.iter().cycle().nth(said % self.answers.len().max(1)).cloned().unwrap_or_default();
        Ok(ModelResponse::new(Message::text(Role::Assistant, Origin::Policy, text), Usage::default(), "stop"))
    }
}
