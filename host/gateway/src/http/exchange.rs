//! The way of one exchange: read, find the model, find the session, ask, answer, record.

use super::access::Client;
use super::answer::{EPISODE, MODEL, RECORD, Refusal, SESSION, set};
use super::hints::Hints;
use super::responses::{Continued, Keeper};
use super::serve::Inner;
use super::shape::Shape;
use super::{pass, relay, translate};
use crate::capture::{Begun, Done, Seen};
use crate::models::ServedModel;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use clawhost_capture::Answer;
use clawhost_core::{AnsweringModel, Digest, LlmIdentity, Message, ModelRequest, ModelResponse, Origin, Part, Role};
use clawhost_providers::{Upstream, UpstreamAnswer, UpstreamError};
use clawhost_wire::splice::TopLevel;
use clawhost_wire::{AnswerHead, ClientRequest, ErrorKind, WireError, anthropic, completions, openai, responses};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Fields that the gateway reads or sets. Named twice, two readers could see two values.
const SINGLE: [&str; 7] = ["model", "stream", "stream_options", "messages", "input", "prompt", "previous_response_id"];
/// Statuses of an endpoint that does not have a path.
const NO_SUCH_PATH: [u16; 3] = [404, 405, 501];
/// Seconds after which a client may ask an upstream again that did not answer.
const RETRY_SECONDS: u64 = 2;
/// Most characters of an upstream's error in a record.
const ERROR_CHARACTERS: usize = 500;

/// A request for an answer in a conversation.
pub(crate) struct Call {
    pub(crate) shape: Shape,
    pub(crate) headers: HeaderMap,
    /// The session that the address names.
    pub(crate) named: Option<String>,
    pub(crate) client: Client,
    pub(crate) body: Bytes,
}

/// A request as it was read.
struct Asked {
    client: ClientRequest,
    /// Of the responses shape.
    continued: Option<Continued>,
}

/// Answers a request.
pub(crate) async fn answer(gateway: &Arc<Inner>, call: Call) -> Response<Body> {
    let dialect = call.shape.dialect();
    match exchange(gateway, call).await {
        Ok(answer) => answer,
        Err(refusal) => refusal.answer(dialect),
    }
}

/// The text of a body.
pub(crate) fn utf8(body: &Bytes) -> Result<&str, Refusal> {
    std::str::from_utf8(body).map_err(|error| {
        Refusal::new(ErrorKind::InvalidRequest, format!("the body is not UTF-8 from byte {}", error.valid_up_to()))
    })
}

