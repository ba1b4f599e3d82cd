//! What is remembered of a client's user, project and agent: its owner reads, searches, adds and forgets it.

use crate::guiding::{MemoryBook, MemoryParty, NewMemory, NotRemembered};
use crate::http::{Inner, Refusal, agent_in, answered, body_of, json, project_in, user_in, wants_no_train};
use crate::pool::parse;
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Response};
use axum::routing::{delete, get};
use clawhost_core::LiveSession;
use clawhost_providers::Dialect;
use clawhost_wire::ErrorKind;
use serde::Deserialize;
use serde_json::json as value;
use std::sync::Arc;

type Shared = State<Arc<Inner>>;

/// Most bytes of a request: a text of its largest size, with room for its escapes.
const BODY_BYTES: usize = 16 << 10;
/// The level that clients cannot write: it belongs to several keys.
const TEAM: &str = "team";

/// The routes.
pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new().route("/v1/memory", get(list).post(add)).route("/v1/memory/{id}", delete(forget))
}

fn memory(gateway: &Inner) -> Result<&dyn MemoryBook, Refusal> {
    let why = "this gateway has no memory";
    gateway.memory.as_deref().ok_or_else(|| Refusal::new(ErrorKind::NotFound, why))
}

fn refused(why: NotRemembered) -> Refusal {
    match why {
        NotRemembered::Refused(why) => Refusal::new(ErrorKind::Unprocessable, why),
        NotRemembered::Unknown => Refusal::new(ErrorKind::NotFound, "there is no memory of this id in your scopes"),
        NotRemembered::Unavailable(why) => {
            tracing::error!("memory: {why}");
            Refusal { retry_after: Some(1), ..Refusal::new(ErrorKind::Unavailable, format!("memory: {why}")) }
        }
    }
}

/// Whose memory a request means: that of the client's key, and of the user, the project and the agent that its headers name.
struct Asker {
    owner: String,
    team: Option<String>,
    session: LiveSession,
    /// Whether its client keeps it out of learning.
    is_kept_out: bool,
}

impl Asker {
    fn of(gateway: &Inner, headers: &HeaderMap) -> Result<Self, Refusal> {
        if gateway.access.admin(headers).is_ok() {
            let why =
                "this is the admin's key: use `clawhost memory`, which reads and writes every scope, or a client's key";
            return Err(Refusal::new(ErrorKind::Forbidden, why));
        }
        let client = gateway.access.admit(headers)?;
        let agent = if client.owner.is_empty() { agent_in(headers) } else { Some(client.owner.clone()) };
        let mut session = LiveSession::new("", agent.unwrap_or_default(), "");
        (session.user, session.project) = (user_in(headers), project_in(headers));
        let is_kept_out = client.no_train || client.no_record || wants_no_train(headers);
        Ok(Self { owner: client.owner, team: client.team, session, is_kept_out })
    }

    fn party(&self) -> MemoryParty<'_> {
        MemoryParty { owner: &self.owner, team: self.team.as_deref(), session: &self.session }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    /// A level of scope.
    scope: Option<String>,
    /// Words that must be in the text.
    q: Option<String>,
}

async fn list(
    State(gateway): Shared,
    which: Result<Query<Which>, QueryRejection>,
    headers: HeaderMap,
) -> Response<Body> {
    let answer = async {
        let asker = Asker::of(&gateway, &headers)?;
        let wrong = |error: QueryRejection| Refusal::new(ErrorKind::InvalidRequest, error.body_text());
        let Which { scope, q } = which.map_err(wrong)?.0;
        let found = memory(&gateway)?.memories(asker.party(), scope.as_deref(), q.as_deref()).await;
        Ok(json(200, &value!({"data": found.map_err(refused)?})))
    };
    answered(Dialect::OpenAi, answer.await)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct New {
    text: String,
    kind: Option<String>,
    scope: Option<String>,
    supersedes: Option<String>,
    expires_days: Option<u32>,
}

async fn add(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, body) = body_of(&gateway, request).await?;
        let asker = Asker::of(&gateway, &headers)?;
        if body.len() > BODY_BYTES {
            return Err(Refusal::new(ErrorKind::TooLarge, format!("a memory has at most {BODY_BYTES} bytes")));
        }
        let New { text, kind, scope, supersedes, expires_days } = parse(&body)?;
        if asker.is_kept_out {
            let why = "nothing is remembered of what is kept out of learning";
            return Err(Refusal::new(ErrorKind::Forbidden, why));
        }
        if scope.as_deref() == Some(TEAM) {
            let why = "scope: what a team remembers, its operator writes (`clawhost memory add`)";
            return Err(Refusal::new(ErrorKind::Forbidden, why));
        }
        if gateway.config.redaction.text(&text).is_some() {
            let why = "text: it has something that is redacted in records, as a key";
            return Err(Refusal::new(ErrorKind::Unprocessable, why));
        }
        let new = NewMemory { level: scope, kind, text, episode: None, supersedes, expires_days };
        let item = memory(&gateway)?.remember(asker.party(), new).await.map_err(refused)?;
        Ok(json(200, &serde_json::to_value(item).unwrap_or_default()))
    };
    answered(Dialect::OpenAi, answer.await)
}

async fn forget(State(gateway): Shared, Path(id): Path<String>, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        let asker = Asker::of(&gateway, &headers)?;
        let scope = memory(&gateway)?.forget(&asker.owner, &id).await.map_err(refused)?;
        Ok(json(200, &value!({"id": id, "scope": scope, "forgotten": true})))
    };
    answered(Dialect::OpenAi, answer.await)
}
