//! Watches a running gateway: its counts, what follows from them, and its events.

use crate::admin_key::known_admin_key;
use crate::background::running_gateway;
use crate::{AppError, RequestError};
use clawhost_gateway::{Durations, GatewayEvent, GatewayStats, STATS_FORMAT};
use clawhost_providers::{GatewayClient, GatewayStream, UpstreamError};
use clawhost_wire::sse::{SseEvent, SseReader};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;

/// Largest document of counts in bytes: about two kilobytes for each alias.
const STATS_BYTES: usize = 16 << 20;

/// A gateway that is watched.
#[derive(Debug)]
pub struct GatewayWatch {
    client: GatewayClient,
}

/// The events of a gateway.
#[derive(Debug)]
pub struct GatewayEvents {
    stream: GatewayStream,
    reader: SseReader,
    waiting: VecDeque<SseEvent>,
}

/// An event as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SeenEvent {
    /// Unix time in milliseconds; 0 where the event has none.
    #[serde(default)]
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: GatewayEvent,
}

/// What follows from two readings of the counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewaySummary {
    /// Requests that ended, without those that asked for no model.
    pub requests: u64,
    /// Those whose status was an error.
    pub errors: u64,
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// What answers of models with prices cost, in millionths of a US dollar. `None`: there was none.
    pub cost_micros: Option<u64>,
    /// Rates between the two readings. `None`: there is only one.
    pub rates: Option<GatewayRates>,
    /// Median of the time that the gateway added in microseconds, between the two readings or since the start.
    pub added_p50_us: Option<f64>,
    /// The same at 99 of 100.
    pub added_p99_us: Option<f64>,
    /// Median of the time to the first token in microseconds.
    pub first_token_p50_us: Option<f64>,
}

/// Rates per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GatewayRates {
    /// Requests.
    pub requests: f64,
    /// Tokens of prompts.
    pub input_tokens: f64,
    /// Tokens of answers.
    pub output_tokens: f64,
}

fn not_answering(error: &UpstreamError) -> AppError {
    RequestError::GatewayDoesNotAnswer { why: error.to_string() }.into()
}

impl GatewayWatch {
    /// Watches the gateway at an address, or without one the gateway of a data folder. The key is the admin's of this folder.
    ///
    /// # Errors
    /// No gateway runs, or the data folder cannot be read.
    pub fn new(folder: &Path, address: Option<SocketAddr>) -> Result<Self, AppError> {
        let own = running_gateway(folder)?;
        let (address, certificate) = match (address, own) {
            // The folder's own gateway under another of its addresses.
            (Some(address), Some(own)) if address.port() == own.address.port() => (address, own.certificate),
            (Some(address), _) => (address, None),
            (None, Some(own)) => (own.address, own.certificate),
            (None, None) => return Err(RequestError::NoGateway { folder: folder.display().to_string() }.into()),
        };
        Ok(Self { client: GatewayClient::new(address, certificate, known_admin_key(folder)?)? })
    }

    /// The address that is asked.
    pub fn address(&self) -> SocketAddr {
        self.client.address()
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        self.client.origin()
    }

    /// The counts as they are now.
    ///
    /// # Errors
    /// The gateway does not answer, refuses, or is of another version.
    pub async fn stats(&self) -> Result<GatewayStats, AppError> {
        let bytes = self.client.get("/v1/stats", STATS_BYTES).await.map_err(|error| not_answering(&error))?;
        let other = |why: String| AppError::from(RequestError::GatewayDoesNotAnswer { why });
        let stats: GatewayStats = serde_json::from_slice(&bytes).map_err(|error| other(error.to_string()))?;
        match stats.format {
            STATS_FORMAT => Ok(stats),
            format => Err(other(format!("counts of format {format}; this program reads format {STATS_FORMAT}"))),
        }
    }

    /// The events from now on.
    ///
    /// # Errors
    /// The gateway does not answer, or refuses.
    pub async fn events(&self) -> Result<GatewayEvents, AppError> {
        let stream = self.client.follow("/v1/events").await.map_err(|error| not_answering(&error))?;
        Ok(GatewayEvents { stream, reader: SseReader::new(), waiting: VecDeque::new() })
    }
}

impl GatewayEvents {
    /// The next event. `None`: the gateway stops, or sends this reader away. Events of a kind that this program does not know are left out.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<Option<SeenEvent>, AppError> {
        loop {
            while let Some(event) = self.waiting.pop_front() {
                if let Ok(seen) = serde_json::from_str(&event.data) {
                    return Ok(Some(seen));
                }
            }
            let piece = self.stream.piece().await.map_err(|error| not_answering(&error))?;
            let Some(piece) = piece else { return Ok(None) };
            let wrong = |error: clawhost_wire::WireError| RequestError::GatewayDoesNotAnswer { why: error.to_string() };
            self.waiting.extend(self.reader.push(&piece).map_err(wrong)?);
        }
    }
}

/// The sums of all aliases.
#[derive(Default)]
struct Sums {
    requests: u64,
    errors: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_micros: Option<u64>,
    added: Durations,
    first_token: Durations,
}

