//! The routes of trainers: they fetch batches, acknowledge them, and publish versions of the policy.

use super::body;
use super::native::reply;
use super::party::{self, caught_up, change, owner, read, trainer};
use super::view::{self, TRAINABLE};
use crate::http::{Inner, Refusal, body_of, json};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response};
use axum::routing::{get, post};
use clawhost_core::{BatchChange, BatchRow, Channel, FetchRequest, Picked, PoolChange, PoolOutcome};
use clawhost_wire::ErrorKind;
use serde::Deserialize;
use serde_json::{Value, json as value};
use std::sync::Arc;
use std::time::Duration;

type Shared = State<Arc<Inner>>;
type Answer = Result<Response<Body>, Refusal>;

/// Most groups of a batch and most members of a group, and most trajectories of both: they are answered at once.
const GROUPS: u64 = 1_024;
const MEMBERS: u64 = 256;
const TRAJECTORIES: u64 = 4_096;
/// Longest wait of a fetch in milliseconds: proxies close longer ones.
const LONGEST_WAIT: u64 = 60_000;
/// How often a waiting fetch looks again.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds for which a batch is held by default, and at most.
const LEASE: u64 = 600;
const LONGEST_LEASE: u64 = 7 * 24 * 3600;
/// Seconds without a step after which an open trajectory is dead by default.
const DEAD_AFTER: u64 = 3600;
/// Batches in a list.
const BATCHES: u64 = 100;

/// The routes.
pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new()
        .route("/v1/pool/fetch", post(fetch))
        .route("/v1/pool/preview", post(preview))
        .route("/v1/pool/batches", get(batches))
        .route("/v1/pool/batches/{id}/ack", post(acknowledge))
        .route("/v1/pool/batches/{id}/release", post(release))
        .route("/v1/pool/batches/{id}/extend", post(extend))
        .route("/v1/pool/policy", get(policy).post(publish))
        .route("/v1/pool/stats", get(stats))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fetch {
    owner: Option<String>,
    channel: Channel,
    #[serde(alias = "batch_size")]
    groups: u64,
    #[serde(alias = "n_rollouts")]
    members: u64,
    least_members: Option<u64>,
    dead_after_seconds: u64,
    #[serde(alias = "max_policy_staleness")]
    max_staleness: Option<u64>,
    partial: bool,
    lease_seconds: u64,
    wait_ms: u64,
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            owner: None,
            channel: Channel::Train,
            groups: 1,
            members: 1,
            least_members: None,
            dead_after_seconds: DEAD_AFTER,
            max_staleness: None,
            partial: false,
            lease_seconds: LEASE,
            wait_ms: 0,
        }
    }
}

impl Fetch {
    fn request(&self, reader: Option<String>, now: u64) -> Result<FetchRequest, Refusal> {
        let least = self.least_members.unwrap_or(self.members.min(2));
        let ranges = [
            ("groups", self.groups, 1, GROUPS),
            ("members", self.members, 1, MEMBERS),
            ("groups times members", self.groups.saturating_mul(self.members), 1, TRAJECTORIES),
            ("least_members", least, 1, self.members),
            ("lease_seconds", self.lease_seconds, 1, LONGEST_LEASE),
            ("wait_ms", self.wait_ms, 0, LONGEST_WAIT),
        ];
        for (what, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                let why = format!("{what}: must be from {least} to {most}");
                return Err(Refusal::new(ErrorKind::Unprocessable, why));
            }
        }
        Ok(FetchRequest {
            owner: reader.or_else(|| self.owner.clone()),
            channel: self.channel,
            groups: self.groups,
            members: self.members,
            least_members: least,
            dead_after_ms: self.dead_after_seconds.saturating_mul(1000),
            max_staleness: self.max_staleness,
            partial: self.partial,
            lease_ms: self.lease_seconds.saturating_mul(1000),
            now,
        })
    }
}

async fn fetch(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let reader = trainer(&gateway, &headers)?;
        let asked: Fetch = body::parse(&bytes)?;
        caught_up(&gateway).await?;
        let give_up = tokio::time::Instant::now() + Duration::from_millis(asked.wait_ms);
        let mut changes = gateway.pool_changes();
        loop {
            // What changes behind this line is seen by the next attempt.
            changes.mark_unchanged();
            let request = asked.request(reader.clone(), gateway.now_ms())?;
            let picked = match change(&gateway, PoolChange::Fetch(request)).await? {
                PoolOutcome::Picked(picked) => picked,
                _ => Picked::default(),
            };
            let now = tokio::time::Instant::now();
            if picked.batch.is_some() || now >= give_up {
                return shown(&gateway, picked, true).await;
            }
            // Nobody tells when a lease is over, or a trajectory dead.
            let _ = tokio::time::timeout_at(give_up.min(now + LOOK), changes.changed()).await;
        }
    };
    reply(answer.await)
}

