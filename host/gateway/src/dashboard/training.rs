//! Training on the page: weights that learn while they serve, the data pool of trainers outside, and what models cost.

use super::login::Visitor;
use super::playbook::unavailable;
use super::{Shared, for_admin, page, template};
use crate::learned::WeightsView;
use crate::observe::GatewayStats;
use crate::pool::read;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use clawhost_core::ChannelCounts;
use serde::Serialize;

/// Millionths of a US dollar in one.
const MICROS: f64 = 1e6;

/// The traffic of a model since the start.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Traffic {
    alias: String,
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost: Option<String>,
}

/// Training as the page shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TrainingShown {
    weights: Option<WeightsView>,
    channels: Vec<ChannelCounts>,
    traffic: Vec<Traffic>,
}

fn traffic(stats: GatewayStats) -> Vec<Traffic> {
    let row = |alias: crate::observe::AliasStats| Traffic {
        requests: alias.requests.iter().map(|requests| requests.count).sum(),
        input_tokens: alias.input_tokens,
        output_tokens: alias.output_tokens,
        cost: alias.cost_micros.map(|micros| format!("{:.4}", micros as f64 / MICROS)),
        alias: alias.alias,
    };
    stats.aliases.into_iter().filter(|alias| !alias.alias.is_empty()).map(row).collect()
}

/// Training.
pub(super) async fn show(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let weights = match gateway.learned.as_deref() {
            Some(learned) => learned.weights().await.map_err(unavailable)?,
            None => None,
        };
        // What was answered a moment ago is shown. If the store is busy, the page shows what it has.
        let _ = gateway.recorder.caught_up().await;
        let channels = read(&gateway, |reader| reader.pool_counts(None)).await?;
        let shown = TrainingShown { weights, channels, traffic: traffic(GatewayStats::of(&gateway)) };
        Ok(page(StatusCode::OK, template::training(&shown, &visitor)))
    })
    .await
}