async fn exchange(gateway: &Arc<Inner>, call: Call) -> Result<Response<Body>, Refusal> {
    let text = utf8(&call.body)?;
    let top = TopLevel::of(text, &SINGLE)?;
    let alias: String = top
        .read("model")
        .ok_or_else(|| Refusal::new(ErrorKind::InvalidRequest, "model: must be the name of a model"))?;
    let served = gateway.models.find(&alias).ok_or_else(|| unknown_model(gateway, &alias))?.clone();
    let dialect = call.shape.dialect();
    let forwards = served.source.speaks(dialect).is_some();
    if call.shape == Shape::Completions
        && (!forwards || completions::read_request(text).is_ok_and(|asked| !asked.generates))
    {
        return pass::forward(gateway, &served, (dialect, call.shape.path()), &call.headers, &call.body).await;
    }
    let Asked { client, continued } = read(gateway, &call, &top, text, forwards).await?;
    let upstream =
        served.source.speaks(dialect).filter(|_| call.shape != Shape::Responses || gateway.has_responses(&alias));
    if upstream.is_none() {
        if client.answers > 1 {
            return Err(Refusal::new(ErrorKind::InvalidRequest, "n: this model gives one answer to a request"));
        }
        continued.as_ref().map_or(Ok(()), Continued::translatable)?;
    }
    let hints = Hints::of(&call.headers, &top, call.named.as_deref(), &call.client.owner);
    let agent = match (call.client.owner.is_empty(), hints.agent) {
        (false, _) => call.client.owner.clone(),
        (true, Some(agent)) => agent,
        (true, None) => "agent".to_owned(),
    };
    let mut begun = gateway.recorder.begin(Seen {
        client: hints.client,
        agent,
        alias: alias.clone(),
        dialect: call.shape.name(),
        model: served.source.identity(),
        request: &client.request,
        digest: Digest::of(&call.body),
        previous: continued.as_ref().and_then(Continued::previous).map(str::to_owned),
        side: hints.side,
        no_train: hints.no_train || call.client.no_train,
        no_record: call.client.no_record,
    });
    if let Some((upstream, model, passes_key)) = upstream {
        let forward = Forward { upstream: upstream.clone(), model: model.to_owned(), passes_key };
        let identity = served.source.identity();
        match forwarded(gateway, &call, &top, &client, continued.as_ref(), (forward, identity), begun).await {
            Ok(answer) => return Ok(with_model(answer, &served)),
            Err(returned) => begun = returned,
        }
        if let Some(Err(refusal)) = continued.as_ref().map(Continued::translatable) {
            let mut answer = refusal.answer(dialect);
            label(&mut answer, &begun);
            let failed = Answer::Failed { status: refusal.kind.status(), why: refusal.message };
            note(&mut answer, &begun.end(failed, None));
            return Ok(answer);
        }
    }
    let tried = forwards && upstream.is_some();
    let answer = translated(gateway, &call, client, continued.as_ref(), &served, begun).await;
    if tried && answer.status().is_success() {
        gateway.note_no_responses(&alias);
    }
    Ok(with_model(answer, &served))
}

/// Names the model that was asked, unless the answer says which one answered.
fn with_model(mut answer: Response<Body>, served: &ServedModel) -> Response<Body> {
    if !answer.headers().contains_key(MODEL) {
        set(&mut answer, MODEL, &served.source.identity().model);
    }
    answer
}