/// The groups of a fetch, with the steps of their trajectories.
async fn shown(gateway: &Inner, picked: Picked, with_steps: bool) -> Answer {
    let shown = read(gateway, move |reader| {
        let mut groups = Vec::with_capacity(picked.groups.len());
        for group in &picked.groups {
            let trajectories = group.trajectories.iter().map(|row| match with_steps {
                true => view::trajectory(reader, row, TRAINABLE),
                false => Ok(view::row(row)),
            });
            let trajectories: Vec<Value> = trajectories.collect::<Result<_, _>>()?;
            groups.push(value!({
                "owner": group.owner, "group": group.group, "short": group.short, "trajectories": trajectories,
            }));
        }
        Ok(value!({
            "batch": picked.batch.map(|(number, _)| number),
            "lease_until": picked.batch.map(|(_, until)| until),
            "policy_version": picked.policy_version,
            "stale": picked.stale,
            "ready": picked.ready,
            "groups": groups,
        }))
    });
    Ok(json(200, &shown.await?))
}

async fn preview(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let reader = trainer(&gateway, &headers)?;
        let asked: Fetch = body::parse(&bytes)?;
        let request = asked.request(reader, gateway.now_ms())?;
        caught_up(&gateway).await?;
        let picked = read(&gateway, move |reader| reader.preview(&request)).await?;
        shown(&gateway, picked, false).await
    };
    reply(answer.await)
}

async fn batches(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        let reader = trainer(&gateway, &headers)?;
        let rows = read(&gateway, move |store| store.batches(reader.as_deref(), BATCHES)).await?;
        Ok(json(200, &value!({"object": "list", "data": rows})))
    };
    reply(answer.await)
}

/// Changes the batch that an address names.
async fn batch(gateway: &Inner, headers: &HeaderMap, id: &str, change: BatchChange) -> Result<BatchRow, Refusal> {
    let owner = trainer(gateway, headers)?;
    let none = || Refusal::new(ErrorKind::NotFound, "there is no such batch");
    let number = id.parse().map_err(|_| none())?;
    let change = PoolChange::Batch { owner, number, change, now: gateway.now_ms() };
    match party::change(gateway, change).await? {
        PoolOutcome::Batch(row) => Ok(row),
        _ => Err(none()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acknowledge {
    /// The version of the policy that was trained on the batch.
    policy_version: Option<u64>,
}

async fn acknowledge(State(gateway): Shared, Path(id): Path<String>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let Acknowledge { policy_version } = body::parse(&bytes)?;
        if policy_version.is_some() {
            gateway.access.admin(&headers)?;
        }
        let row = batch(&gateway, &headers, &id, BatchChange::Acknowledge).await?;
        if let Some(version) = policy_version {
            new_version(&gateway, version).await?;
        }
        Ok(json(200, &value!(row)))
    };
    reply(answer.await)
}

async fn release(State(gateway): Shared, Path(id): Path<String>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, _) = body_of(&gateway, request).await?;
        Ok(json(200, &value!(batch(&gateway, &headers, &id, BatchChange::Release).await?)))
    };
    reply(answer.await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Extend {
    lease_seconds: Option<u64>,
}

async fn extend(State(gateway): Shared, Path(id): Path<String>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let Extend { lease_seconds } = body::parse(&bytes)?;
        let seconds = lease_seconds.unwrap_or(LEASE);
        if !(1..=LONGEST_LEASE).contains(&seconds) {
            let why = format!("lease_seconds: must be from 1 to {LONGEST_LEASE}");
            return Err(Refusal::new(ErrorKind::Unprocessable, why));
        }
        let until = gateway.now_ms().saturating_add(seconds * 1000);
        Ok(json(200, &value!(batch(&gateway, &headers, &id, BatchChange::Extend(until)).await?)))
    };
    reply(answer.await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish {
    version: u64,
}

/// Publishes a version of the policy: what begins from now on was sampled by it.
async fn new_version(gateway: &Inner, version: u64) -> Result<(), Refusal> {
    change(gateway, PoolChange::Publish { version, at: gateway.now_ms() }).await?;
    gateway.recorder.set_policy_version(version);
    Ok(())
}

async fn publish(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        gateway.access.admin(&headers)?;
        let Publish { version } = body::parse(&bytes)?;
        new_version(&gateway, version).await?;
        Ok(json(200, &value!({"version": version})))
    };
    reply(answer.await)
}

async fn policy(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        owner(&gateway, &headers)?;
        let version = read(&gateway, |reader| reader.policy_version()).await?;
        Ok(json(200, &value!({"version": version})))
    };
    reply(answer.await)
}

async fn stats(State(gateway): Shared, headers: HeaderMap) -> Response<Body> {
    let answer = async {
        let reader = trainer(&gateway, &headers)?;
        caught_up(&gateway).await?;
        let (version, counts) =
            read(&gateway, move |store| Ok((store.policy_version()?, store.pool_counts(reader.as_deref())?))).await?;
        Ok(json(200, &value!({"policy_version": version, "channels": counts})))
    };
    reply(answer.await)
}
