//! The spans of a request, with OpenTelemetry's semantic conventions for HTTP servers and for generative AI. Nothing that was said is in
//! them.

use super::observation::{Details, InRecord, Observation};
use super::route::Route;
use super::trace_context::TraceContext;
use clawhost_core::{LlmIdentity, Usage, escaped};
use serde_json::{Value, json};

/// Longest text of an attribute in bytes.
const TEXT_BYTES: usize = 200;
/// Nanoseconds of a microsecond and of a millisecond.
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Kinds of spans in OTLP.
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// The status of a span that failed in OTLP.
const ERROR: u8 = 2;

/// What is known of a request at its end, as it waits for its export.
#[derive(Debug)]
pub(crate) struct RequestSpans {
    trace: TraceContext,
    method: String,
    path: String,
    route: Route,
    alias: Option<String>,
    model: Option<LlmIdentity>,
    answered_by: Option<String>,
    owner: String,
    session: Option<String>,
    usage: Option<Usage>,
    record: InRecord,
    is_incomplete: bool,
    status: Option<u16>,
    added_us: Option<u64>,
    first_us: Option<u64>,
    /// Unix time in nanoseconds.
    began: u64,
    ended: u64,
    /// When models were asked, if any was.
    asked: Option<(u64, u64)>,
}

/// An attribute of OTLP.
fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": escaped(value, TEXT_BYTES)}})
}

fn number(key: &str, value: u64) -> Value {
    // Integers of 64 bits are texts in the JSON of OTLP.
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

impl Route {
    /// The operation in the terms of OpenTelemetry.
    fn operation(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses | Self::Messages => "chat",
            Self::Completions => "text_completion",
            Self::Embeddings => "embeddings",
            Self::CountTokens => "count_tokens",
            Self::Other => "other",
        }
    }
}

impl RequestSpans {
    /// The spans of a request that ends at a Unix time in milliseconds.
    pub(crate) fn of(request: &Observation, trace: &TraceContext, details: &Details, now_ms: u64) -> Self {
        let now_us = request.observer.now_us();
        let ended = now_ms.saturating_mul(MS);
        let at = |us: u64| ended.saturating_sub(now_us.saturating_sub(us).saturating_mul(US));
        Self {
            trace: trace.clone(),
            method: request.method.to_string(),
            path: request.path.clone(),
            route: details.route,
            alias: details.alias.as_ref().map(|(alias, _)| alias.clone()),
            model: details.model.clone(),
            answered_by: details.answered_by.clone(),
            owner: details.owner.clone(),
            session: details.session.clone(),
            usage: details.usage,
            record: details.record,
            is_incomplete: details.is_incomplete,
            status: request.status(),
            added_us: request.added_us(),
            first_us: request.first_us(),
            began: at(request.began_us),
            ended,
            asked: request.asked().map(|(from, until)| (at(from), at(until))),
        }
    }

    /// Whether the caller wants them recorded.
    pub(crate) fn is_sampled(&self) -> bool {
        self.trace.is_sampled
    }

    /// The error, if it is one.
    fn error(&self) -> Option<String> {
        match self.status {
            None => Some("closed".to_owned()),
            Some(status) if status >= 400 => Some(status.to_string()),
            Some(_) if self.is_incomplete => Some("incomplete".to_owned()),
            Some(_) => None,
        }
    }

    fn span(&self, ids: (&str, Option<&str>), of: (String, u8), time: (u64, u64), mut attributes: Vec<Value>) -> Value {
        let mut span = json!({
            "traceId": self.trace.trace,
            "spanId": ids.0,
            "name": of.0,
            "kind": of.1,
            "startTimeUnixNano": time.0.to_string(),
            "endTimeUnixNano": time.1.to_string(),
        });
        let error = self.error();
        attributes.extend(error.as_deref().map(|error| text("error.type", error)));
        if let Some(fields) = span.as_object_mut() {
            fields.extend(ids.1.map(|parent| ("parentSpanId".to_owned(), Value::from(parent))));
            // An error of the client is none of the server, in the conventions for HTTP.
            let is_own = of.1 == CLIENT || !matches!(self.status, Some(400..500));
            fields.extend(error.filter(|_| is_own).map(|_| ("status".to_owned(), json!({"code": ERROR}))));
            fields.insert("attributes".to_owned(), Value::Array(attributes));
        }
        span
    }

    /// The span of the request.
    fn request(&self) -> Value {
        let mut attributes = vec![text("http.request.method", &self.method), text("url.path", &self.path)];
        attributes.extend(self.status.map(|status| number("http.response.status_code", u64::from(status))));
        attributes.extend(self.alias.as_deref().map(|alias| text("clawhost.alias", alias)));
        attributes
            .extend(Some(self.owner.as_str()).filter(|owner| !owner.is_empty()).map(|key| text("clawhost.key", key)));
        attributes.extend(self.added_us.map(|us| number("clawhost.added_us", us)));
        let record = match self.record {
            InRecord::None => None,
            InRecord::Off => Some("off"),
            InRecord::Recorded => Some("recorded"),
            InRecord::Missed => Some("missed"),
        };
        attributes.extend(record.map(|record| text("clawhost.record", record)));
        let name = format!("{} {}", self.method, self.route.name());
        let parent = self.trace.parent.as_deref();
        self.span((&self.trace.request, parent), (name, SERVER), (self.began, self.ended), attributes)
    }

    /// The span of the model's part.
    fn model(&self, time: (u64, u64)) -> Value {
        let operation = self.route.operation();
        let asked = self.model.as_ref().map(|model| model.model.as_str()).or(self.alias.as_deref()).unwrap_or_default();
        let mut attributes = vec![text("gen_ai.operation.name", operation), text("gen_ai.request.model", asked)];
        attributes.extend(self.model.as_ref().map(|model| text("gen_ai.provider.name", &model.provider)));
        attributes.extend(self.answered_by.as_deref().map(|model| text("gen_ai.response.model", model)));
        attributes.extend(self.session.as_deref().map(|session| text("gen_ai.conversation.id", session)));
        if let Some(usage) = self.usage {
            attributes.push(number("gen_ai.usage.input_tokens", usage.prompt_tokens));
            attributes.push(number("gen_ai.usage.output_tokens", usage.completion_tokens));
        }
        attributes.extend(self.first_us.map(|us| number("clawhost.first_token_us", us)));
        let name = format!("{operation} {}", escaped(asked, TEXT_BYTES));
        self.span((&self.trace.model, Some(&self.trace.request)), (name, CLIENT), time, attributes)
    }

    /// Both spans.
    fn written(&self) -> impl Iterator<Item = Value> {
        std::iter::once(self.request()).chain(self.asked.map(|time| self.model(time)))
    }
}

/// A batch as a document of OTLP.
pub(crate) fn document(service: &str, batch: &[RequestSpans]) -> Value {
    let spans: Vec<Value> = batch.iter().flat_map(RequestSpans::written).collect();
    let version = env!("CARGO_PKG_VERSION");
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", service), text("service.version", version)]},
        "scopeSpans": [{"scope": {"name": "clawhost-gateway", "version": version}, "spans": spans}],
    }]})
}
