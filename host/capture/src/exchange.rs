//! What is recorded of one request and its answer.

use crate::guided::Guided;
use crate::marks::Mark;
use crate::places::{Evidence, Relation};
use crate::redaction::Redacted;
use clawhost_core::{
    Digest, EpisodeId, LiveSession, LlmIdentity, Message, ModelResponse, RunId, Sampling, ToolSpec, Usage,
};
use serde::{Deserialize, Serialize};

/// Version of the JSON form. A reader refuses another one.
pub const EXCHANGE_FORMAT: u32 = 1;

/// The session from which another one comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeParent {
    /// Its run.
    pub run: RunId,
    /// Its episode.
    pub episode: EpisodeId,
    /// Its answered turns before this session began.
    pub turns: u32,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// With a whole answer.
    Complete(Box<ModelResponse>),
    /// The answer broke off.
    Incomplete {
        /// What came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Box<Message>>,
        /// Why.
        why: String,
    },
    /// With an error.
    Failed {
        /// The HTTP status that the client got.
        status: u16,
        /// Why.
        why: String,
    },
}

impl Answer {
    /// The whole answer, if there is one.
    pub fn complete(&self) -> Option<&ModelResponse> {
        match self {
            Self::Complete(response) => Some(response),
            Self::Incomplete { .. } | Self::Failed { .. } => None,
        }
    }

    /// Tokens that it took, if they are known.
    pub fn usage(&self) -> Usage {
        self.complete().map(|response| response.usage).unwrap_or_default()
    }
}

/// The marks of an answered turn, by which later requests find it after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnMarks {
    /// The request.
    pub asked: Mark,
    /// Everything up to the answer.
    pub rolling: Mark,
    /// The answer alone.
    pub own: Mark,
}

/// What a client says of its session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSession {
    /// Whose sessions it may continue: the name of its key; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The user whom it serves, if it names one: no other user's session is continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The session that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// Its own id of the conversation, which it may share between several: a main one, sub-agents, titles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The prompt group of the trajectory that the named session is in the data pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// The model that a router chose for a session, as an exchange had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routed {
    /// The router.
    pub router: String,
    /// The chosen model, by its name in the router's table.
    pub model: String,
    /// The model that takes over when that one has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// Whether it has taken over.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_escalated: bool,
    /// Failures of tools in the conversation when the router decided.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
}

impl Routed {
    /// The model that is asked.
    pub fn asked(&self) -> &str {
        self.then.as_ref().filter(|_| self.is_escalated).unwrap_or(&self.model)
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// One request of an agent and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// [`EXCHANGE_FORMAT`] of the writer.
    pub format: u32,
    /// The run of the session's episode.
    pub run: RunId,
    /// The session's episode.
    pub episode: EpisodeId,
    /// Its position in the run.
    pub index: u64,
    /// The session.
    pub session: LiveSession,
    /// What the client said of it.
    #[serde(default)]
    pub client: ClientSession,
    /// Position in the session, from 0.
    pub position: u32,
    /// Unix time of the request in milliseconds.
    pub at: u64,
    /// How it relates to its session or the parent.
    pub relation: Relation,
    /// How that is known.
    pub evidence: Evidence,
    /// Sessions that fitted equally well.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub candidates: u32,
    /// Where the session comes from, at its first exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ExchangeParent>,
    /// Whether the client or its key keeps it out of learning.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_train: bool,
    /// Whether the model saw another history than the recorded one: it was cut or rewritten.
    #[serde(default, skip_serializing_if = "is_false")]
    pub context_changed: bool,
    /// The dialect of the request.
    pub dialect: String,
    /// The system text, where it is another than at the exchange before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools, where they are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
    /// Messages that were not recorded before.
    pub messages: Vec<Message>,
    /// Digest of the request's body as it was sent to the model.
    pub request: Digest,
    /// The model that was asked.
    pub model: LlmIdentity,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Version of the policy when the answer began, if one was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<u64>,
    /// The answer.
    pub answer: Answer,
    /// Id of the answer, as the client knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Microseconds until the whole answer was there.
    pub answered_us: u64,
    /// Microseconds until its first part was there, of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<u64>,
    /// The marks of the turn, if it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<TurnMarks>,
    /// Messages that the model did not see, because its context is shorter. The record has them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u32,
    /// What is missing of it by redaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<Redacted>,
    /// The model that a router chose for the session. `None`: the client chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<Routed>,
    /// What the gateway added to the system text. `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guided: Option<Guided>,
}

impl Exchange {
    /// Whether something of its answer is missing by redaction.
    pub fn is_answer_redacted(&self) -> bool {
        self.redacted.as_ref().is_some_and(|redacted| redacted.answer)
    }
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}
