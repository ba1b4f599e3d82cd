//! A record of the spool: what the store needs to know on a first line, and the documents behind it, a line each.

use super::begun::CLIENT_GONE;
use super::guides::Guides;
use super::responses::StoredResponse;
use super::routes::Routes;
use crate::http::is_passing;
use crate::observe::SessionEvent;
use clawhost_capture::{Answer, ClientSession, Exchange, Relation};
use clawhost_core::{
    EpisodeId, ExchangeOutcome, ExchangeRow, LiveSession, OpenEpisode, Pooled, ResponseChange, ResponseRow,
    RoutedExchange, RunId, SessionDraw, Usage,
};
use serde::{Deserialize, Serialize};

/// What a session is called in records.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) run: RunId,
    pub(crate) episode: EpisodeId,
    pub(crate) index: u64,
    pub(crate) session: LiveSession,
    /// Unix time in milliseconds.
    pub(crate) opened_at: u64,
    /// What routers chose for it.
    pub(crate) routes: Routes,
    /// What was added to its system text.
    pub(crate) guides: Guides,
}

impl Label {
    /// Its name in decisions, as `RUN/EPISODE`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.run, self.episode)
    }

    /// Its session as events name it.
    pub(crate) fn event(&self) -> SessionEvent {
        SessionEvent {
            session: self.session.session.clone(),
            agent: self.session.agent.clone(),
            alias: self.session.alias.clone(),
            run: self.run.clone(),
            episode: self.episode.clone(),
        }
    }
}

/// What the first record of a session has beside its exchange.
#[derive(Debug, Clone, Default)]
pub(crate) struct First {
    /// The decision of a router about the session, if no record holds it yet.
    pub(crate) decision: Option<String>,
    /// What was drawn for the session.
    pub(crate) drawn: Option<SessionDraw>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "one is written or read at a time")]
enum Head {
    /// An exchange, on the next line. A response that can be read later is on the line behind it.
    Exchange {
        run: RunId,
        episode: EpisodeId,
        index: u64,
        session: LiveSession,
        opened_at: u64,
        position: u32,
        at: u64,
        outcome: u8,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<(String, String)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pooled: Option<Box<Pooled>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        routed: Option<Box<RoutedExchange>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drawn: Option<Box<SessionDraw>>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        owner: String,
        /// Id of the answer, as the client knows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// Whether its episode is beside a conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aside: bool,
    },
    /// A client deleted a response.
    Deleted { owner: String, id: String },
}

/// The bytes of an exchange, with its response if that can be read later by an owner and an id.
pub(crate) fn write(
    label: &Label,
    exchange: &Exchange,
    first: &First,
    stored: Option<(&StoredResponse, &str, &str)>,
) -> serde_json::Result<Vec<u8>> {
    let outcome = match exchange.answer {
        Answer::Failed { .. } => 0,
        Answer::Incomplete { .. } => 1,
        Answer::Complete(_) => 2,
    };
    let head = Head::Exchange {
        run: label.run.clone(),
        episode: label.episode.clone(),
        index: label.index,
        session: label.session.clone(),
        opened_at: label.opened_at,
        position: exchange.position,
        at: exchange.at,
        outcome,
        response: stored.map(|(_, owner, id)| (owner.to_owned(), id.to_owned())),
        pooled: pooled(exchange).map(Box::new),
        routed: routed(exchange, first.decision.as_deref()).map(Box::new),
        drawn: first.drawn.clone().map(Box::new),
        owner: exchange.client.owner.clone(),
        answer: exchange.response_id.clone(),
        aside: matches!(exchange.relation, Relation::Side | Relation::Repeats),
    };
    let mut bytes = Vec::with_capacity(2048);
    serde_json::to_writer(&mut bytes, &head)?;
    bytes.push(b'\n');
    serde_json::to_writer(&mut bytes, exchange)?;
    if let Some((stored, ..)) = stored {
        bytes.push(b'\n');
        serde_json::to_writer(&mut bytes, stored)?;
    }
    Ok(bytes)
}

/// The place in the data pool of an exchange of a trajectory.
fn pooled(exchange: &Exchange) -> Option<Pooled> {
    let ClientSession { owner, named, group, .. } = &exchange.client;
    Some(Pooled {
        owner: owner.clone(),
        trajectory: named.clone()?,
        group: group.clone()?,
        policy_version: exchange.policy_version,
    })
}

