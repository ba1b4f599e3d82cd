//! The policy: a chat loop over a model. System prompt, then observations and answers in turn.

use clawhost_core::{
    Digest, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Opening, Origin, PolicyRecord, Role,
    Sampling, StateConfig, StateId, TOOL_CALLS,
};
use std::sync::Arc;

/// A model with what is always said to it.
#[derive(Clone)]
pub struct ChatPolicy {
    model: Arc<dyn Llm>,
    system_prompt: Option<String>,
    sampling: Sampling,
}

impl std::fmt::Debug for ChatPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatPolicy").field("model", &self.model.identity()).finish_non_exhaustive()
    }
}

impl ChatPolicy {
    /// A policy. Without a system prompt the environment's own hint is used, where it gives one.
    pub fn new(model: Arc<dyn Llm>, system_prompt: Option<String>, sampling: Sampling) -> Self {
        Self { model, system_prompt, sampling }
    }

    /// Which model acts.
    pub fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    /// The identity of everything that can change an answer.
    pub fn state_id(&self) -> StateId {
        StateId::of(&StateConfig {
            model: self.model.identity(),
            system_prompt: self.system_prompt.clone(),
            sampling: self.sampling,
            rendering: Vec::new(),
        })
    }

    /// A conversation about one episode.
    pub(crate) fn converse(&self, opening: &Opening, seed: u64) -> Conversation {
        let system = self.system_prompt.clone().or_else(|| opening.system_hint.clone());
        let system = system.filter(|text| !text.is_empty());
        let origin = if self.system_prompt.is_some() { Origin::Host } else { Origin::Environment };
        let mut conversation = Conversation {
            model: self.model.clone(),
            record: PolicyRecord { model: self.model.identity(), seed, system_prompt: system.clone() },
            digest: Digest::of(b""),
            request: ModelRequest {
                messages: Vec::new(),
                tools: opening.tools.clone(),
                max_tokens: self.sampling.max_tokens,
                temperature: self.sampling.temperature,
                seed: Some(seed),
                stop: Vec::new(),
            },
        };
        // Settings and tools first, then every message as it comes: the digest of a request covers all that was sent.
        let settings = serde_json::to_vec(&conversation.request).unwrap_or_default();
        conversation.digest = Digest::of(&settings);
        if let Some(text) = system {
            conversation.push(Message::text(Role::System, origin, text));
        }
        conversation.extend(&opening.observation);
        conversation
    }
}

/// A conversation in progress. It grows; nothing said is ever dropped.
pub(crate) struct Conversation {
    model: Arc<dyn Llm>,
    pub(crate) record: PolicyRecord,
    digest: Digest,
    request: ModelRequest,
}

impl Conversation {
    fn push(&mut self, message: Message) {
        self.digest = self.digest.extended(&serde_json::to_vec(&message).unwrap_or_default());
        self.request.messages.push(message);
    }

    /// New messages from the environment.
    pub(crate) fn extend(&mut self, messages: &[Message]) {
        messages.iter().for_each(|message| self.push(message.clone()));
    }

    /// Digest of the request that the next answer answers.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Asks for the next action and remembers it.
    pub(crate) async fn act(&mut self) -> Result<ModelResponse, ModelError> {
        let mut response = self.model.complete(&self.request).await?;
        let calls = response.message.tool_calls.len();
        if calls > TOOL_CALLS {
            return Err(ModelError::Garbage(format!(
                "it calls {calls} tools at once; at most {TOOL_CALLS} are allowed"
            )));
        }
        response.message.origin = Origin::Policy;
        response.message.role = Role::Assistant;
        crate::tools::with_distinct_ids(&mut response.message);
        self.push(response.message.clone());
        Ok(response)
    }
}
