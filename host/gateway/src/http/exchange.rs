//! The way of one exchange: read, find the model, find the session, ask, answer, record.

use super::access::Client;
use super::answer::{ATTEMPTS, EPISODE, MODEL, RECORD, ROUTE, Refusal, SESSION, set};
pub(crate) use super::answer::{answered_by, note};
use super::attempts::{Attempts, Failure, is_passing, retry_after, share};
use super::body::{read_whole, too_long};
use super::context::{self, CUT};
use super::edits::edits;
use super::hints::{GUIDANCE, GuidanceWish, Hints};
use super::reading::{Asked, read};
use super::responses::{Continued, Keeper};
use super::serve::Inner;
use super::shape::Shape;
use super::tokens::{self, Answerer};
use super::{pass, relay, translate};
use crate::capture::{Begun, Seen};
use crate::models::Candidate;
use crate::observe::Observation;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use clawhost_capture::{Answer, Guided};
use clawhost_core::{AnsweringModel, Digest, LlmIdentity, ModelError, ModelRequest, ModelResponse, estimated_tokens};
use clawhost_providers::{Upstream, UpstreamAnswer, UpstreamError};
use clawhost_wire::context::Context;
use clawhost_wire::guidance::{guide_request, with_guidance};
use clawhost_wire::splice::TopLevel;
use clawhost_wire::{ClientRequest, ErrorKind, completions};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fields that the gateway reads or sets. Named twice, two readers could see two values.
const SINGLE: [&str; 7] = ["model", "stream", "stream_options", "messages", "input", "prompt", "previous_response_id"];
/// Statuses of an endpoint that does not have a path.
const NO_SUCH_PATH: [u16; 3] = [404, 405, 501];
/// Seconds after which a client may ask an upstream again that did not answer.
const RETRY_SECONDS: u64 = 2;
/// Most characters of an upstream's error in a record.
pub(crate) const ERROR_CHARACTERS: usize = 500;

/// A request for an answer in a conversation.
pub(crate) struct Call {
    pub(crate) shape: Shape,
    pub(crate) headers: HeaderMap,
    /// The session that the address names.
    pub(crate) named: Option<String>,
    /// The prompt group that it names beside it.
    pub(crate) group: Option<String>,
    pub(crate) client: Client,
    pub(crate) body: Bytes,
    pub(crate) observation: Arc<Observation>,
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
    let served = gateway.models.find(&alias).ok_or_else(|| unknown_model(gateway, &alias))?;
    call.observation.alias(&alias);
    let dialect = call.shape.dialect();
    let forwards = served.candidates().any(|candidate| candidate.source.speaks(dialect).is_some());
    if call.shape == Shape::Completions
        && let Some(Answerer::Local(candidate, model)) = tokens::answerer(&served)
    {
        return tokens::completions(gateway, &call, &top, &alias, (candidate, model)).await;
    }
    if call.shape == Shape::Completions
        && (!forwards || completions::read_request(text).is_ok_and(|asked| !asked.generates))
    {
        return pass::forward(
            gateway,
            &served,
            (dialect, call.shape.path()),
            (&call.client, &call.headers, &call.observation),
            &call.body,
        )
        .await;
    }
    let Asked { client, continued } = read(gateway, &call, &top, text, forwards).await?;
    let (continued, no_guidance) = (continued.as_ref(), None);
    let mut asking = Asking { gateway, call: &call, top: &top, client: &client, continued, guidance: no_guidance };
    if !served.candidates().any(|candidate| asking.able(candidate).is_ok()) {
        return Err(asking.able(&served.first).err().unwrap_or_else(|| unknown_model(gateway, &alias)));
    }
    let recording = Recording {
        dialect: call.shape.name(),
        model: served.first.source.identity(),
        request: &client.request,
        previous: continued.and_then(Continued::previous).map(str::to_owned),
    };
    let mut begun = begin(gateway, &call, &top, &alias, recording);
    if let Some(routing) = &served.routing {
        begun.route(routing, &client.request).await;
    }
    let guided = guide(gateway, &call, &mut begun, &client.request).await;
    asking.guidance = guided.as_ref();
    let is_able = |candidate: &Candidate| asking.able(candidate).is_ok();
    let chosen = begun.routed.as_ref().and_then(|routed| served.chosen(routed));
    let asked = chosen.as_ref().unwrap_or(&served);
    let own = begun.label.as_ref().and_then(|label| asked.of_session(&call.client.owner, &label.session));
    let asked = own.as_ref().unwrap_or(asked);
    let mut attempts = Attempts::new(asked, is_able, gateway.now_us());
    let Some((mut candidate, mut goes_on)) = attempts.next() else {
        let refusal = asking.able(&asked.first).err().unwrap_or_else(|| unknown_model(gateway, &alias));
        return Ok(refused(call.shape, &refusal, begun));
    };
    begun.asks(candidate.source.identity());
    loop {
        if !std::ptr::eq(candidate, &asked.first) {
            begun.escalates();
        }
        begun.priced(candidate.prices);
        begun.cut(0);
        match asking.ask(candidate, goes_on, begun).await {
            Outcome::Answered(mut answer) => {
                let status = answer.status().as_u16();
                if is_passing(status) {
                    gateway.observer.model_failed(candidate);
                } else {
                    gateway.observer.model_answered(candidate);
                }
                if attempts.count > 1 {
                    set(&mut answer, ATTEMPTS, &attempts.count.to_string());
                }
                return Ok(with_model(answer, candidate));
            }
            Outcome::Failed(returned, failure) => {
                begun = *returned;
                gateway.observer.model_failed(candidate);
                tracing::warn!("{} did not answer for `{alias}`: {}", candidate.source.identity().model, failure.why);
                let pause = attempts.failed(&failure, gateway.config.limits.retry_pause, share());
                if !pause.is_zero() {
                    let _waiting = call.observation.waits_for_model();
                    tokio::time::sleep(pause).await;
                }
                // A failure is returned only while more attempts follow.
                let Some(next) = attempts.next() else {
                    let refusal = Refusal::new(ErrorKind::BadUpstream, failure.why);
                    return Ok(refused(call.shape, &refusal, begun));
                };
                (candidate, goes_on) = next;
                begun.asks(candidate.source.identity());
            }
        }
    }
}

