//! The routes.

use super::access::Client;
use super::answer::{Refusal, json};
use super::exchange::{self, Call};
use super::held::hold;
use super::hints::{no_trajectory, plain, user_in};
use super::serve::Inner;
use super::shape::Shape;
use super::{pass, responses as stored, tokens};
use crate::models::ServedModel;
use crate::observe::{Observation, Route, monitoring, observed};
use crate::{dashboard, feedback, ingest, memory, pool};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use bytes::Bytes;
use clawhost_providers::Dialect;
use clawhost_wire::ErrorKind;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde_json::json as value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

type Shared = State<Arc<Inner>>;

/// Largest form of the page in bytes: a correction with room for its escapes.
const FORM_BYTES: usize = 16 << 10;

/// The routes of a gateway.
pub(crate) fn router(gateway: Arc<Inner>) -> Router {
    let named = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/responses", post(responses).get(no_socket))
        .route("/v1/responses/{id}", get(response).delete(delete_response))
        .route("/v1/responses/{id}/input_items", get(input_items))
        .route("/v1/responses/{id}/cancel", post(cancel_response))
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/generate", post(generate))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/v1/models", get(models));
    Router::new()
        .nest("/s/{session}", named.clone())
        .nest("/{session}/{group}", named.clone())
        .merge(named)
        .merge(pool::native_routes())
        .merge(pool::trainer_routes())
        .merge(pool::claw_r1_routes())
        .merge(pool::judge_routes())
        .merge(ingest::routes())
        .merge(feedback::routes())
        .merge(memory::routes())
        .merge(dashboard::routes())
        .route("/generate", post(generate))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/s/{session}/end", post(end_session))
        .route("/healthz", get(healthy))
        .route("/readyz", get(healthy))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(from_fn_with_state(gateway.clone(), observed))
        .merge(monitoring())
        .merge(dashboard::event_routes())
        .with_state(gateway)
}

/// What an address names, by the name of the part: a session, a response.
type Names = Path<HashMap<String, String>>;

/// The dialect in which errors are answered where the path does not tell: Anthropic's clients name their version.
fn dialect_of(headers: &HeaderMap) -> Dialect {
    if headers.contains_key("anthropic-version") { Dialect::Anthropic } else { Dialect::OpenAi }
}

async fn chat(State(gateway): Shared, Path(names): Names, request: Request) -> Response<Body> {
    call(&gateway, Shape::Chat, names, request).await
}

async fn completions(State(gateway): Shared, Path(names): Names, request: Request) -> Response<Body> {
    call(&gateway, Shape::Completions, names, request).await
}

async fn responses(State(gateway): Shared, Path(names): Names, request: Request) -> Response<Body> {
    call(&gateway, Shape::Responses, names, request).await
}

/// Codex tries a web socket first, and goes on over HTTP at once if it gets this status.
async fn no_socket() -> Response<Body> {
    let mut answer = Refusal::new(ErrorKind::InvalidRequest, "responses are requested by POST").answer(Dialect::OpenAi);
    *answer.status_mut() = StatusCode::UPGRADE_REQUIRED;
    answer
}

async fn messages(State(gateway): Shared, Path(names): Names, request: Request) -> Response<Body> {
    call(&gateway, Shape::Messages, names, request).await
}

/// A request to a model.
async fn call(gateway: &Arc<Inner>, shape: Shape, names: HashMap<String, String>, request: Request) -> Response<Body> {
    match admitted_call(gateway, shape, names, request).await {
        Ok((call, place)) => hold(exchange::answer(gateway, call).await, place),
        Err(refusal) => refusal.answer(shape.dialect()),
    }
}

