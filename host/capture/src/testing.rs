//! Records for tests.

use crate::exchange::{Answer, ClientSession, EXCHANGE_FORMAT, Exchange};
use crate::places::{Evidence, Relation};
use clawhost_core::{
    Digest, EpisodeId, LiveSession, LlmIdentity, Message, ModelResponse, Origin, Role, RunId, Sampling, ToolCall, Usage,
};

pub(crate) fn message(role: Role, text: &str) -> Message {
    Message::text(role, Origin::User, text)
}

/// An answer that calls the tool `f` with these ids.
pub(crate) fn says(text: &str, calls: &[&str]) -> Answer {
    let call = |id: &&str| ToolCall { id: (*id).into(), name: "f".into(), arguments: "{}".into(), extra: vec![] };
    let tool_calls = calls.iter().map(call).collect();
    let message = Message { tool_calls, ..Message::text(Role::Assistant, Origin::Policy, text) };
    Answer::Complete(Box::new(ModelResponse::new(message, Usage::default(), "stop")))
}

/// An exchange at a position of one session.
pub(crate) fn exchange(position: u32, messages: Vec<Message>, answer: Answer) -> Exchange {
    Exchange {
        format: EXCHANGE_FORMAT,
        run: RunId("run-1".into()),
        episode: EpisodeId("ep-1".into()),
        index: 4,
        session: LiveSession::new("s", "a", "m"),
        client: ClientSession::default(),
        position,
        at: 1,
        relation: if position == 0 { Relation::Opens } else { Relation::Continues },
        evidence: Evidence::History,
        candidates: 1,
        parent: None,
        no_train: false,
        context_changed: false,
        dialect: "openai".into(),
        system: (position == 0).then(|| "be brief".into()),
        tools: (position == 0).then(Vec::new),
        messages,
        request: Digest::of(&position.to_be_bytes()),
        model: LlmIdentity { provider: "openai".into(), model: "m".into(), version: String::new() },
        sampling: Sampling::default(),
        policy_version: None,
        answer,
        response_id: None,
        answered_us: 5,
        first_us: None,
        marks: None,
        redacted: None,
        cut: 0,
        routed: None,
        guided: None,
    }
}