/// What an exchange adds to the decision of a router about its session. A client that goes or asks for the impossible is no failure of
/// the model.
fn routed(exchange: &Exchange, decision: Option<&str>) -> Option<RoutedExchange> {
    let routed = exchange.routed.as_ref()?;
    let Usage { prompt_tokens, completion_tokens, .. } = exchange.answer.usage();
    let tokens = prompt_tokens.saturating_add(completion_tokens);
    let has_failed = match &exchange.answer {
        Answer::Complete(_) => false,
        Answer::Failed { status, .. } => *status >= 500 || is_passing(*status),
        Answer::Incomplete { why, .. } => why != CLIENT_GONE,
    };
    Some(RoutedExchange {
        router: routed.router.clone(),
        decision: decision.map(str::to_owned),
        has_failed,
        tokens: if routed.is_escalated { [0, tokens] } else { [tokens, 0] },
    })
}

/// The bytes of a deletion.
pub(crate) fn deletion(owner: &str, id: &str) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Head::Deleted { owner: owner.to_owned(), id: id.to_owned() })
}

/// What a record says.
pub(crate) struct Read {
    pub(crate) exchange: Option<ExchangeRow>,
    pub(crate) response: Option<ResponseChange>,
}

/// Reads a record. `None`: it is no record of this program.
pub(crate) fn read(record: Vec<u8>) -> Option<Read> {
    let text = String::from_utf8(record).ok()?;
    let mut lines = text.split('\n');
    match serde_json::from_str(lines.next()?).ok()? {
        Head::Deleted { owner, id } => {
            Some(Read { exchange: None, response: Some(ResponseChange::Deleted { owner, id }) })
        }
        Head::Exchange {
            run,
            episode,
            index,
            session,
            opened_at,
            position,
            at,
            outcome,
            response,
            pooled,
            routed,
            drawn,
            owner,
            answer,
            aside,
        } => {
            let document = lines.next()?.to_owned();
            let stored = |((owner, id), document): ((String, String), &str)| {
                let document = document.to_owned();
                ResponseChange::Stored(ResponseRow { owner, id, run: run.clone(), at, document })
            };
            let response = response.zip(lines.next()).map(stored);
            let outcome = match outcome {
                0 => ExchangeOutcome::Failed,
                1 => ExchangeOutcome::Incomplete,
                _ => ExchangeOutcome::Complete,
            };
            let episode = OpenEpisode { run, id: episode, index, session, opened_at };
            let (pooled, routed) = (pooled.map(|pooled| *pooled), routed.map(|routed| *routed));
            let (answer_id, is_main, drawn) = (answer, !aside, drawn.map(|drawn| *drawn));
            let exchange = ExchangeRow {
                episode,
                position,
                at,
                outcome,
                document,
                pooled,
                routed,
                drawn,
                owner,
                answer_id,
                is_main,
            };
            Some(Read { exchange: Some(exchange), response })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exchange() -> Vec<u8> {
        let session = serde_json::json!({"session": "s", "agent": "a", "alias": "m"});
        let head = serde_json::json!({"exchange": {
            "run": "run-1", "episode": "ep-1", "index": 0, "session": session, "opened_at": 1, "position": 0, "at": 2, "outcome": 2,
            "response": ["owner", "resp_1"],
        }});
        format!("{head}\n{{\"format\":1}}\n{{\"object\":1}}").into_bytes()
    }

    #[test]
    fn a_record_has_its_documents_on_their_lines() {
        let read = read(exchange()).unwrap();
        assert_eq!(read.exchange.unwrap().document, "{\"format\":1}");
        let Some(ResponseChange::Stored(row)) = read.response else { panic!("a stored response") };
        assert_eq!((row.owner.as_str(), row.id.as_str(), row.document.as_str()), ("owner", "resp_1", "{\"object\":1}"));
        assert!(super::read(b"{\"other\":{}}".to_vec()).is_none());
    }

    proptest! {
        #[test]
        fn damaged_records_are_read_or_refused(
            deleted in any::<bool>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            most in any::<prop::sample::Index>(),
        ) {
            let mut bytes = if deleted { deletion("owner", "resp_1").unwrap() } else { exchange() };
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(most.index(bytes.len() + 1));
            if let Some(read) = read(bytes) {
                prop_assert!(read.exchange.is_some() || read.response.is_some());
            }
        }
    }
}
