//! The way of one exchange: read, find the model, find the session, ask, answer, record.

use super::answer::{EPISODE, MODEL, RECORD, Refusal, SESSION, set};
use super::hints::Hints;
use super::serve::Inner;
use super::{relay, translate};
use crate::capture::{Begun, Done, Seen};
use crate::models::ServedModel;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use clawhost_capture::Answer;
use clawhost_core::{AnsweringModel, Digest, Message, ModelRequest, ModelResponse, Origin, Part, Role};
use clawhost_providers::{Dialect, Upstream, UpstreamAnswer, UpstreamError};
use clawhost_wire::splice::TopLevel;
use clawhost_wire::{ClientRequest, ErrorKind, WireError, anthropic, openai};
use serde_json::{Value, json};
use std::sync::Arc;

/// Fields that the gateway reads or sets. Named twice, two readers could see two values.
const SINGLE: [&str; 4] = ["model", "stream", "stream_options", "messages"];
/// Seconds after which a client may ask an upstream again that did not answer.
const RETRY_SECONDS: u64 = 2;
/// Most characters of an upstream's error in a record.
const ERROR_CHARACTERS: usize = 500;

/// A request for an answer in a conversation.
pub(crate) struct Call {
    pub(crate) dialect: Dialect,
    /// Path behind the version, for an upstream of this dialect.
    pub(crate) path: &'static str,
    pub(crate) headers: HeaderMap,
    /// The session that the address names.
    pub(crate) named: Option<String>,
    /// Name of the client's key.
    pub(crate) owner: String,
    pub(crate) body: Bytes,
}

/// Answers a request.
pub(crate) async fn answer(gateway: &Arc<Inner>, call: Call) -> Response<Body> {
    let dialect = call.dialect;
    match exchange(gateway, call).await {
        Ok(answer) => answer,
        Err(refusal) => refusal.answer(dialect),
    }
}

async fn exchange(gateway: &Arc<Inner>, call: Call) -> Result<Response<Body>, Refusal> {
    let text = std::str::from_utf8(&call.body).map_err(|error| {
        Refusal::new(ErrorKind::InvalidRequest, format!("the body is not UTF-8 from byte {}", error.valid_up_to()))
    })?;
    let top = TopLevel::of(text, &SINGLE)?;
    let alias: String = top
        .read("model")
        .ok_or_else(|| Refusal::new(ErrorKind::InvalidRequest, "model: must be the name of a model"))?;
    let served = gateway.models.find(&alias).ok_or_else(|| unknown_model(gateway, &alias))?.clone();
    let read = match call.dialect {
        Dialect::OpenAi => openai::read_request(text, gateway.config.max_tokens),
        Dialect::Anthropic => anthropic::read_request(text),
    };
    let forwards = served.source.speaks(call.dialect).is_some();
    let client = match read {
        Ok(client) => client,
        // An upstream of the same dialect may know what this program does not: it decides. Nothing is lost from the record.
        Err(WireError::Request(..)) if forwards => unread(&top, text, call.dialect, alias.clone()),
        Err(error) => return Err(error.into()),
    };
    if client.answers > 1 && !forwards {
        return Err(Refusal::new(ErrorKind::InvalidRequest, "n: this model gives one answer to a request"));
    }
    let hints = Hints::of(&call.headers, &top, call.named.as_deref(), &call.owner);
    let agent = match (call.owner.is_empty(), hints.agent) {
        (false, _) => call.owner.clone(),
        (true, Some(agent)) => agent,
        (true, None) => "agent".to_owned(),
    };
    let begun = gateway.recorder.begin(Seen {
        client: hints.client,
        agent,
        alias,
        dialect: call.dialect.name(),
        model: served.source.identity(),
        request: &client.request,
        digest: Digest::of(&call.body),
        previous: None,
        side: hints.side,
        no_train: hints.no_train,
    });
    let mut answer = match served.source.speaks(call.dialect) {
        Some((upstream, model, passes_key)) => {
            let forward = Forward { upstream: upstream.clone(), model: model.to_owned(), passes_key };
            forwarded(gateway, &call, &top, &client, forward, begun).await
        }
        None => translated(gateway, &call, client, &served, begun).await,
    };
    if !answer.headers().contains_key(MODEL) {
        set(&mut answer, MODEL, &served.source.identity().model);
    }
    Ok(answer)
}

