//! The policy: a chat loop over a model. A system prompt, then observations and answers in turn.

use crate::guidance::{Fixed, GroupSlot, Guidance};
use async_trait::async_trait;
use clawhost_core::{
    Digest, Ending, Episode, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Opening, Origin,
    PlaybookRecord, PolicyRecord, Role, Sampling, StateConfig, StateId, TOOL_CALLS, Turn, Usage,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A model with its system prompt, sampling and guidance.
#[derive(Clone)]
pub struct ChatPolicy {
    model: Arc<dyn Llm>,
    system_prompt: Option<String>,
    sampling: Sampling,
    guidance: Option<Arc<dyn Guidance>>,
}

impl std::fmt::Debug for ChatPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatPolicy").field("model", &self.model.identity()).finish_non_exhaustive()
    }
}

impl ChatPolicy {
    /// A policy. Without a system prompt, the environment's system hint is used if there is one.
    pub fn new(model: Arc<dyn Llm>, system_prompt: Option<String>, sampling: Sampling) -> Self {
        Self { model, system_prompt, sampling, guidance: None }
    }

    /// The same policy with this guidance.
    pub fn guided(&self, guidance: Arc<dyn Guidance>) -> Self {
        Self { guidance: Some(guidance), ..self.clone() }
    }

    /// The guidance, if there is one.
    pub fn guidance(&self) -> Option<Arc<dyn Guidance>> {
        self.guidance.clone()
    }

    /// The same policy with another model.
    pub fn with_model(&self, model: Arc<dyn Llm>) -> Self {
        Self { model, ..self.clone() }
    }

    /// Identity of the model.
    pub fn identity(&self) -> LlmIdentity {
        self.model.identity()
    }

    /// Identity of everything that can change an answer, in any slot.
    pub fn state_id(&self) -> StateId {
        self.state(self.guidance.as_ref().map(|guidance| guidance.digest()))
    }

    /// Identity of everything that can change an answer in one slot.
    pub(crate) fn state_at(&self, seat: GroupSlot) -> StateId {
        self.state(self.guidance.as_ref().map(|guidance| guidance.state(seat)))
    }

    fn state(&self, playbook: Option<Digest>) -> StateId {
        StateId::of(&StateConfig {
            model: self.model.identity(),
            system_prompt: self.system_prompt.clone(),
            sampling: self.sampling,
            rendering: playbook.map(|digest| ("playbook".to_owned(), digest.to_string())).into_iter().collect(),
        })
    }

    /// The record of the policy for an episode that did not start. It contains everything that the state id covers, so that
    /// the record is consistent.
    pub(crate) fn record(&self, seed: u64, seat: GroupSlot) -> PolicyRecord {
        let nothing_told = |guidance: &Arc<dyn Guidance>| PlaybookRecord {
            digest: guidance.state(seat),
            text: String::new(),
            shown: Vec::new(),
            drawn: Vec::new(),
            retrieval: None,
            propensity: 0.0,
        };
        PolicyRecord {
            model: self.model.identity(),
            seed,
            system_prompt: self.system_prompt.clone(),
            sampling: self.sampling,
            playbook: self.guidance.as_ref().map(nothing_told),
        }
    }

    /// The same policy with a model that repeats the answers of these turns, and then has no more.
    pub(crate) fn saying(&self, turns: &[Turn]) -> Self {
        let answers = turns.iter().map(again).collect();
        let model = Recorded { identity: self.model.identity(), answers: Mutex::new(answers), full: false };
        Self { model: Arc::new(model), ..self.clone() }
    }

    /// The policy of a recorded episode: it repeats the recorded answers. With `untaken` also the answer that led to no
    /// turn.
    pub(crate) fn replaying(episode: &Episode, untaken: bool) -> Self {
        let turns = episode.turns.iter().map(again);
        let last =
            episode.untaken.iter().filter(|_| untaken).map(|last| answer(&last.action, last.usage, &last.finish));
        let record = &episode.policy;
        let model = Recorded {
            identity: record.model.clone(),
            answers: Mutex::new(turns.chain(last).collect()),
            full: episode.ending == Ending::Truncated(CONTEXT_FULL.to_owned()),
        };
        let mut policy = Self::new(Arc::new(model), record.system_prompt.clone(), record.sampling);
        let mut base = record.system_prompt.clone();
        if let Some(playbook) = &record.playbook {
            policy.guidance = Some(Arc::new(Fixed(playbook.clone())));
            base = base.map(|whole| without(&whole, &playbook.text).to_owned()).filter(|base| !base.is_empty());
        }
        // The request digests depend on whether the first text came from the operator, from the environment, or from
        // neither. The state id identifies the right one.
        let prompts = [base, None, Some(String::new())];
        let candidates = prompts.map(|system_prompt| Self { system_prompt, ..policy.clone() });
        candidates.into_iter().find(|one| one.state_at(GroupSlot::default()) == episode.state_id).unwrap_or(policy)
    }

