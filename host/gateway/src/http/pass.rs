//! Requests that are passed on and not recorded, because no model says anything in them: embeddings, counts of tokens, the log-probs of
//! a given text.

use super::access::Client;
use super::answer::{MODEL, Refusal, json, set};
use super::body::read_whole;
use super::exchange::{unknown_model, utf8};
use super::serve::Inner;
use crate::models::ServedModel;
use crate::observe::Observation;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use clawhost_core::estimated_tokens;
use clawhost_providers::Dialect;
use clawhost_wire::splice::TopLevel;
use clawhost_wire::{ErrorKind, anthropic};
use serde_json::{Value, json as value};
use std::sync::Arc;

/// The header of a count that is an estimate.
const ESTIMATE: &str = "x-clawhost-estimate";

/// Passes a request on to an endpoint of its dialect, with the model's name there.
pub(crate) async fn forward(
    gateway: &Inner,
    served: &ServedModel,
    (dialect, path): (Dialect, &str),
    (client, headers, observation): (&Client, &HeaderMap, &Observation),
    body: &Bytes,
) -> Result<Response<Body>, Refusal> {
    let Some((candidate, (upstream, model, passes_key))) = served.passes_to(dialect) else {
        let why = format!("the model `{}` has no API for {path}", served.alias);
        return Err(Refusal::new(ErrorKind::InvalidRequest, why));
    };
    let top = TopLevel::of(utf8(body)?, &["model"])?;
    let body = match served.alias == model {
        true => body.clone(),
        false => Bytes::from(top.with(&[("model", Value::from(model).to_string())])),
    };
    let waiting = observation.waits_for_model();
    let mut answer = upstream
        .post(path, headers, passes_key && client.owner.is_empty(), body)
        .await
        .map_err(|error| Refusal { retry_after: Some(2), ..Refusal::new(ErrorKind::BadUpstream, error.to_string()) })?;
    let bytes = read_whole(gateway, &mut answer).await.map_err(|why| Refusal::new(ErrorKind::BadUpstream, why))?;
    drop(waiting);
    let mut passed = Response::new(Body::from(bytes));
    *passed.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *passed.headers_mut() = answer.headers;
    set(&mut passed, MODEL, &candidate.source.identity().model);
    Ok(passed)
}

fn named(gateway: &Inner, body: &Bytes, observation: &Observation) -> Result<Arc<ServedModel>, Refusal> {
    let top = TopLevel::of(utf8(body)?, &["model"])?;
    let alias: String = top
        .read("model")
        .ok_or_else(|| Refusal::new(ErrorKind::InvalidRequest, "model: must be the name of a model"))?;
    let served = gateway.models.find(&alias).ok_or_else(|| unknown_model(gateway, &alias))?;
    observation.alias(&alias);
    Ok(served)
}

/// `/embeddings`.
pub(crate) async fn embeddings(
    gateway: &Inner,
    asking: (&Client, &HeaderMap, &Observation),
    body: &Bytes,
) -> Result<Response<Body>, Refusal> {
    let served = named(gateway, body, asking.2)?;
    forward(gateway, &served, (Dialect::OpenAi, "/embeddings"), asking, body).await
}

/// `/messages/count_tokens`. For a model of another dialect it is an estimate, and a header says so.
pub(crate) async fn count_tokens(
    gateway: &Inner,
    asking: (&Client, &HeaderMap, &Observation),
    body: &Bytes,
) -> Result<Response<Body>, Refusal> {
    let served = named(gateway, body, asking.2)?;
    if served.routing.is_none()
        && served.candidates().any(|candidate| candidate.source.speaks(Dialect::Anthropic).is_some())
    {
        return forward(gateway, &served, (Dialect::Anthropic, "/messages/count_tokens"), asking, body).await;
    }
    // A count has no limit of tokens, which a request must have.
    let top = TopLevel::of(utf8(body)?, &[])?;
    let request = anthropic::read_request(&top.with(&[("max_tokens", "1".to_owned())]))?;
    let mut answer = json(200, &value!({"input_tokens": estimated_tokens(request.request.bytes())}));
    set(&mut answer, ESTIMATE, "4 bytes per token");
    set(&mut answer, MODEL, &served.first.source.identity().model);
    Ok(answer)
}
