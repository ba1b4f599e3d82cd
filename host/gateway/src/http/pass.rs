//! Requests that are passed on and not recorded, because no model says anything in them: embeddings, counts of tokens, the log-probs of
//! a given text.

use super::answer::{MODEL, Refusal, json, set};
use super::exchange::{read_whole, unknown_model, utf8};
use super::serve::Inner;
use crate::models::ServedModel;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use clawhost_core::estimated_tokens;
use clawhost_providers::Dialect;
use clawhost_wire::splice::TopLevel;
use clawhost_wire::{ErrorKind, anthropic};
use serde_json::{Value, json as value};

/// The header of a count that is an estimate.
const ESTIMATE: &str = "x-clawhost-estimate";

/// Passes a request on to an endpoint of its dialect, with the model's name there.
pub(crate) async fn forward(
    gateway: &Inner,
    served: &ServedModel,
    (dialect, path): (Dialect, &str),
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>, Refusal> {
    let Some((upstream, model, passes_key)) = served.source.speaks(dialect) else {
        let why = format!("the model `{}` has no API for {path}", served.alias);
        return Err(Refusal::new(ErrorKind::InvalidRequest, why));
    };
    let top = TopLevel::of(utf8(body)?, &["model"])?;
    let body = match served.alias == model {
        true => body.clone(),
        false => Bytes::from(top.with(&[("model", Value::from(model).to_string())])),
    };
    let mut answer = upstream
        .post(path, headers, passes_key, body)
        .await
        .map_err(|error| Refusal { retry_after: Some(2), ..Refusal::new(ErrorKind::BadUpstream, error.to_string()) })?;
    let bytes = read_whole(gateway, &mut answer).await.map_err(|why| Refusal::new(ErrorKind::BadUpstream, why))?;
    let mut passed = Response::new(Body::from(bytes));
    *passed.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *passed.headers_mut() = answer.headers;
    set(&mut passed, MODEL, &served.source.identity().model);
    Ok(passed)
}

fn named<'a>(gateway: &'a Inner, body: &Bytes) -> Result<&'a ServedModel, Refusal> {
    let top = TopLevel::of(utf8(body)?, &["model"])?;
    let alias: String = top
        .read("model")
        .ok_or_else(|| Refusal::new(ErrorKind::InvalidRequest, "model: must be the name of a model"))?;
    gateway.models.find(&alias).ok_or_else(|| unknown_model(gateway, &alias))
}

/// `/embeddings`.
pub(crate) async fn embeddings(gateway: &Inner, headers: &HeaderMap, body: &Bytes) -> Result<Response<Body>, Refusal> {
    forward(gateway, named(gateway, body)?, (Dialect::OpenAi, "/embeddings"), headers, body).await
}

/// `/messages/count_tokens`. For a model of another dialect it is an estimate, and a header says so.
pub(crate) async fn count_tokens(
    gateway: &Inner,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response<Body>, Refusal> {
    let served = named(gateway, body)?;
    if served.source.speaks(Dialect::Anthropic).is_some() {
        return forward(gateway, served, (Dialect::Anthropic, "/messages/count_tokens"), headers, body).await;
    }
    // A count has no limit of tokens, which a request must have.
    let top = TopLevel::of(utf8(body)?, &[])?;
    let request = anthropic::read_request(&top.with(&[("max_tokens", "1".to_owned())]))?;
    let mut answer = json(200, &value!({"input_tokens": estimated_tokens(request.request.bytes())}));
    set(&mut answer, ESTIMATE, "4 bytes per token");
    set(&mut answer, MODEL, &served.source.identity().model);
    Ok(answer)
}