/// Reads a request.
async fn read(gateway: &Inner, call: &Call, top: &TopLevel<'_>, text: &str, forwards: bool) -> Result<Asked, Refusal> {
    let most = gateway.config.max_tokens;
    let read = match call.shape {
        Shape::Chat => openai::read_request(text, most),
        Shape::Messages => anthropic::read_request(text),
        Shape::Completions => completions::read_request(text).map(|asked| asked.client),
        Shape::Responses => match responses::read_request(text, most) {
            Ok(asked) => {
                let (client, continued) = Continued::of(gateway, &call.client.owner, asked).await?;
                return Ok(Asked { client, continued: Some(continued) });
            }
            Err(error) => Err(error),
        },
    };
    match read {
        Ok(client) => Ok(Asked { client, continued: None }),
        // An upstream of the same dialect may know what this program does not: it decides. Nothing is lost from the record.
        Err(WireError::Request(..)) if forwards => {
            let model = top.read("model").unwrap_or_default();
            Ok(Asked { client: unread(top, text, call.shape, model), continued: None })
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn unknown_model(gateway: &Inner, alias: &str) -> Refusal {
    let known: Vec<&str> = gateway.models.aliases().collect();
    let shown: String = alias.chars().take(100).collect();
    Refusal::new(ErrorKind::NotFound, format!("there is no model `{shown}` here; there is {}", known.join(", ")))
}

/// A request that this program cannot read, as one message.
fn unread(top: &TopLevel<'_>, text: &str, shape: Shape, model: String) -> ClientRequest {
    let kept = json!({ shape.dialect().name(): { "type": "unread_request", "request": text } });
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
fn edits(top: &TopLevel<'_>, client: &ClientRequest, shape: Shape, model: &str) -> (Vec<(&'static str, String)>, bool) {
    let mut edits = Vec::new();
    if client.model != model {
        edits.push(("model", Value::from(model).to_string()));
    }
    let adds_usage = shape.asks_for_usage() && client.stream && !client.include_usage;
    if adds_usage {
        let mut options: Map<String, Value> = top.read("stream_options").unwrap_or_default();
        options.insert("include_usage".to_owned(), true.into());
        edits.push(("stream_options", Value::Object(options).to_string()));
    }
    (edits, adds_usage)
}

/// Forwards a request. If the endpoint does not have this shape, the exchange is returned.
async fn forwarded(
    gateway: &Arc<Inner>,
    call: &Call,
    top: &TopLevel<'_>,
    client: &ClientRequest,
    continued: Option<&Continued>,
    (forward, identity): (Forward, LlmIdentity),
    begun: Begun,
) -> Result<Response<Body>, Begun> {
    let Forward { upstream, model, passes_key } = forward;
    let shape = call.shape;
    let (mut changes, mut adds_usage) = edits(top, client, shape, &model);
    let mut knows = continued.is_none_or(|continued| continued.is_known_to(&identity));
    if let (false, Some(continued)) = (knows, continued) {
        changes.extend(continued.expanded());
    }
    let answer = loop {
        let body = match changes.as_slice() {
            [] => call.body.clone(),
            changes => Bytes::from(top.with(changes)),
        };
        let answer = match upstream.post(shape.path(), &call.headers, passes_key, body).await {
            Ok(answer) => answer,
            Err(error) => return Ok(unanswered(shape, &error, begun)),
        };
        match answer.status {
            // Some old servers refuse the report of usage. Without it usage is estimated.
            400 if adds_usage => {
                adds_usage = false;
                changes.retain(|(name, _)| *name != "stream_options");
            }
            // It has forgotten the response that is continued.
            400 | 404 if knows && continued.is_some_and(|continued| continued.previous().is_some()) => {
                knows = false;
                changes.extend(continued.map(Continued::expanded).unwrap_or_default());
            }
            status if shape == Shape::Responses && NO_SUCH_PATH.contains(&status) => return Err(begun),
            _ => break answer,
        }
    };
    let keeper = continued.and_then(|continued| continued.keeper(identity, true));
    let asked = client.request.bytes();
    if answer.is_stream() && answer.status < 300 {
        let passed = relay::Passed { shape, begun, keeper, drops_usage: adds_usage, asked };
        return Ok(relay::stream(gateway, answer, passed));
    }
    Ok(whole(gateway, shape, answer, asked, keeper, begun).await)
}

fn unanswered(shape: Shape, error: &UpstreamError, begun: Begun) -> Response<Body> {
    let refusal =
        Refusal { retry_after: Some(RETRY_SECONDS), ..Refusal::new(ErrorKind::BadUpstream, error.to_string()) };
    let mut answer = refusal.answer(shape.dialect());
    label(&mut answer, &begun);
    let done = begun.end(Answer::Failed { status: refusal.kind.status(), why: error.to_string() }, None);
    note(&mut answer, &done);
    answer
}

/// The session and the episode of an exchange, for its client.
pub(crate) fn label(answer: &mut Response<Body>, begun: &Begun) {
    match &begun.label {
        Some(label) => {
            set(answer, SESSION, &label.session.session);
            set(answer, EPISODE, &format!("{}/{}", label.run, label.episode));
        }
        None => set(answer, RECORD, "off"),
    }
}

/// Says that an exchange was not recorded.
fn note(answer: &mut Response<Body>, done: &Done) {
    if let Done::Missed(why) = done {
        set(answer, RECORD, &format!("missed: {why}"));
    }
}

/// The whole body of an answer, without keys of this process. An error says why there is none.
pub(crate) async fn read_whole(gateway: &Inner, upstream: &mut UpstreamAnswer) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    loop {
        match upstream.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > gateway.config.limits.answer_bytes => {
                return Err(format!("the answer is longer than {} bytes", gateway.config.limits.answer_bytes));
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => return Err(format!("the answer broke off: {error}")),
        }
    }
    let secrets = gateway.secrets.secrets();
    if !secrets.is_empty() {
        let text = String::from_utf8_lossy(&bytes);
        if secrets.are_in(&text) {
            return Ok(secrets.scrub(&text).into_owned().into_bytes());
        }
    }
    Ok(bytes)
}

/// Passes an answer on that is not streamed, after it was recorded.
async fn whole(
    gateway: &Inner,
    shape: Shape,
    mut upstream: UpstreamAnswer,
    asked: usize,
    keeper: Option<Keeper>,
    mut begun: Begun,
) -> Response<Body> {
    let bytes = match read_whole(gateway, &mut upstream).await {
        Ok(bytes) => bytes,
        Err(why) => return broke_off(shape, &why, begun),
    };
    let text = String::from_utf8_lossy(&bytes);
    let (record, model) = match upstream.status {
        ..300 => read_answer(shape, &text, asked),
        status => (Answer::Failed { status, why: text.chars().take(ERROR_CHARACTERS).collect() }, None),
    };
    let id = TopLevel::of(&text, &[]).ok().and_then(|top| top.read::<String>("id"));
    if let (Some(keeper), Ok(object)) = (keeper, serde_json::from_str(&text)) {
        keeper.keep(&mut begun, object);
    }
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

fn read_answer(shape: Shape, text: &str, asked: usize) -> (Answer, Option<AnsweringModel>) {
    match shape.read(text) {
        Ok(response) => {
            let model = response.answered_by.clone();
            (complete(response, asked), model)
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

fn broke_off(shape: Shape, why: &str, begun: Begun) -> Response<Body> {
    let refusal = Refusal { retry_after: Some(RETRY_SECONDS), ..Refusal::new(ErrorKind::BadUpstream, why) };
    let mut answer = refusal.answer(shape.dialect());
    label(&mut answer, &begun);
    note(&mut answer, &begun.broke_off(why));
    answer
}

/// Asks a model of another dialect, or one of this process.
async fn translated(
    gateway: &Arc<Inner>,
    call: &Call,
    client: ClientRequest,
    continued: Option<&Continued>,
    served: &ServedModel,
    mut begun: Begun,
) -> Response<Body> {
    let model = served.source.model().clone();
    let head = gateway.answer_head(call.shape, &client.model);
    let keeper = continued.and_then(|continued| continued.keeper(served.source.identity(), false));
    let repeated = continued.map(Continued::repeated).unwrap_or_default();
    if client.stream {
        let writing = translate::Writing { shape: call.shape, head, repeated, keeper };
        return translate::stream(gateway, writing, model, client, begun);
    }
    let asked = client.request.bytes();
    match model.complete(&client.request).await {
        Ok(response) => {
            let body = body(call.shape, &head, &repeated, &response);
            if let Some(keeper) = keeper {
                keeper.keep(&mut begun, body.clone());
            }
            let mut answer = super::answer::json(200, &body);
            label(&mut answer, &begun);
            answered_by(&mut answer, response.answered_by.as_ref());
            let done = begun.end(complete(response, asked), Some(head.id));
            note(&mut answer, &done);
            answer
        }
        Err(error) => {
            let refusal = translate::refusal(&error);
            let mut answer = refusal.answer(call.shape.dialect());
            label(&mut answer, &begun);
            let done = begun.end(Answer::Failed { status: refusal.kind.status(), why: error.to_string() }, None);
            note(&mut answer, &done);
            answer
        }
    }
}

/// The body of a whole answer.
fn body(shape: Shape, head: &AnswerHead, repeated: &Map<String, Value>, response: &ModelResponse) -> Value {
    match shape {
        Shape::Responses => responses::body(head, repeated, response),
        Shape::Messages => anthropic::body(head, response),
        // Plain completions are only forwarded.
        Shape::Chat | Shape::Completions => openai::body(head, response),
    }
}