/// A request that may be answered, with what its address names.
async fn admitted_call(
    gateway: &Arc<Inner>,
    shape: Shape,
    mut names: HashMap<String, String>,
    request: Request,
) -> Result<(Call, OwnedSemaphorePermit), Refusal> {
    let (named, group) = (names.remove("session"), names.remove("group"));
    if [&named, &group].into_iter().flatten().any(|name| plain(name).is_none()) {
        let why = "the session's name and its group must be one short line";
        return Err(Refusal::new(ErrorKind::InvalidRequest, why));
    }
    if let (Some(trajectory), Some(_)) = (&named, &group)
        && let Some(why) = no_trajectory(trajectory)
    {
        return Err(Refusal::new(ErrorKind::NotFound, why));
    }
    let Admitted { client, headers, body, observation, place } = admitted(gateway, shape.into(), request).await?;
    Ok((Call { shape, headers, named, group, client, body, observation }, place))
}

/// A request that may be answered.
struct Admitted {
    client: Client,
    headers: HeaderMap,
    body: Bytes,
    observation: Arc<Observation>,
    /// Its place among those that are answered at once.
    place: OwnedSemaphorePermit,
}

/// Lets a request in that may be answered, and reads its body.
async fn admitted(gateway: &Arc<Inner>, route: Route, request: Request) -> Result<Admitted, Refusal> {
    let (parts, body) = request.into_parts();
    let observation = gateway.observer.of(&parts);
    observation.asks(route);
    gateway.guard.address(&parts.headers)?;
    gateway.guard.content(&parts.headers)?;
    let client = gateway.access.admit(&parts.headers)?;
    observation.client(&client.owner);
    let place = gateway.places.clone().try_acquire_owned().map_err(|_| Refusal {
        retry_after: Some(1),
        ..Refusal::new(ErrorKind::TooMany, "too many requests are under way; try again")
    })?;
    let body = {
        let _waiting = observation.waits_for_client();
        read_body(gateway, body).await?
    };
    observation.received(body.len());
    Ok(Admitted { client, headers: parts.headers, body, observation, place })
}

/// The client of a request without a body.
pub(crate) fn known(gateway: &Inner, headers: &HeaderMap) -> Result<Client, Refusal> {
    gateway.guard.address(headers)?;
    gateway.access.client(headers)
}

/// An answer, or the refusal in a dialect.
pub(crate) fn answered(dialect: Dialect, answer: Result<Response<Body>, Refusal>) -> Response<Body> {
    answer.unwrap_or_else(|refusal| refusal.answer(dialect))
}

async fn embeddings(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let asked = admitted(&gateway, Route::Embeddings, request).await?;
        pass::embeddings(&gateway, (&asked.client, &asked.headers, &asked.observation), &asked.body).await
    };
    answered(Dialect::OpenAi, answer.await)
}

async fn count_tokens(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let asked = admitted(&gateway, Route::CountTokens, request).await?;
        pass::count_tokens(&gateway, (&asked.client, &asked.headers, &asked.observation), &asked.body).await
    };
    answered(Dialect::Anthropic, answer.await)
}

async fn generate(State(gateway): Shared, Path(names): Names, request: Request) -> Response<Body> {
    let answer = async {
        // Its errors have the shape of completions.
        let (call, _place) = admitted_call(&gateway, Shape::Completions, names, request).await?;
        tokens::generate(&gateway, &call).await
    };
    answered(Dialect::OpenAi, answer.await)
}

async fn tokenize(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async { tokens::tokenize(&gateway, &admitted(&gateway, Route::Other, request).await?.body).await };
    answered(Dialect::OpenAi, answer.await)
}

async fn detokenize(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async { tokens::detokenize(&gateway, &admitted(&gateway, Route::Other, request).await?.body).await };
    answered(Dialect::OpenAi, answer.await)
}

/// The id of a response in an address.
fn id(names: &HashMap<String, String>) -> &str {
    names.get("id").map(String::as_str).unwrap_or_default()
}

async fn response(State(gateway): Shared, Path(names): Names, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        let client = known(&gateway, &headers)?;
        stored::read(&gateway, &client.owner, id(&names)).await
    };
    answered(Dialect::OpenAi, answer.await)
}

async fn delete_response(State(gateway): Shared, Path(names): Names, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        let client = known(&gateway, &headers)?;
        stored::delete(&gateway, &client.owner, id(&names)).await
    };
    answered(Dialect::OpenAi, answer.await)
}