fn unknown_model(gateway: &Inner, alias: &str) -> Refusal {
    let known: Vec<&str> = gateway.models.aliases().collect();
    let shown: String = alias.chars().take(100).collect();
    Refusal::new(ErrorKind::NotFound, format!("there is no model `{shown}` here; there is {}", known.join(", ")))
}

/// A request that this program cannot read, as one message.
fn unread(top: &TopLevel<'_>, text: &str, dialect: Dialect, model: String) -> ClientRequest {
    let kept = json!({ dialect.name(): { "type": "unread_request", "request": text } });
    let message = Message { parts: vec![Part::Other(kept.to_string())], ..Message::text(Role::User, Origin::User, "") };
    ClientRequest {
        model,
        request: ModelRequest { messages: vec![message], ..ModelRequest::default() },
        stream: top.read("stream").unwrap_or(false),
        include_usage: false,
        answers: 1,
    }
}

struct Forward {
    upstream: Arc<Upstream>,
    model: String,
    passes_key: bool,
}

/// The fields that the gateway changes in a request that it forwards: the model's name, and a stream's report of usage, which it needs for
/// the record. Whether the report was added.
fn edits(
    top: &TopLevel<'_>,
    client: &ClientRequest,
    dialect: Dialect,
    model: &str,
) -> (Vec<(&'static str, String)>, bool) {
    let mut edits = Vec::new();
    if client.model != model {
        edits.push(("model", Value::from(model).to_string()));
    }
    let adds_usage = dialect == Dialect::OpenAi && client.stream && !client.include_usage;
    if adds_usage {
        let mut options: serde_json::Map<String, Value> = top.read("stream_options").unwrap_or_default();
        options.insert("include_usage".to_owned(), true.into());
        edits.push(("stream_options", Value::Object(options).to_string()));
    }
    (edits, adds_usage)
}

async fn forwarded(
    gateway: &Arc<Inner>,
    call: &Call,
    top: &TopLevel<'_>,
    client: &ClientRequest,
    forward: Forward,
    begun: Begun,
) -> Response<Body> {
    let Forward { upstream, model, passes_key } = forward;
    let (mut changes, adds_usage) = edits(top, client, call.dialect, &model);
    let body = |changes: &[(&str, String)]| match changes {
        [] => call.body.clone(),
        changes => Bytes::from(top.with(changes)),
    };
    let mut adds_usage = adds_usage;
    let mut sent = upstream.post(call.path, &call.headers, passes_key, body(&changes)).await;
    if adds_usage && matches!(&sent, Ok(answer) if answer.status == 400) {
        // Some old servers refuse the report of usage. Without it usage is estimated.
        adds_usage = false;
        changes.retain(|(name, _)| *name != "stream_options");
        sent = upstream.post(call.path, &call.headers, passes_key, body(&changes)).await;
    }
    let answer = match sent {
        Ok(answer) => answer,
        Err(error) => return unanswered(call.dialect, &error, begun),
    };
    if answer.is_stream() && answer.status < 300 {
        return relay::stream(gateway, call.dialect, answer, begun, adds_usage, client.request.bytes());
    }
    whole(gateway, call.dialect, answer, client, begun).await
}

fn unanswered(dialect: Dialect, error: &UpstreamError, begun: Begun) -> Response<Body> {
    let refusal =
        Refusal { retry_after: Some(RETRY_SECONDS), ..Refusal::new(ErrorKind::BadUpstream, error.to_string()) };
    let mut answer = refusal.answer(dialect);
    label(&mut answer, &begun);
    let done = begun.end(Answer::Failed { status: refusal.kind.status(), why: error.to_string() }, None);
    note(&mut answer, &done);
    answer
}

/// The session and the episode of an exchange, for its client.
pub(crate) fn label(answer: &mut Response<Body>, begun: &Begun) {
    set(answer, SESSION, &begun.label.session.session);
    set(answer, EPISODE, &format!("{}/{}", begun.label.run, begun.label.episode));
}

/// Says that an exchange was not recorded.
fn note(answer: &mut Response<Body>, done: &Done) {
    if let Done::Missed(why) = done {
        set(answer, RECORD, &format!("missed: {why}"));
    }
}

/// Passes an answer on that is not streamed, after it was recorded.
async fn whole(
    gateway: &Arc<Inner>,
    dialect: Dialect,
    mut upstream: UpstreamAnswer,
    client: &ClientRequest,
    begun: Begun,
) -> Response<Body> {
    let mut bytes = Vec::new();
    loop {
        match upstream.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > gateway.config.limits.answer_bytes => {
                let why = format!("the answer is longer than {} bytes", gateway.config.limits.answer_bytes);
                return broke_off(dialect, &why, begun);
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => return broke_off(dialect, &format!("the answer broke off: {error}"), begun),
        }
    }
    let secrets = gateway.secrets.secrets();
    if !secrets.is_empty() {
        let text = String::from_utf8_lossy(&bytes);
        if secrets.are_in(&text) {
            bytes = secrets.scrub(&text).into_owned().into_bytes();
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let (record, model) = match upstream.status {
        ..300 => read_answer(dialect, &text, client),
        status => (Answer::Failed { status, why: text.chars().take(ERROR_CHARACTERS).collect() }, None),
    };
    let id = TopLevel::of(&text, &[]).ok().and_then(|top| top.read::<String>("id"));
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::from_u16(upstream.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *answer.headers_mut() = std::mem::take(&mut upstream.headers);
    label(&mut answer, &begun);
    answered_by(&mut answer, model.as_ref());
    let done = begun.end(record, id);
    note(&mut answer, &done);
    *answer.body_mut() = Body::from(bytes);
    answer
}

/// The model that answered, for the client.
pub(crate) fn answered_by(answer: &mut Response<Body>, model: Option<&AnsweringModel>) {
    if let Some(AnsweringModel { model, version }) = model {
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        set(answer, MODEL, &format!("{model}{version}"));
    }
}

fn read_answer(dialect: Dialect, text: &str, client: &ClientRequest) -> (Answer, Option<AnsweringModel>) {
    let read = match dialect {
        Dialect::OpenAi => openai::response(text),
        Dialect::Anthropic => anthropic::response(text),
    };
    match read {
        Ok(response) => {
            let model = response.answered_by.clone();
            (complete(response, client.request.bytes()), model)
        }
        Err(error) => (Answer::Incomplete { message: None, why: format!("the answer cannot be read: {error}") }, None),
    }
}

/// A whole answer for the record. Usage that was not reported is estimated: `asked` are the bytes of the request.
pub(crate) fn complete(mut response: ModelResponse, asked: usize) -> Answer {
    if response.estimate_usage(asked) {
        response.ignored.push(clawhost_core::IgnoredRequest::Usage);
    }
    Answer::Complete(Box::new(response))
}

fn broke_off(dialect: Dialect, why: &str, begun: Begun) -> Response<Body> {
    let refusal = Refusal { retry_after: Some(RETRY_SECONDS), ..Refusal::new(ErrorKind::BadUpstream, why) };
    let mut answer = refusal.answer(dialect);
    label(&mut answer, &begun);
    note(&mut answer, &begun.broke_off(why));
    answer
}

/// Asks a model of another dialect, or one of this process.
async fn translated(
    gateway: &Arc<Inner>,
    call: &Call,
    client: ClientRequest,
    served: &ServedModel,
    begun: Begun,
) -> Response<Body> {
    let model = served.source.model().clone();
    let head = gateway.answer_head(call.dialect, &client.model);
    if client.stream {
        return translate::stream(gateway, call.dialect, head, model, client, begun);
    }
    let asked = client.request.bytes();
    match model.complete(&client.request).await {
        Ok(response) => {
            let body = match call.dialect {
                Dialect::OpenAi => openai::body(&head, &response),
                Dialect::Anthropic => anthropic::body(&head, &response),
            };
            let mut answer = super::answer::json(200, &body);
            label(&mut answer, &begun);
            answered_by(&mut answer, response.answered_by.as_ref());
            let done = begun.end(complete(response, asked), Some(head.id));
            note(&mut answer, &done);
            answer
        }
        Err(error) => {
            let refusal = translate::refusal(&error);
            let mut answer = refusal.answer(call.dialect);
            label(&mut answer, &begun);
            let done = begun.end(Answer::Failed { status: refusal.kind.status(), why: error.to_string() }, None);
            note(&mut answer, &done);
            answer
        }
    }
}
