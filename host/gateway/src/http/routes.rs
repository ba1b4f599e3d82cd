//! The routes.

use super::answer::{Refusal, json};
use super::exchange::{self, Call};
use super::hints::plain;
use super::serve::Inner;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use clawhost_providers::Dialect;
use clawhost_wire::ErrorKind;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::json as value;
use std::sync::Arc;

type Shared = State<Arc<Inner>>;

/// The routes of a gateway.
pub(crate) fn router(gateway: Arc<Inner>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/messages", post(messages))
        .route("/v1/models", get(models))
        .route("/s/{session}/v1/chat/completions", post(chat_in))
        .route("/s/{session}/v1/messages", post(messages_in))
        .route("/s/{session}/v1/models", get(models))
        .route("/s/{session}/end", post(end_session))
        .route("/healthz", get(healthy))
        .route("/readyz", get(healthy))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .with_state(gateway)
}

/// The dialect in which errors are answered where the path does not tell: Anthropic's clients name their version.
fn dialect_of(headers: &HeaderMap) -> Dialect {
    if headers.contains_key("anthropic-version") { Dialect::Anthropic } else { Dialect::OpenAi }
}

async fn chat(State(gateway): Shared, request: Request) -> Response<Body> {
    call(&gateway, Dialect::OpenAi, "/chat/completions", None, request).await
}

async fn chat_in(State(gateway): Shared, Path(session): Path<String>, request: Request) -> Response<Body> {
    call(&gateway, Dialect::OpenAi, "/chat/completions", Some(session), request).await
}

async fn messages(State(gateway): Shared, request: Request) -> Response<Body> {
    call(&gateway, Dialect::Anthropic, "/messages", None, request).await
}

async fn messages_in(State(gateway): Shared, Path(session): Path<String>, request: Request) -> Response<Body> {
    call(&gateway, Dialect::Anthropic, "/messages", Some(session), request).await
}

/// A request to a model.
async fn call(
    gateway: &Arc<Inner>,
    dialect: Dialect,
    path: &'static str,
    named: Option<String>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let checked = gateway.guard.address(&parts.headers).and_then(|()| gateway.guard.content(&parts.headers));
    if let Err(refusal) = checked {
        return refusal.answer(dialect);
    }
    if named.as_deref().is_some_and(|name| plain(name).is_none()) {
        return Refusal::new(ErrorKind::InvalidRequest, "the session's name must be one short line").answer(dialect);
    }
    let _place = match gateway.places.clone().try_acquire_owned() {
        Ok(place) => place,
        Err(_) => {
            let refusal = Refusal::new(ErrorKind::TooMany, "too many requests are under way; try again");
            return Refusal { retry_after: Some(1), ..refusal }.answer(dialect);
        }
    };
    let body = match read_body(gateway, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal.answer(dialect),
    };
    let call = Call { dialect, path, headers: parts.headers, named, owner: String::new(), body };
    exchange::answer(gateway, call).await
}

/// The body, up to its largest size and within its time.
async fn read_body(gateway: &Inner, body: Body) -> Result<Bytes, Refusal> {
    let limits = &gateway.config.limits;
    let read = tokio::time::timeout(limits.body_time, Limited::new(body, limits.body_bytes).collect()).await;
    match read {
        Err(_) => Err(Refusal::new(ErrorKind::InvalidRequest, "the body took too long")),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let why = format!("the body is longer than {} bytes", limits.body_bytes);
            Err(Refusal::new(ErrorKind::TooLarge, why))
        }
        Ok(Err(_)) => Err(Refusal::new(ErrorKind::InvalidRequest, "the body broke off")),
    }
}

async fn models(State(gateway): Shared, request: Request) -> Response<Body> {
    let dialect = dialect_of(request.headers());
    if let Err(refusal) = gateway.guard.address(request.headers()) {
        return refusal.answer(dialect);
    }
    let listed = |alias: &str| match dialect {
        Dialect::OpenAi => value!({"id": alias, "object": "model", "created": 0, "owned_by": "clawhost"}),
        Dialect::Anthropic => {
            value!({"id": alias, "type": "model", "display_name": alias, "created_at": "1970-01-01T00:00:00Z"})
        }
    };
    let data: Vec<_> = gateway.models.aliases().map(listed).collect();
    let (first, last) = (gateway.models.aliases().next(), gateway.models.aliases().last());
    json(
        200,
        &match dialect {
            Dialect::OpenAi => value!({"object": "list", "data": data}),
            Dialect::Anthropic => {
                value!({"data": data, "has_more": false, "first_id": first, "last_id": last})
            }
        },
    )
}

/// Ends a session: it becomes an episode.
async fn end_session(State(gateway): Shared, Path(session): Path<String>, request: Request) -> Response<Body> {
    if let Err(refusal) = gateway.guard.address(request.headers()) {
        return refusal.answer(Dialect::OpenAi);
    }
    match gateway.recorder.end("", &session) {
        0 => Refusal::new(ErrorKind::NotFound, "there is no open session of this name").answer(Dialect::OpenAi),
        ended => json(200, &value!({"ended": ended})),
    }
}

async fn healthy(State(gateway): Shared, request: Request) -> Response<Body> {
    match gateway.guard.address(request.headers()) {
        Ok(()) => json(200, &value!({"status": "ok"})),
        Err(refusal) => refusal.answer(Dialect::OpenAi),
    }
}

async fn nothing(request: Request) -> Response<Body> {
    let path: String = request.uri().path().chars().take(200).collect();
    let message = format!("there is no {} {path} here", request.method());
    Refusal::new(ErrorKind::NotFound, message).answer(dialect_of(request.headers()))
}
