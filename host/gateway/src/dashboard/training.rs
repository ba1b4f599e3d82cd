//! Training on the page: weights that learn while they serve, and the data pool of trainers outside.

use super::login::Visitor;
use super::playbook::unavailable;
use super::{Shared, for_admin, for_form, go_to, page, template};
use crate::http::{Inner, Refusal};
use crate::learned::WeightsView;
use crate::pool::read;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use clawhost_core::ChannelCounts;
use clawhost_wire::ErrorKind;
use serde::Serialize;
use std::collections::HashMap;

/// Where this page is.
const TRAINING: &str = "/dashboard/training";

/// Training as the page shows it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TrainingShown {
    weights: Option<WeightsView>,
    channels: Vec<ChannelCounts>,
}

/// The weights that learn.
async fn weights_of(gateway: &Inner) -> Result<Option<WeightsView>, Refusal> {
    match gateway.learned.as_deref() {
        Some(learned) => learned.weights().await.map_err(unavailable),
        None => Ok(None),
    }
}

/// Training.
pub(super) async fn show(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let weights = weights_of(&gateway).await?;
        // What was answered a moment ago is shown. If the store is busy, the page shows what it has.
        let _ = gateway.recorder.caught_up().await;
        let channels = read(&gateway, |reader| reader.pool_counts(None)).await?;
        let shown = TrainingShown { weights, channels };
        Ok(page(StatusCode::OK, template::training(&shown, &visitor)))
    })
    .await
}

/// Asks whether an earlier version of weights shall be served again.
pub(super) async fn ask(
    State(gateway): Shared,
    Path(number): Path<u64>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response<Body> {
    for_admin(&gateway, &headers, async |visitor: Visitor| {
        let scope = query.get("scope").map(String::as_str);
        let weights = weights_of(&gateway).await?;
        let is_shown = |weights: &WeightsView| {
            let mut own = weights.steps.iter().filter(|step| step.scope.as_deref() == scope);
            // The configured weights are no step.
            if number == 0 {
                return if scope.is_some() { own.any(|step| step.serves) } else { weights.serves.is_some() };
            }
            own.any(|step| step.number == number && step.is_on_disk && !step.serves && !step.is_withdrawn)
        };
        let weights = weights.filter(is_shown).ok_or_else(|| {
            let why = format!("version {number} of the weights answers already, or it is not on disk any more");
            Refusal::new(ErrorKind::NotFound, why)
        })?;
        Ok(page(StatusCode::OK, template::weights_rollback(&weights, scope, number, &visitor)))
    })
    .await
}

/// Serves an earlier version of weights again.
pub(super) async fn serve(State(gateway): Shared, Path(number): Path<u64>, request: Request) -> Response<Body> {
    for_form(&gateway, request, async |_, fields| {
        let learned = gateway.learned.as_deref();
        let learned = learned.ok_or_else(|| Refusal::new(ErrorKind::NotFound, "no weights learn here"))?;
        let scope = fields.get("scope").map(String::as_str);
        learned.serve_weights(scope, number).await.map_err(|why| Refusal::new(ErrorKind::Conflict, why))?;
        Ok(go_to(TRAINING))
    })
    .await
}
