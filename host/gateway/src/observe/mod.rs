//! What an operator sees of a running gateway: counts as JSON and for Prometheus, events, traces, and the access log.
//!
//! Every request has an [`Observation`], which its parts fill in while it is answered. When the last part lets it go, the request is
//! counted. Nothing here waits, and nothing keeps what was said.

mod access_log;
mod body;
mod counts;
mod event_stream;
mod events;
mod histogram;
mod layer;
mod memory;
mod metrics;
mod observation;
mod route;
mod span;
mod stats;
mod trace_context;
mod traces;

pub use access_log::ACCESS_LOG;
pub(crate) use counts::Counter;
pub(crate) use event_stream::{next_id, stream_to_page};
pub(crate) use events::Events;
pub use events::{ExchangeEvent, GatewayEvent, ModelEvent, SessionEvent};
pub use histogram::Durations;
pub(crate) use layer::{monitoring, observed};
pub(crate) use observation::{Observation, Streaming};
pub(crate) use route::Route;
pub use stats::{AliasStats, GatewayStats, ModelStats, RequestStats, STATS_FORMAT};
pub(crate) use trace_context::TraceContext;
pub use traces::TraceSettings;
pub(crate) use traces::{Export, Exporting, Spans};

use crate::models::Candidate;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use clawhost_core::{Clock, KnownSecrets, escaped};
use counts::Counts;
use observation::Details;
use route::StatusClass;
use span::RequestSpans;
use std::sync::Arc;

/// Longest path in an event, in bytes.
const PATH_BYTES: usize = 200;

/// A model as events name it.
fn model(candidate: &Candidate) -> ModelEvent {
    let identity = candidate.source.identity();
    ModelEvent { provider: identity.provider, model: identity.model }
}

/// Observes a gateway.
pub(crate) struct Observer {
    pub(crate) counts: Counts,
    clock: Arc<dyn Clock>,
    /// The keys of the process, which no line shows.
    secrets: KnownSecrets,
    events: Arc<Events>,
    settings: Settings,
}

/// What is written about requests.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Whether the access log is.
    pub(crate) logs: bool,
    /// Where spans go.
    pub(crate) traces: Option<Spans>,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Observer {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        secrets: KnownSecrets,
        events: Arc<Events>,
        settings: Settings,
    ) -> Arc<Self> {
        Arc::new(Self { counts: Counts::default(), clock, secrets, events, settings })
    }

    /// An attempt at a model was answered.
    pub(crate) fn model_answered(&self, candidate: &Candidate) {
        if candidate.health.succeeded() {
            self.events.push(self.clock.now_ms(), None, GatewayEvent::ModelUp(model(candidate)));
        }
    }

    /// An attempt at a model was not answered.
    pub(crate) fn model_failed(&self, candidate: &Candidate) {
        if candidate.health.failed(self.now_us()) {
            self.events.push(self.clock.now_ms(), None, GatewayEvent::ModelDown(model(candidate)));
        }
    }

    /// The line of a request in the access log.
    fn line(&self, request: &Observation, details: &Details) -> String {
        let line = access_log::line(request, details, self.clock.now_ms());
        self.secrets.secrets().scrub(&line).into_owned()
    }

    /// The time on the monotonic clock in microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.monotonic_us()
    }

    /// The observation of a request.
    pub(crate) fn of(self: &Arc<Self>, parts: &Parts) -> Arc<Observation> {
        // The layer made one for every request.
        let made = parts.extensions.get::<Arc<Observation>>().cloned();
        made.unwrap_or_else(|| Observation::new(self.clone(), parts.method.clone(), parts.uri.path().to_owned(), None))
    }

    /// The place of a request in a trace, if traces are exported.
    pub(crate) fn trace(&self, headers: &HeaderMap) -> Option<TraceContext> {
        self.settings.traces.as_ref().and_then(|_| TraceContext::of(headers))
    }

    /// A request ended: logs and counts it.
    fn ended(&self, request: &Observation) {
        self.counts.active_requests.leave();
        let details = request.details();
        if self.settings.logs {
            tracing::info!(target: ACCESS_LOG, "{}", self.line(request, &details));
        }
        let counts = details.alias.as_ref().map_or(&self.counts.without_alias, |(_, counts)| counts);
        let status = request.status();
        counts.request(details.route, StatusClass::of(status));
        if let (Some(spans), Some(trace)) = (&self.settings.traces, &request.trace)
            && details.route != Route::Other
            && !spans.push(RequestSpans::of(request, trace, &details, self.clock.now_ms()))
        {
            self.counts.lost_spans.add(1);
        }
        if status == Some(401) && details.alias.is_none() {
            self.counts.refused_keys.add(1);
            let path = escaped(&request.path, PATH_BYTES);
            self.events.push(self.clock.now_ms(), None, GatewayEvent::KeyRefused { path });
        }
        if details.is_incomplete {
            counts.incomplete.add(1);
        }
        if let Some(usage) = details.usage {
            counts.input_tokens.add(usage.prompt_tokens);
            counts.output_tokens.add(usage.completion_tokens);
            if details.is_priced {
                counts.add_cost(usage.cost_micros);
            }
        }
        if details.alias.is_none() {
            return;
        }
        request.added_us().into_iter().for_each(|us| counts.added.count(us));
        request.first_us().into_iter().for_each(|us| counts.first_token.count(us));
        if request.upstream_us() > 0 {
            counts.upstream.count(request.upstream_us());
        }
    }
}