    /// The same policy in mid-episode, with its own seed from here on.
    pub(crate) fn converse_on(
        &self,
        opening: &Opening,
        seed: u64,
        seat: GroupSlot,
        turns: &[Turn],
        pending: &[Message],
    ) -> Conversation {
        let mut conversation = self.converse(opening, seed, seat);
        let observed = turns.iter().skip(1).map(|turn| turn.observation.as_slice()).chain([pending]);
        for (turn, observation) in turns.iter().zip(observed) {
            conversation.push(turn.action.clone());
            conversation.extend(&turn.tool_results);
            conversation.extend(observation);
        }
        conversation
    }

    /// Starts the conversation of one episode.
    pub(crate) fn converse(&self, opening: &Opening, seed: u64, seat: GroupSlot) -> Conversation {
        let base = self.system_prompt.clone().or_else(|| opening.system_hint.clone());
        let base = base.filter(|text| !text.is_empty());
        // The environment's text keeps its origin even if a playbook follows it.
        let origin = if self.system_prompt.is_some() || base.is_none() { Origin::Host } else { Origin::Environment };
        let playbook = self.guidance.as_ref().map(|guidance| guidance.guide(seat, &shown(opening)));
        let system = with(base, playbook.as_ref().map_or("", |playbook| &playbook.text));
        let mut conversation = Conversation {
            model: self.model.clone(),
            record: PolicyRecord { system_prompt: system.clone(), playbook, ..self.record(seed, seat) },
            digest: Digest::of(b""),
            request: ModelRequest {
                messages: Vec::new(),
                tools: opening.tools.clone(),
                max_tokens: self.sampling.max_tokens,
                temperature: self.sampling.temperature,
                top_p: self.sampling.top_p,
                seed: Some(seed),
                stop: Vec::new(),
                ..ModelRequest::default()
            },
        };
        // Settings and tools first, then every message: the digest of a request covers everything that was sent.
        let settings = serde_json::to_vec(&conversation.request).unwrap_or_default();
        conversation.digest = Digest::of(&settings);
        if let Some(text) = system {
            conversation.push(Message::text(Role::System, origin, text));
        }
        conversation.extend(&opening.observation);
        conversation
    }
}

/// Separator between base prompt and playbook.
const SEPARATOR: &str = "\n\n";

/// A base prompt followed by a playbook.
fn with(base: Option<String>, playbook: &str) -> Option<String> {
    match base {
        base if playbook.is_empty() => base,
        None => Some(playbook.to_owned()),
        Some(base) => Some(format!("{base}{SEPARATOR}{playbook}")),
    }
}

/// The base prompt without the playbook.
fn without<'a>(whole: &'a str, playbook: &str) -> &'a str {
    let base = whole.strip_suffix(playbook).unwrap_or(whole);
    if playbook.is_empty() { base } else { base.strip_suffix(SEPARATOR).unwrap_or(base) }
}

/// The first text of a task, by which lessons are retrieved.
fn shown(opening: &Opening) -> String {
    opening.observation.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n")
}

/// The recorded answer of a turn.
fn again(turn: &Turn) -> ModelResponse {
    ModelResponse {
        tokens: turn.tokens.clone(),
        answered_by: turn.answered_by.clone(),
        logprobs: turn.logprobs.clone(),
        ignored: turn.ignored.clone(),
        ..answer(&turn.action, turn.usage, &turn.finish)
    }
}

fn answer(message: &Message, usage: Usage, finish: &str) -> ModelResponse {
    ModelResponse::new(message.clone(), usage, finish)
}

/// Reason of a truncation because the conversation exceeds the model's context.
pub(crate) const CONTEXT_FULL: &str = "the model's context is full";

/// A model that repeats recorded answers.
struct Recorded {
    identity: LlmIdentity,
    answers: Mutex<VecDeque<ModelResponse>>,
    /// The recorded conversation ended because the context was full.
    full: bool,
}

#[async_trait]
impl Llm for Recorded {
    fn identity(&self) -> LlmIdentity {
        self.identity.clone()
    }

    async fn complete(&self, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let next = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.ok_or_else(|| match self.full {
            true => ModelError::TooLong(CONTEXT_FULL.into()),
            false => ModelError::Unavailable("the record ends here".into()),
        })
    }
}

/// A conversation in progress. Messages are appended and never dropped.
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

    /// Appends messages of the environment.
    pub(crate) fn extend(&mut self, messages: &[Message]) {
        messages.iter().for_each(|message| self.push(message.clone()));
    }

    /// Digest of the request for the next answer.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Requests the next action and appends it.
    pub(crate) async fn act(&mut self) -> Result<ModelResponse, ModelError> {
        let mut response = self.model.complete(&self.request).await?;
        let calls = response.message.tool_calls.len();
        if calls > TOOL_CALLS {
            return Err(ModelError::InvalidResponse(format!(
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
