//! The layer that observes every request, and the routes on which the result is read.

use super::body::ObservedBody;
use super::stats::GatewayStats;
use super::trace_context::TRACE_PARENT;
use super::{Observation, event_stream, metrics};
use crate::http::{Inner, Refusal};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::middleware::Next;
use axum::routing::get;
use clawhost_providers::Dialect;
use clawhost_wire::ErrorKind;
use std::sync::Arc;

/// Observes a request until its answer was sent.
pub(crate) async fn observed(State(gateway): State<Arc<Inner>>, mut request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let trace = gateway.observer.trace(request.headers());
    let observation = Observation::new(gateway.observer.clone(), request.method().clone(), path, trace);
    if let Some(trace) = &observation.trace {
        // What is forwarded names the model's part as its parent.
        request.headers_mut().insert(TRACE_PARENT, trace.header());
    }
    request.extensions_mut().insert(observation.clone());
    let answer = next.run(request).await;
    observation.head(answer.status().as_u16());
    answer.map(|body| Body::new(ObservedBody { body, observation }))
}

/// The routes that show what was observed. They are not observed themselves.
pub(crate) fn monitoring() -> Router<Arc<Inner>> {
    Router::new().route("/metrics", get(metrics)).route("/v1/stats", get(stats)).route("/v1/events", get(events))
}

/// The counts, for those who may read them: the admin, and on a gateway that serves this machine alone, its clients.
fn readable(gateway: &Inner, headers: &HeaderMap) -> Result<GatewayStats, Refusal> {
    gateway.guard.address(headers)?;
    gateway.access.reads_counts(headers)?;
    Ok(GatewayStats::of(gateway))
}

async fn metrics(State(gateway): State<Arc<Inner>>, headers: HeaderMap) -> Response<Body> {
    let stats = match readable(&gateway, &headers) {
        Ok(stats) => stats,
        Err(refusal) => return refusal.answer(Dialect::OpenAi),
    };
    let mut answer = Response::new(Body::from(metrics::page(&stats)));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    answer
}

async fn events(State(gateway): State<Arc<Inner>>, headers: HeaderMap) -> Response<Body> {
    event_stream::stream(&gateway, headers).unwrap_or_else(|refusal| refusal.answer(Dialect::OpenAi))
}

async fn stats(State(gateway): State<Arc<Inner>>, headers: HeaderMap) -> Response<Body> {
    let internal = |error: serde_json::Error| Refusal::new(ErrorKind::Internal, error.to_string());
    let shown = readable(&gateway, &headers).and_then(|stats| serde_json::to_value(&stats).map_err(internal));
    match shown {
        Ok(document) => crate::http::json(200, &document),
        Err(refusal) => refusal.answer(Dialect::OpenAi),
    }
}