async fn cancel_response(State(gateway): Shared, Path(names): Names, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        let client = known(&gateway, &headers)?;
        stored::cancel(&gateway, &client.owner, id(&names)).await
    };
    answered(Dialect::OpenAi, answer.await)
}

async fn input_items(
    State(gateway): Shared,
    Path(names): Names,
    page: Result<Query<stored::Page>, QueryRejection>,
    headers: HeaderMap,
) -> Response<Body> {
    let answer = async {
        let client = known(&gateway, &headers)?;
        let wrong = |error: QueryRejection| Refusal::new(ErrorKind::InvalidRequest, error.body_text());
        stored::input_items(&gateway, &client.owner, id(&names), &page.map_err(wrong)?.0).await
    };
    answered(Dialect::OpenAi, answer.await)
}

/// The headers and the body of a request. An empty body needs no content type: clients that send nothing declare nothing.
pub(crate) async fn body_of(gateway: &Inner, request: Request) -> Result<(HeaderMap, Bytes), Refusal> {
    let (parts, body) = request.into_parts();
    gateway.guard.address(&parts.headers)?;
    if !body.is_end_stream() || parts.headers.contains_key(header::CONTENT_TYPE) {
        gateway.guard.content(&parts.headers)?;
    }
    let body = read_body(gateway, body).await?;
    Ok((parts.headers, body))
}

/// The fields of a form of the gateway's own page, and the headers.
pub(crate) async fn body_of_form(
    gateway: &Inner,
    request: Request,
) -> Result<(HeaderMap, HashMap<String, String>), Refusal> {
    let (parts, body) = request.into_parts();
    gateway.guard.address(&parts.headers)?;
    let body = read_body(gateway, body).await?;
    if body.len() > FORM_BYTES {
        return Err(Refusal::new(ErrorKind::TooLarge, format!("a form has at most {FORM_BYTES} bytes")));
    }
    let fields = form_urlencoded::parse(&body).into_owned().collect();
    Ok((parts.headers, fields))
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
    if let Err(refusal) = known(&gateway, request.headers()) {
        return refusal.answer(dialect);
    }
    let listed = |model: &Arc<ServedModel>| {
        let ServedModel { alias, first, .. } = model.as_ref();
        let mut listed = match dialect {
            Dialect::OpenAi => value!({"id": alias, "object": "model", "created": 0, "owned_by": "clawhost"}),
            Dialect::Anthropic => {
                value!({"id": alias, "type": "model", "display_name": alias, "created_at": "1970-01-01T00:00:00Z"})
            }
        };
        // The weights of a model of this process, as the header and the record of an answer name them.
        if let (Some(listed), Some(version)) = (listed.as_object_mut(), first.source.asked().version) {
            listed.insert("version".to_owned(), version.into());
        }
        listed
    };
    let models = gateway.models.all();
    let data: Vec<_> = models.iter().map(listed).collect();
    let (first, last) = (models.first().map(|model| &model.alias), models.last().map(|model| &model.alias));
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
    let client = match known(&gateway, request.headers()) {
        Ok(client) => client,
        Err(refusal) => return refusal.answer(Dialect::OpenAi),
    };
    let user = user_in(request.headers());
    match gateway.recorder.end((&client.owner, user.as_deref()), &session) {
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

/// What a wrong path should probably be: base URLs end with the version for SDKs of OpenAI, and without it for those of Anthropic.
fn meant(path: &str) -> &'static str {
    match path {
        _ if path.contains("/v1/v1/") => "; an ANTHROPIC_BASE_URL ends without /v1",
        "/chat/completions" | "/responses" | "/completions" | "/embeddings" | "/models" => {
            "; an OPENAI_BASE_URL ends with /v1"
        }
        _ => "",
    }
}

async fn nothing(request: Request) -> Response<Body> {
    let path: String = request.uri().path().chars().take(200).collect();
    let message = format!("there is no {} {path} here{}", request.method(), meant(&path));
    Refusal::new(ErrorKind::NotFound, message).answer(dialect_of(request.headers()))
}