impl Sums {
    fn of(stats: &GatewayStats) -> Self {
        let mut sums = Self::default();
        for alias in &stats.aliases {
            for of in alias.requests.iter().filter(|of| of.shape != "other") {
                sums.requests += of.count;
                sums.errors += if of.status == "2xx" { 0 } else { of.count };
            }
            sums.input_tokens += alias.input_tokens;
            sums.output_tokens += alias.output_tokens;
            let cost = alias.cost_micros.map(|micros| sums.cost_micros.unwrap_or(0).saturating_add(micros));
            sums.cost_micros = cost.or(sums.cost_micros);
            sums.added.add(&alias.added);
            sums.first_token.add(&alias.first_token);
        }
        sums
    }
}

impl GatewaySummary {
    /// What follows from a reading, and from an earlier one of the same start of the gateway.
    pub fn new(stats: &GatewayStats, earlier: Option<&GatewayStats>) -> Self {
        let now = Sums::of(stats);
        let earlier = earlier.filter(|earlier| earlier.start == stats.start && earlier.at_us < stats.at_us);
        let before = earlier.map(Sums::of).unwrap_or_default();
        let rates = earlier.map(|earlier| {
            let seconds = (stats.at_us - earlier.at_us) as f64 / 1e6;
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            GatewayRates {
                requests: rate(now.requests, before.requests),
                input_tokens: rate(now.input_tokens, before.input_tokens),
                output_tokens: rate(now.output_tokens, before.output_tokens),
            }
        });
        // Without requests between two readings, those since the start tell more than nothing.
        let latest = |now: &Durations, before: &Durations| {
            let since = now.since(before);
            if since.count() > 0 { since } else { now.clone() }
        };
        let added = latest(&now.added, &before.added);
        Self {
            requests: now.requests,
            errors: now.errors,
            input_tokens: now.input_tokens,
            output_tokens: now.output_tokens,
            cost_micros: now.cost_micros,
            rates,
            added_p50_us: added.quantile_us(0.5),
            added_p99_us: added.quantile_us(0.99),
            first_token_p50_us: latest(&now.first_token, &before.first_token).quantile_us(0.5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_gateway::{AliasStats, RequestStats};

    fn durations(counts: [u64; 2]) -> Durations {
        Durations { bounds_us: vec![100], counts: counts.to_vec(), sum_us: 0 }
    }

    fn stats(at_us: u64, requests: u64, added: [u64; 2]) -> GatewayStats {
        let of = |shape: &str, status: &str, count| RequestStats { shape: shape.into(), status: status.into(), count };
        GatewayStats {
            format: STATS_FORMAT,
            start: "1".into(),
            at_us,
            active_requests: 0,
            active_streams: 0,
            recorded: 0,
            missed: 0,
            spool_bytes: 0,
            open_sessions: 0,
            episodes: 0,
            router_failures: 0,
            refused_keys: 0,
            lost_spans: 0,
            memory_bytes: None,
            aliases: vec![AliasStats {
                alias: "m".into(),
                requests: vec![of("chat", "2xx", requests), of("chat", "5xx", 1), of("other", "4xx", 9)],
                incomplete: 0,
                input_tokens: 10 * requests,
                output_tokens: requests,
                cost_micros: None,
                added: durations(added),
                first_token: Durations::default(),
                upstream: Durations::default(),
            }],
            models: Vec::new(),
        }
    }

    #[test]
    fn rates_are_between_two_readings_of_one_start() {
        let (before, now) = (stats(1_000_000, 10, [10, 0]), stats(3_000_000, 30, [20, 10]));
        let summary = GatewaySummary::new(&now, Some(&before));
        assert_eq!((summary.requests, summary.errors, summary.input_tokens), (31, 1, 300));
        let rates = summary.rates.unwrap();
        assert_eq!((rates.requests, rates.input_tokens, rates.output_tokens), (10.0, 100.0, 10.0));
        assert_eq!(summary.added_p50_us, Some(100.0), "half of the new ones");
        let other = GatewayStats { start: "2".into(), ..before.clone() };
        assert_eq!(GatewaySummary::new(&now, Some(&other)).rates, None);
        assert_eq!(GatewaySummary::new(&now, Some(&now)).rates, None, "no time has passed");
        let idle = stats(4_000_000, 30, [20, 10]);
        assert_eq!(GatewaySummary::new(&idle, Some(&now)).added_p50_us, Some(75.0), "those since the start");
    }

    #[test]
    fn the_cost_is_the_sum_of_the_aliases_that_have_one() {
        let check = |costs: &[Option<u64>], expect: Option<u64>| {
            let mut stats = stats(1, 1, [1, 0]);
            let [alias] = stats.aliases.as_slice() else { panic!("one alias") };
            let alias = alias.clone();
            stats.aliases = costs.iter().map(|cost| AliasStats { cost_micros: *cost, ..alias.clone() }).collect();
            assert_eq!(GatewaySummary::new(&stats, None).cost_micros, expect, "{costs:?}");
        };
        check(&[None, None], None);
        check(&[Some(3), None], Some(3));
        check(&[None, Some(0)], Some(0));
        check(&[Some(3), None, Some(4)], Some(7));
    }

    #[tokio::test]
    async fn without_a_gateway_there_is_nothing_to_watch() {
        let folder = tempfile::tempdir().unwrap();
        let error = GatewayWatch::new(folder.path(), None).unwrap_err().to_string();
        assert!(error.ends_with("no gateway runs in this data folder"), "{error}");
        let watch = GatewayWatch::new(folder.path(), Some("127.0.0.1:1".parse().unwrap())).unwrap();
        let error = watch.stats().await.unwrap_err().to_string();
        assert!(error.starts_with("the gateway does not answer: 127.0.0.1:1 cannot be reached"), "{error}");
    }
}
