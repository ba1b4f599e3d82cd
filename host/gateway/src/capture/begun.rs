//! The record of a request before it is answered.

use super::record::Label;
use clawhost_capture::{Answer, ClientSession, EXCHANGE_FORMAT, Exchange, ExchangeParent, Placed};
use clawhost_core::{Digest, LlmIdentity, Message, ModelRequest, Role, Sampling};

/// Why the record of a request whose client went has no whole answer.
pub(super) const CLIENT_GONE: &str = "the client has gone";

/// The record of a request at its place. Until it has ended, it says that the client has gone.
#[allow(clippy::too_many_arguments, reason = "the parts of a record, used once")]
pub(crate) fn exchange_of(
    placed: &Placed<Label>,
    client: ClientSession,
    dialect: &'static str,
    model: LlmIdentity,
    request: &ModelRequest,
    digest: Digest,
    no_train: bool,
    at: u64,
) -> Exchange {
    let new = placed.new_messages.iter().filter_map(|at| request.messages.get(*at));
    let parent = placed.parent.as_ref().map(|(label, turns)| ExchangeParent {
        run: label.run.clone(),
        episode: label.episode.clone(),
        turns: *turns,
    });
    Exchange {
        format: EXCHANGE_FORMAT,
        run: placed.label.run.clone(),
        episode: placed.label.episode.clone(),
        index: placed.label.index,
        session: placed.label.session.clone(),
        client,
        position: placed.position,
        at,
        relation: placed.relation,
        evidence: placed.evidence,
        candidates: placed.candidates,
        parent,
        no_train,
        context_changed: placed.context_changed,
        dialect: dialect.to_owned(),
        system: placed.system_changed.then(|| system_text(&request.messages)),
        tools: placed.tools_changed.then(|| request.tools.clone()),
        messages: new.filter(|message| message.role != Role::System).cloned().collect(),
        request: digest,
        model,
        sampling: Sampling { temperature: request.temperature, top_p: request.top_p, max_tokens: request.max_tokens },
        policy_version: None,
        answer: Answer::Incomplete { message: None, why: CLIENT_GONE.to_owned() },
        response_id: None,
        answered_us: 0,
        first_us: None,
        marks: None,
        redacted: None,
        cut: 0,
        routed: None,
        guided: None,
    }
}

/// The text of system messages.
fn system_text(messages: &[Message]) -> String {
    let texts: Vec<String> =
        messages.iter().filter(|message| message.role == Role::System).map(Message::plain_text).collect();
    texts.join("\n\n")
}
