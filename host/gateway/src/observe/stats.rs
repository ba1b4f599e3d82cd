//! The counts of a gateway as one document. Everything in it only grows, except for what is there now; rates are differences of two
//! documents.

use super::histogram::Durations;
use super::memory;
use crate::http::Inner;
use crate::models::Health;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The format of the document.
pub const STATS_FORMAT: u32 = 1;

/// The counts of a gateway since its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStats {
    /// [`STATS_FORMAT`] of the writer.
    pub format: u32,
    /// Which start of a gateway this is: counts of another one cannot be compared.
    pub start: String,
    /// Microseconds on the gateway's monotonic clock.
    pub at_us: u64,
    /// Requests that are under way, streams included.
    pub active_requests: u64,
    /// Streams that are under way.
    pub active_streams: u64,
    /// Exchanges that were recorded.
    pub recorded: u64,
    /// Exchanges that could not be recorded.
    pub missed: u64,
    /// Bytes of exchanges that are not in the database yet.
    pub spool_bytes: u64,
    /// Sessions that are open.
    pub open_sessions: u64,
    /// Sessions that became episodes.
    pub episodes: u64,
    /// Choices that a router, or the plugin of it, did not make: the incumbent or the first candidate was asked.
    pub router_failures: u64,
    /// Requests whose key was missing or wrong.
    pub refused_keys: u64,
    /// Requests whose spans were not exported: too many waited, or the collector did not take them.
    pub lost_spans: u64,
    /// Resident memory of the process, where the system tells it.
    pub memory_bytes: Option<u64>,
    /// Counts by alias, and first those of requests without one under an empty name.
    pub aliases: Vec<AliasStats>,
    /// The models that may be asked.
    pub models: Vec<ModelStats>,
}

/// The counts of an alias.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AliasStats {
    /// The alias.
    pub alias: String,
    /// Requests by shape and status.
    pub requests: Vec<RequestStats>,
    /// Answers that were not whole, whatever status their head had.
    pub incomplete: u64,
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// What answers of models with prices cost, in millionths of a US dollar. `None`: there was none.
    pub cost_micros: Option<u64>,
    /// Time that the gateway added to an answer, or to the head of a stream: all but the time of the client's body and of models.
    pub added: Durations,
    /// Time from the request to the first token of a stream.
    pub first_token: Durations,
    /// Time of the models, for a stream until its end.
    pub upstream: Durations,
}

/// A number of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestStats {
    /// What they asked for: `chat`, `responses`, `completions`, `messages`, `embeddings`, `count_tokens` or `other`.
    pub shape: String,
    /// The class of their status (`2xx` to `5xx`), or `closed` where the client has gone before.
    pub status: String,
    /// How many.
    pub count: u64,
}

/// A model that may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelStats {
    /// An alias that asks it.
    pub alias: String,
    /// Its kind, as `openai`.
    pub provider: String,
    /// Its name there.
    pub model: String,
    /// Attempts to get an answer from it.
    pub attempts: u64,
    /// Those that gave none.
    pub failures: u64,
    /// Whether it rests after failures in a row, while another one can answer.
    pub is_down: bool,
}

impl GatewayStats {
    /// The counts of a gateway.
    pub(crate) fn of(gateway: &Inner) -> Self {
        let (recorder, counts) = (&gateway.recorder, &gateway.observer.counts);
        let aliases = counts.all().into_iter().map(|(alias, counts)| {
            let requests = counts.requests().map(|(route, class, count)| RequestStats {
                shape: route.name().to_owned(),
                status: class.name().to_owned(),
                count,
            });
            AliasStats {
                alias,
                requests: requests.collect(),
                incomplete: counts.incomplete.get(),
                input_tokens: counts.input_tokens.get(),
                output_tokens: counts.output_tokens.get(),
                cost_micros: counts.cost_micros(),
                added: counts.added.read(),
                first_token: counts.first_token.read(),
                upstream: counts.upstream.read(),
            }
        });
        Self {
            format: STATS_FORMAT,
            start: gateway.start_name(),
            at_us: gateway.now_us(),
            active_requests: counts.active_requests.get(),
            active_streams: counts.active_streams.get(),
            recorded: recorder.counts.recorded.load(Ordering::Relaxed),
            missed: recorder.counts.missed.load(Ordering::Relaxed),
            spool_bytes: recorder.spool.backlog(),
            open_sessions: recorder.sessions() as u64,
            episodes: recorder.counts.episodes.load(Ordering::Relaxed),
            router_failures: recorder.counts.unrouted.load(Ordering::Relaxed),
            refused_keys: counts.refused_keys.get(),
            lost_spans: counts.lost_spans.get(),
            memory_bytes: memory::resident_bytes(),
            aliases: aliases.collect(),
            models: models(gateway),
        }
    }
}

/// The models, each once: several aliases may ask one.
fn models(gateway: &Inner) -> Vec<ModelStats> {
    let (now_us, all) = (gateway.now_us(), gateway.models.all());
    let mut seen: Vec<Arc<Health>> = Vec::new();
    let mut found = Vec::new();
    // An alias of a single model names it better than a list does.
    for lists in [false, true] {
        for served in all.iter().filter(|served| lists != served.then.is_empty()) {
            for candidate in served.candidates() {
                if seen.iter().any(|health| Arc::ptr_eq(health, &candidate.health)) {
                    continue;
                }
                seen.push(candidate.health.clone());
                let identity = candidate.source.identity();
                found.push(ModelStats {
                    alias: served.alias.clone(),
                    provider: identity.provider,
                    model: identity.model,
                    attempts: candidate.health.attempts.get(),
                    failures: candidate.health.failures.get(),
                    is_down: candidate.health.breaker.is_open(now_us),
                });
            }
        }
    }
    found
}