/// What is recorded of a request.
pub(crate) struct Recording<'a> {
    pub(crate) dialect: &'static str,
    /// The model that is asked.
    pub(crate) model: LlmIdentity,
    pub(crate) request: &'a ModelRequest,
    /// Id of the response that it continues.
    pub(crate) previous: Option<String>,
}

/// Begins the record of a request.
pub(crate) fn begin(
    gateway: &Arc<Inner>,
    call: &Call,
    top: &TopLevel<'_>,
    alias: &str,
    recording: Recording<'_>,
) -> Begun {
    let mut hints = Hints::of(&call.headers, top, call.named.as_deref(), &call.client.owner);
    hints.client.group.clone_from(&call.group);
    let agent = match (call.client.owner.is_empty(), hints.agent) {
        (false, _) => call.client.owner.clone(),
        (true, Some(agent)) => agent,
        (true, None) => "agent".to_owned(),
    };
    let Recording { dialect, model, request, previous } = recording;
    let mut begun = gateway.recorder.begin(Seen {
        client: hints.client,
        agent,
        alias: alias.to_owned(),
        dialect,
        model,
        request,
        digest: Digest::of(&call.body),
        previous,
        side: hints.side,
        project: hints.project,
        no_train: hints.no_train || call.client.no_train,
        no_record: call.client.no_record,
        observation: Some(call.observation.clone()),
    });
    begun.guidance = hints.guidance;
    begun
}

/// The guidance of a request's session, unless its client wants none. A session that is not recorded has none: its requests would get
/// different ones.
async fn guide(gateway: &Inner, call: &Call, begun: &mut Begun, request: &ModelRequest) -> Option<Guided> {
    let guide = gateway.guide.as_ref().filter(|guide| guide.is_on() && begun.guidance != GuidanceWish::Off)?;
    begun.guide(guide.as_ref(), request, call.client.team.as_deref()).await
}

