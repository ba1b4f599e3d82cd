//! `/generate`: token ids in, sampled token ids and their log-probs out, as trainers need them.

use super::{Answerer, answerer, any_seed, check, has_none, named, refusal, run};
use crate::capture::Begun;
use crate::http::answer::{Refusal, json};
use crate::http::body::read_whole;
use crate::http::exchange::{self, Call, Recording, answered_by, label, note, refused, utf8};
use crate::http::serve::Inner;
use crate::models::{Candidate, ServedModel};
use axum::body::Body;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use clawhost_capture::Answer;
use clawhost_core::{ModelResponse, Partition, TokenModel, TokenRequest};
use clawhost_providers::Dialect;
use clawhost_wire::ErrorKind;
use clawhost_wire::completions::{GenerateRequest, Generated};
use clawhost_wire::splice::TopLevel;
use std::sync::Arc;

/// The shape's name in records.
const NAME: &str = "generate";

/// Answers a request.
pub(crate) async fn answer(gateway: &Arc<Inner>, call: &Call) -> Result<Response<Body>, Refusal> {
    let text = utf8(&call.body)?;
    // NaN and infinities are a 422, other text that is no JSON a 400.
    crate::pool::body::parse::<serde::de::IgnoredAny>(&call.body)?;
    let top = TopLevel::of(text, &["prompt_ids", "sampling_params", "model"])?;
    let request = GenerateRequest::read(text)?;
    let served = named(gateway, request.model.as_deref())?;
    call.observation.alias(&served.alias);
    let recorded = request.recorded(gateway.config.max_tokens);
    let begin = |candidate: &Candidate| {
        let model = candidate.source.identity();
        let recording = Recording { dialect: NAME, model, request: &recorded, previous: None };
        let mut begun = exchange::begin(gateway, call, &top, &served.alias, recording);
        begun.priced(candidate.prices);
        begun
    };
    match answerer(&served) {
        Some(Answerer::Local(candidate, model)) => {
            check(&*model, "prompt_ids", &request.prompt, 1)?;
            sampled(gateway, call, &request, (model, begin(candidate))).await
        }
        Some(Answerer::Endpoint(candidate)) => forwarded(gateway, call, &request, (candidate, begin(candidate))).await,
        None => Err(none(&served)),
    }
}

fn none(served: &ServedModel) -> Refusal {
    has_none(served, "/generate")
}

/// The answer of a model of this process.
async fn sampled(
    gateway: &Arc<Inner>,
    call: &Call,
    request: &GenerateRequest,
    (model, begun): (Arc<dyn TokenModel>, Begun),
) -> Result<Response<Body>, Refusal> {
    let asked = TokenRequest {
        prompt: request.prompt.clone(),
        max_tokens: request.max_tokens.unwrap_or(u32::MAX),
        sampling: request.sampling.clone(),
        seed: request.seed.map_or_else(any_seed, Ok)?,
        choice: 0,
        stop: request.stop.clone(),
        stop_tokens: request.stop_tokens.clone(),
        alternatives: 0,
        partition: Partition::of_client(&call.client.owner),
    };
    let secrets = gateway.secrets.secrets();
    let waiting = call.observation.waits_for_model();
    let sampled = run::sample(&model, vec![asked], None, &secrets).await;
    drop(waiting);
    let answer = match sampled.map(|mut answers| answers.pop()) {
        Ok(Some(answer)) => answer,
        Ok(None) => return Ok(refused(call.shape, &Refusal::new(ErrorKind::Internal, "there is no answer"), begun)),
        Err(error) => return Ok(refused(call.shape, &refusal(&error), begun)),
    };
    let usage = run::usage(std::slice::from_ref(&request.prompt), std::slice::from_ref(&answer));
    let response = run::response(&answer, usage, true);
    Ok(written(&Generated::of_local(&answer), response, begun))
}

/// The answer, after it was recorded.
fn written(generated: &Generated, response: ModelResponse, begun: Begun) -> Response<Body> {
    let mut answer = json(200, &generated.body());
    label(&mut answer, &begun);
    answered_by(&mut answer, response.answered_by.as_ref());
    note(&mut answer, &begun.end(Answer::Complete(Box::new(response)), None));
    answer
}

/// The answer of an endpoint that takes token ids as a prompt and returns token ids.
async fn forwarded(
    gateway: &Arc<Inner>,
    call: &Call,
    request: &GenerateRequest,
    (candidate, begun): (&Candidate, Begun),
) -> Result<Response<Body>, Refusal> {
    let Some((upstream, model, passes_key)) = candidate.source.speaks(Dialect::OpenAi) else {
        return Err(Refusal::new(ErrorKind::Internal, "the endpoint has another dialect"));
    };
    let body = Bytes::from(request.forwarded(model, gateway.config.max_tokens).to_string());
    let passes_key = passes_key && call.client.owner.is_empty();
    let bad = |why: String| Refusal { retry_after: Some(2), ..Refusal::new(ErrorKind::BadUpstream, why) };
    let waiting = call.observation.waits_for_model();
    let mut upstream = match upstream.post("/completions", &call.headers, passes_key, body).await {
        Ok(answer) => answer,
        Err(error) => return Ok(refused(call.shape, &bad(error.to_string()), begun)),
    };
    let bytes = match read_whole(gateway, &mut upstream).await {
        Ok(bytes) => bytes,
        Err(why) => return Ok(refused(call.shape, &bad(why), begun)),
    };
    drop(waiting);
    let text = String::from_utf8_lossy(&bytes);
    if upstream.status >= 300 {
        let mut answer = Response::new(Body::from(bytes.clone()));
        *answer.status_mut() = StatusCode::from_u16(upstream.status).unwrap_or(StatusCode::BAD_GATEWAY);
        *answer.headers_mut() = std::mem::take(&mut upstream.headers);
        label(&mut answer, &begun);
        let why = text.chars().take(exchange::ERROR_CHARACTERS).collect();
        note(&mut answer, &begun.end(Answer::Failed { status: upstream.status, why }, None));
        return Ok(answer);
    }
    match Generated::of_endpoint(&text, request) {
        Ok((generated, response)) => Ok(written(&generated, response, begun)),
        Err(error) => Ok(refused(call.shape, &Refusal::new(ErrorKind::BadUpstream, error.to_string()), begun)),
    }
}
