//! Who may do what with the data pool.

use crate::http::{Inner, Refusal};
use axum::http::HeaderMap;
use clawhost_core::{NewTrajectory, PoolChange, PoolOutcome, PoolRefusal, StoreError, TrajectoryRow};
use clawhost_wire::ErrorKind;
use std::sync::Arc;

/// The owner of what a client registers and submits: the name of its key. The admin works with what has no owner.
pub(crate) fn owner(gateway: &Inner, headers: &HeaderMap) -> Result<String, Refusal> {
    gateway.guard.address(headers)?;
    if gateway.access.admin(headers).is_ok() {
        return Ok(String::new());
    }
    Ok(gateway.access.client(headers)?.owner)
}

/// The owner whose trajectories a trainer may read: its own. `None`: all, for the admin.
pub(crate) fn trainer(gateway: &Inner, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    gateway.guard.address(headers)?;
    if gateway.access.admin(headers).is_ok() {
        return Ok(None);
    }
    match gateway.access.client(headers)?.owner {
        owner if owner.is_empty() => {
            let why = "the admin's key or a client's key is needed, in the header Authorization or x-api-key";
            Err(Refusal::new(ErrorKind::Unauthenticated, why))
        }
        owner => Ok(Some(owner)),
    }
}

/// The answer for a store that failed.
pub(crate) fn failed(error: &StoreError) -> Refusal {
    tracing::error!("the data pool: {error}");
    Refusal { retry_after: Some(1), ..Refusal::new(ErrorKind::Unavailable, format!("the data pool: {error}")) }
}

/// The answer for a change that was refused.
fn refused(refusal: &PoolRefusal) -> Refusal {
    let kind = match refusal {
        PoolRefusal::NoTrajectory(_) | PoolRefusal::NoStep { .. } | PoolRefusal::NoBatch(_) => ErrorKind::NotFound,
        PoolRefusal::TooManySteps { .. } => ErrorKind::TooLarge,
        PoolRefusal::Ended(_)
        | PoolRefusal::OtherGroup { .. }
        | PoolRefusal::OtherReward(_)
        | PoolRefusal::OtherStep { .. }
        | PoolRefusal::Gap { .. }
        | PoolRefusal::Captured(_)
        | PoolRefusal::BatchOver { .. }
        | PoolRefusal::OldVersion { .. } => ErrorKind::Conflict,
    };
    Refusal::new(kind, refusal.to_string())
}

/// Makes a change.
pub(crate) async fn change(gateway: &Inner, change: PoolChange) -> Result<PoolOutcome, Refusal> {
    let makes_ready = !matches!(change, PoolChange::Fetch(_) | PoolChange::Publish { .. });
    match gateway.store.pool.change_pool(change).await {
        Ok(PoolOutcome::Refused(refusal)) => Err(refused(&refusal)),
        Ok(outcome) => {
            if makes_ready {
                gateway.pool_changed();
            }
            Ok(outcome)
        }
        Err(error) => Err(failed(&error)),
    }
}

/// The trajectories that a change concerned.
pub(crate) async fn changed(gateway: &Inner, what: PoolChange) -> Result<Vec<TrajectoryRow>, Refusal> {
    match change(gateway, what).await? {
        PoolOutcome::Trajectories(rows) => Ok(rows),
        _ => Ok(Vec::new()),
    }
}

/// Registers a trajectory.
pub(crate) async fn register(gateway: &Inner, new: NewTrajectory) -> Result<TrajectoryRow, Refusal> {
    let id = new.id.clone();
    let rows = changed(gateway, PoolChange::Register(new)).await?;
    rows.into_iter().next().ok_or_else(|| refused(&PoolRefusal::NoTrajectory(id)))
}

/// Ends a trajectory, and its session if the gateway captures it: then its episode is recorded before this returns.
pub(crate) async fn complete(
    gateway: &Arc<Inner>,
    owner: String,
    id: String,
    reward: Option<f64>,
) -> Result<TrajectoryRow, Refusal> {
    // Its last exchange may be under way to the store.
    caught_up(gateway).await?;
    let at = gateway.now_ms();
    let change = PoolChange::Complete { owner: owner.clone(), id: id.clone(), reward, at };
    let rows = changed(gateway, change).await?;
    let row = rows.into_iter().next().ok_or_else(|| refused(&PoolRefusal::NoTrajectory(id.clone())))?;
    if row.episode.is_some() {
        gateway.recorder.end((&owner, None), &id);
        caught_up(gateway).await?;
        gateway.pool_changed();
    }
    Ok(row)
}

/// Waits until everything captured before is in the store.
pub(crate) async fn caught_up(gateway: &Inner) -> Result<(), Refusal> {
    if gateway.recorder.caught_up().await {
        return Ok(());
    }
    let why = "captured exchanges cannot be written to the database now";
    Err(Refusal { retry_after: Some(5), ..Refusal::new(ErrorKind::Unavailable, why) })
}

/// Reads the store off the executor.
pub(crate) async fn read<T: Send + 'static>(
    gateway: &Inner,
    read: impl FnOnce(&dyn clawhost_core::StoreReader) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Refusal> {
    let store = gateway.store.clone();
    let work = move || store.reader().and_then(|reader| read(reader.as_ref()));
    match tokio::task::spawn_blocking(work).await {
        Ok(found) => found.map_err(|error| failed(&error)),
        Err(_) => Err(Refusal::new(ErrorKind::Internal, "the gateway is stopping")),
    }
}