/// How an attempt ended.
enum Outcome {
    Answered(Response<Body>),
    /// Nothing was passed on, and another attempt may follow.
    Failed(Box<Begun>, Failure),
}

/// A request that is asked of one candidate after another.
struct Asking<'a> {
    gateway: &'a Arc<Inner>,
    call: &'a Call,
    top: &'a TopLevel<'a>,
    client: &'a ClientRequest,
    continued: Option<&'a Continued>,
    /// What the session gets beside the client's system text.
    guidance: Option<&'a Guided>,
}

impl Asking<'_> {
    /// The endpoint of a candidate to which the request is forwarded as it is.
    fn endpoint<'c>(&self, candidate: &'c Candidate) -> Option<(&'c Arc<Upstream>, &'c str, bool)> {
        let lacks_it =
            self.call.shape == Shape::Responses && candidate.health.without_responses.load(Ordering::Relaxed);
        candidate.source.speaks(self.call.shape.dialect()).filter(|_| !lacks_it)
    }

    /// Checks that a candidate can take the request.
    fn able(&self, candidate: &Candidate) -> Result<(), Refusal> {
        if let Some(limit) = candidate.max_context
            && let Some(context) = self.longer_than(limit)
            && context.cut(limit).is_none()
        {
            return Err(context::too_long(&candidate.source.identity().model, context.tokens(), limit));
        }
        if self.endpoint(candidate).is_some() {
            return Ok(());
        }
        if self.call.shape == Shape::Completions {
            return Err(Refusal::new(ErrorKind::InvalidRequest, "the model has no API for plain completions"));
        }
        if self.client.answers > 1 {
            return Err(Refusal::new(ErrorKind::InvalidRequest, "n: this model gives one answer to a request"));
        }
        self.continued.map_or(Ok(()), Continued::translatable)
    }

    /// The whole conversation of the request, if it is longer than so many tokens.
    fn longer_than(&self, limit: u64) -> Option<Context> {
        let is_whole = self.continued.is_none_or(|continued| continued.previous().is_none());
        if is_whole && estimated_tokens(self.call.body.len()) <= limit {
            return None;
        }
        let context = context::context(self.call.shape, self.top, self.client, is_whole);
        (context.tokens() > limit).then_some(context)
    }

    /// The guidance for a candidate: none if its context has no room for it.
    fn guidance_for(&self, candidate: &Candidate) -> Option<&Guided> {
        let guided = self.guidance?;
        let has_room = candidate.max_context.is_none_or(|limit| {
            let left = limit.saturating_sub(guided.tokens());
            match self.longer_than(limit) {
                // It must be cut anyway.
                Some(context) => context.cut(left).is_some(),
                None => self.longer_than(left).is_none(),
            }
        });
        has_room.then_some(guided)
    }

    /// Asks a candidate. `goes_on`: whether another attempt may follow.
    async fn ask(&self, candidate: &Candidate, goes_on: bool, mut begun: Begun) -> Outcome {
        let Self { gateway, call, client, continued, .. } = self;
        let guided = self.guidance_for(candidate);
        begun.guided = guided.cloned();
        let endpoint = self.endpoint(candidate);
        if let Some((upstream, model, passes_key)) = endpoint {
            // The key of a client of this gateway is nobody else's business.
            let passes_key = passes_key && call.client.owner.is_empty();
            let max_context = candidate.max_context;
            let guidance = guided.and_then(Guided::prompt).map(str::to_owned);
            let forward =
                Forward { upstream: upstream.clone(), model: model.to_owned(), passes_key, max_context, guidance };
            match self.forwarded(forward, candidate.source.identity(), goes_on, begun).await {
                Ok(outcome) => return outcome,
                Err(returned) => begun = returned,
            }
            if let Some(Err(refusal)) = continued.map(Continued::translatable) {
                return Outcome::Answered(refused(call.shape, &refusal, begun));
            }
        }
        let guidance = guided.and_then(Guided::prompt);
        let client = guided_request(client, guidance);
        let outcome = translated(gateway, call, &client, *continued, (candidate, goes_on), begun).await;
        if let (Some(_), Outcome::Answered(answer)) = (endpoint, &outcome)
            && answer.status().is_success()
        {
            candidate.health.without_responses.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Forwards a request. If the endpoint does not have this shape, the exchange is returned.
    async fn forwarded(
        &self,
        forward: Forward,
        identity: LlmIdentity,
        goes_on: bool,
        mut begun: Begun,
    ) -> Result<Outcome, Begun> {
        let Self { gateway, call, top, client, continued, .. } = *self;
        let Forward { upstream, model, passes_key, max_context, guidance } = forward;
        let shape = call.shape;
        let (mut changes, mut adds_usage) = edits(top, client, shape, &model);
        let mut knows = continued.is_none_or(|continued| continued.is_known_to(&identity));
        // Of what an endpoint has stored nothing can be left out.
        let text = guidance.as_deref();
        let added = text.and_then(|text| with_guidance(context::of(shape)?, top, text));
        if text.is_some() && added.is_none() {
            // The request has no place for it, which its endpoint may tell.
            begun.guided = None;
        }
        let tokens = begun.guided.as_ref().map_or(0, Guided::tokens);
        changes.extend(added);
        let limit = max_context.filter(|limit| self.longer_than(limit.saturating_sub(tokens)).is_some());
        knows &= limit.is_none();
        if let (false, Some(continued)) = (knows, continued) {
            changes.extend(continued.expanded());
        }
        let cut = limit.and_then(|limit| context::cut_body(shape, &top.with(&changes), limit));
        if let Some((field, list, count)) = cut {
            changes.retain(|(name, _)| *name != field);
            changes.push((field, list));
            begun.cut(count);
        }
        let mut answer = loop {
            let body = match changes.as_slice() {
                [] => call.body.clone(),
                changes => Bytes::from(top.with(changes)),
            };
            let waiting = call.observation.waits_for_model();
            let posted = upstream.post(shape.path(), &call.headers, passes_key, body).await;
            drop(waiting);
            let answer = match posted {
                Ok(answer) => answer,
                Err(error) if goes_on => {
                    // An endpoint that was silent may still work on the request.
                    let is_repeatable = !matches!(error, UpstreamError::Silent { .. });
                    let failure = Failure { why: error.to_string(), is_repeatable, after: None };
                    return Ok(Outcome::Failed(Box::new(begun), failure));
                }
                Err(error) => {
                    let refusal = Refusal::new(ErrorKind::BadUpstream, error.to_string());
                    let refusal = Refusal { retry_after: Some(RETRY_SECONDS), ..refusal };
                    return Ok(Outcome::Answered(refused(shape, &refusal, begun)));
                }
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
        if goes_on && is_passing(answer.status) {
            let why = format!("status {}", answer.status);
            let failure = Failure { why, is_repeatable: true, after: retry_after(&answer.headers) };
            return Ok(Outcome::Failed(Box::new(begun), failure));
        }
        let keeper = continued.and_then(|continued| continued.keeper(identity, true));
        let asked = client.request.bytes();
        if answer.is_stream() && answer.status < 300 {
            let passed = relay::Passed { shape, begun, keeper, drops_usage: adds_usage, asked };
            return Ok(Outcome::Answered(relay::stream(gateway, answer, passed)));
        }
        let waiting = call.observation.waits_for_model();
        let read = read_whole(gateway, &mut answer).await;
        drop(waiting);
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(why) if goes_on => {
                return Ok(Outcome::Failed(Box::new(begun), Failure { why, is_repeatable: true, after: None }));
            }
            Err(why) => return Ok(Outcome::Answered(broke_off(shape, &why, begun))),
        };
        Ok(Outcome::Answered(whole(shape, answer, bytes, asked, keeper, begun)))
    }
}

/// Names the model that was asked, unless the answer says which one answered.
fn with_model(mut answer: Response<Body>, candidate: &Candidate) -> Response<Body> {
    if !answer.headers().contains_key(MODEL) {
        answered_by(&mut answer, Some(&candidate.source.asked()));
    }
    answer
}

pub(crate) fn unknown_model(gateway: &Inner, alias: &str) -> Refusal {
    let known = gateway.models.aliases();
    let shown: String = alias.chars().take(100).collect();
    Refusal::new(ErrorKind::UnknownModel, format!("there is no model `{shown}` here; there is {}", known.join(", ")))
}

struct Forward {
    upstream: Arc<Upstream>,
    model: String,
    passes_key: bool,
    max_context: Option<u64>,
    /// What is added to the client's system text.
    guidance: Option<String>,
}

/// The request with guidance.
fn guided_request<'a>(client: &'a ClientRequest, guidance: Option<&str>) -> Cow<'a, ClientRequest> {
    let Some(text) = guidance else { return Cow::Borrowed(client) };
    let mut client = client.clone();
    guide_request(&mut client.request.messages, text);
    Cow::Owned(client)
}

