//! Cost on the page: what each model was asked since the start, and what each key has used today.

use super::login::Visitor;
use super::{Shared, for_admin, page, template};
use crate::http::KeyUse;
use crate::keys::dollars;
use crate::observe::{AliasStats, GatewayStats};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use serde::Serialize;

/// The traffic of a model since the start.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Traffic {
    alias: String,
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// In US dollars. `None`: the model has no prices.
    cost: Option<String>,
}

/// What a key has used today, beside what it may.
#[derive(Debug, Clone, Serialize)]
pub(super) struct KeyRow {
    name: String,
    tokens: u64,
    /// `None`: there is no limit; likewise below.
    most_tokens: Option<u64>,
    /// In US dollars.
    cost: String,
    most_cost: Option<String>,
}

/// Cost as the page shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CostShown {
    traffic: Vec<Traffic>,
    keys: Vec<KeyRow>,
}

fn traffic(stats: GatewayStats) -> Vec<Traffic> {
    let row = |alias: AliasStats| Traffic {
        requests: alias.requests.iter().map(|requests| requests.count).sum(),
        input_tokens: alias.input_tokens,
        output_tokens: alias.output_tokens,
        cost: alias.cost_micros.map(dollars),
        alias: alias.alias,
    };
    stats.aliases.into_iter().filter(|alias| !alias.alias.is_empty()).map(row).collect()
}

fn key(used: KeyUse) -> KeyRow {
    KeyRow {
        tokens: used.usage.tokens(),
        most_tokens: used.key.tokens_per_day,
        cost: dollars(used.usage.cost_micros),
        most_cost: used.key.usd_micros_per_day.map(dollars),
        name: used.key.name,
    }
}

/// Cost.
pub(super) async fn show(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let keys = gateway.access.used_today().into_iter().map(key).collect();
        let shown = CostShown { traffic: traffic(GatewayStats::of(&gateway)), keys };
        Ok(page(StatusCode::OK, template::cost(&shown, &visitor)))
    })
    .await
}