/// The answer of a request that was not answered, after it was recorded.
pub(crate) fn refused(shape: Shape, refusal: &Refusal, begun: Begun) -> Response<Body> {
    let mut answer = refusal.answer(shape.dialect());
    label(&mut answer, &begun);
    let failed = Answer::Failed { status: refusal.kind.status(), why: refusal.message.clone() };
    note(&mut answer, &begun.end(failed, None));
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
    if begun.cut > 0 {
        set(answer, CUT, &begun.cut.to_string());
    }
    if let Some(guided) = begun.guided.as_ref().filter(|_| begun.guidance == GuidanceWish::Shown) {
        set(answer, GUIDANCE, &guided.line());
    }
    if let Some(routed) = &begun.routed {
        set(answer, ROUTE, &format!("{} {}", routed.router, routed.asked()));
    }
}

/// Passes an answer on that is not streamed, after it was recorded.
fn whole(
    shape: Shape,
    mut upstream: UpstreamAnswer,
    bytes: Vec<u8>,
    asked: usize,
    keeper: Option<Keeper>,
    mut begun: Begun,
) -> Response<Body> {
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
    client: &ClientRequest,
    continued: Option<&Continued>,
    (candidate, goes_on): (&Candidate, bool),
    mut begun: Begun,
) -> Outcome {
    let (client, cut) = context::cut_request(client, candidate.max_context);
    let client = client.as_ref();
    begun.cut(cut);
    let request = tokens::asked(&candidate.source, &call.client.owner, &client.request);
    let head = gateway.answer_head(call.shape, &client.model);
    let keeper = continued.and_then(|continued| continued.keeper(candidate.source.identity(), false));
    let repeated = continued.map(Continued::repeated).unwrap_or_default();
    if client.stream {
        let writing = translate::Writing { shape: call.shape, head, repeated, keeper };
        begun.streams();
        let mut asked = translate::ask(candidate.source.clone(), request.into_owned());
        if goes_on && let Some(error) = asked.failed_at_once().await {
            begun.stops_streaming();
            return Outcome::Failed(Box::new(begun), failure_of(&error));
        }
        return Outcome::Answered(translate::stream(gateway, writing, asked, client, begun));
    }
    let asked = request.bytes();
    let limit = gateway.config.limits.answer_time;
    let waiting = call.observation.waits_for_model();
    let answer = tokio::time::timeout(limit, candidate.source.model().complete(&request)).await;
    drop(waiting);
    match answer.unwrap_or_else(|_| Err(ModelError::Unavailable(too_long(limit)))) {
        Ok(response) => {
            let response = candidate.source.named(response);
            let body = translate::body(call.shape, &head, &repeated, &response);
            if let Some(keeper) = keeper {
                keeper.keep(&mut begun, body.clone());
            }
            let mut answer = super::answer::json(200, &body);
            label(&mut answer, &begun);
            answered_by(&mut answer, response.answered_by.as_ref());
            let done = begun.end(complete(response, asked), Some(head.id));
            note(&mut answer, &done);
            Outcome::Answered(answer)
        }
        Err(error) if goes_on && translate::is_passing(&error) => Outcome::Failed(Box::new(begun), failure_of(&error)),
        Err(error) => {
            let refusal = Refusal { message: error.to_string(), ..translate::refusal(&error) };
            Outcome::Answered(refused(call.shape, &refusal, begun))
        }
    }
}

fn failure_of(error: &ModelError) -> Failure {
    Failure { why: error.to_string(), is_repeatable: true, after: None }
}
