//! The routes of trajectories: agents register, extend and end them, people read and curate them.

use super::party::{caught_up, changed, complete, owner, read, register, trainer};
use super::step::{STEPS_AT_ONCE, StepBody};
use super::view::{self, Steps};
use super::{body, export};
use crate::http::{Inner, Refusal, answered, body_of, json, no_trajectory, plain};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Response};
use axum::routing::{get, post};
use clawhost_core::{Channel, Curation, NewSteps, NewTrajectory, PoolChange, TrajectoryFilter, TrajectoryState};
use clawhost_wire::ErrorKind;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value, json as value};
use std::sync::Arc;

type Shared = State<Arc<Inner>>;
type Answer = Result<Response<Body>, Refusal>;

/// Largest metadata of a trajectory in bytes.
const METADATA_BYTES: usize = 64 << 10;
/// Longest word, tag or note in characters, and most tags.
const NOTE_CHARACTERS: usize = 2_000;
const TAGS: usize = 50;
/// Rows of a page by default, and at most.
const PAGE: u64 = 100;
const LARGEST_PAGE: u64 = 1_000;
/// What is escaped in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The routes.
pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new()
        .route("/v1/trajectories", post(create).get(list))
        .route("/v1/trajectories/{id}", get(show).patch(curate))
        .route("/v1/trajectories/{id}/steps", post(add_steps))
        .route("/v1/trajectories/{id}/complete", post(end))
        .route("/v1/pool/export", get(export::export))
}

pub(crate) fn reply(answer: Answer) -> Response<Body> {
    answered(clawhost_providers::Dialect::OpenAi, answer)
}

/// A name of a trajectory or a group from outside.
pub(crate) fn name(what: &str, text: &str) -> Result<String, Refusal> {
    let why = || Refusal::new(ErrorKind::InvalidRequest, format!("{what}: must be one short line"));
    plain(text).ok_or_else(why)
}

/// A name of a trajectory from outside. It stands first in the address of its agent.
pub(crate) fn trajectory(what: &str, text: &str) -> Result<String, Refusal> {
    match no_trajectory(text) {
        Some(why) => Err(Refusal::new(ErrorKind::InvalidRequest, format!("{what}: {why}"))),
        None => name(what, text),
    }
}

/// Metadata as it is stored.
pub(crate) fn metadata(given: Option<Map<String, Value>>) -> Result<Option<String>, Refusal> {
    let text = given.map(|metadata| Value::Object(metadata).to_string());
    match text {
        Some(text) if text.len() > METADATA_BYTES => {
            Err(Refusal::new(ErrorKind::TooLarge, format!("metadata: longer than {METADATA_BYTES} bytes")))
        }
        text => Ok(text),
    }
}

/// A reward from outside.
pub(crate) fn reward(given: Option<f64>) -> Result<Option<f64>, Refusal> {
    match given {
        Some(reward) if !reward.is_finite() => {
            Err(Refusal::new(ErrorKind::Unprocessable, "reward: must be a finite number"))
        }
        given => Ok(given),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    id: Option<String>,
    group: Option<String>,
    channel: Option<Channel>,
    metadata: Option<Map<String, Value>>,
}

async fn create(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let owner = owner(&gateway, &headers)?;
        let Create { id, group, channel, metadata: given } = body::parse(&bytes)?;
        let id = match id {
            Some(id) => trajectory("id", &id)?,
            None => gateway.new_id("t-"),
        };
        let group = group.map_or_else(|| Ok(id.clone()), |group| name("group", &group))?;
        let new = NewTrajectory { owner, id, group, channel, metadata: metadata(given)?, at: gateway.now_ms() };
        let row = register(&gateway, new).await?;
        let mut shown = view::row(&row);
        if let Some(object) = shown.as_object_mut() {
            object.insert("base_url".to_owned(), base_url(&gateway, &headers, (&row.id, &row.group)).into());
        }
        Ok(json(200, &shown))
    };
    reply(answer.await)
}

/// The base URL at which an agent's conversation becomes a trajectory: under the host that the client asked.
pub(crate) fn base_url(gateway: &Inner, headers: &HeaderMap, (id, group): (&str, &str)) -> String {
    let host = headers.get(axum::http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1");
    let part = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
    format!("{}://{host}/{}/{}/v1", gateway.scheme(), part(id), part(group))
}

/// The owner whose trajectory an address names: that of the client, or for the admin the one in the query.
async fn owner_of(gateway: &Inner, headers: &HeaderMap, query: &Owner) -> Result<String, Refusal> {
    match trainer(gateway, headers)? {
        Some(owner) => Ok(owner),
        None => Ok(query.owner.clone().unwrap_or_default()),
    }
}

#[derive(Debug, Default, Deserialize)]
struct Owner {
    owner: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    owner: Option<String>,
    channel: Option<Channel>,
    group: Option<String>,
    state: Option<String>,
    trainable: Option<bool>,
    quality: Option<String>,
    after: Option<u64>,
    limit: Option<u64>,
    /// Of an export.
    pub(super) format: Option<String>,
}

/// A query from an address.
pub(crate) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refusal> {
    query.map(|query| query.0).map_err(|error| Refusal::new(ErrorKind::InvalidRequest, error.body_text()))
}

impl ListQuery {
    /// The selection, of what a trainer may read.
    pub(super) fn filter(&self, reader: Option<String>) -> Result<TrajectoryFilter, Refusal> {
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=LARGEST_PAGE).contains(&limit) {
            return Err(Refusal::new(ErrorKind::InvalidRequest, format!("limit: must be from 1 to {LARGEST_PAGE}")));
        }
        let named = |name: &String| {
            let found = TrajectoryState::ALL.into_iter().find(|state| state.name() == name);
            found.ok_or_else(|| Refusal::new(ErrorKind::InvalidRequest, "state: open, complete, leased or consumed"))
        };
        Ok(TrajectoryFilter {
            owner: reader.or_else(|| self.owner.clone()),
            channel: self.channel,
            group: self.group.clone(),
            state: self.state.as_ref().map(named).transpose()?,
            trainable: self.trainable,
            quality: self.quality.clone(),
            after: self.after,
            limit,
        })
    }
}

async fn list(
    State(gateway): Shared,
    headers: HeaderMap,
    asked: Result<Query<ListQuery>, QueryRejection>,
) -> Response<Body> {
    let answer = async {
        let reader = trainer(&gateway, &headers)?;
        let mut filter = query(asked)?.filter(reader)?;
        caught_up(&gateway).await?;
        let most = filter.limit;
        filter.limit += 1;
        let mut rows = read(&gateway, move |reader| reader.trajectories(&filter)).await?;
        let has_more = rows.len() as u64 > most;
        rows.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let next = rows.last().filter(|_| has_more).map(|row| row.number);
        let data: Vec<Value> = rows.iter().map(view::row).collect();
        Ok(json(200, &value!({"object": "list", "data": data, "has_more": has_more, "next": next})))
    };
    reply(answer.await)
}

#[derive(Debug, Default, Deserialize)]
struct ShowQuery {
    owner: Option<String>,
    from: Option<u64>,
    limit: Option<u64>,
}

async fn show(
    State(gateway): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    asked: Result<Query<ShowQuery>, QueryRejection>,
) -> Response<Body> {
    let answer = async {
        let ShowQuery { owner, from, limit } = query(asked)?;
        let owner = owner_of(&gateway, &headers, &Owner { owner }).await?;
        caught_up(&gateway).await?;
        let limit = limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
        let which = Steps { from: from.unwrap_or(0), limit, only_trainable: false };
        let known = id.clone();
        let found = read(&gateway, move |reader| match reader.trajectory(&owner, &known)? {
            Some(row) => Ok(Some(view::trajectory(reader, &row, which)?)),
            None => Ok(None),
        });
        match found.await? {
            Some(shown) => Ok(json(200, &shown)),
            None => Err(unknown(&id)),
        }
    };
    reply(answer.await)
}

fn unknown(id: &str) -> Refusal {
    let shown: String = id.chars().take(100).collect();
    Refusal::new(ErrorKind::NotFound, format!("there is no trajectory `{shown}`"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddSteps {
    #[serde(default)]
    steps: Vec<StepBody>,
    /// Of steps that name none.
    policy_version: Option<u64>,
}

async fn add_steps(State(gateway): Shared, Path(id): Path<String>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let owner = owner(&gateway, &headers)?;
        let AddSteps { steps, policy_version } = body::parse(&bytes)?;
        let completes = steps.iter().any(|step| step.is_last);
        let steps = checked(steps, policy_version)?;
        let accepted = steps.len();
        let at = gateway.now_ms();
        let trajectory = NewTrajectory { owner, id, group: String::new(), channel: None, metadata: None, at };
        let new = NewSteps { trajectory, registers: false, steps, completes };
        let rows = changed(&gateway, PoolChange::Steps(vec![new])).await?;
        let count = rows.first().map(|row| row.steps);
        Ok(json(200, &value!({"accepted": accepted, "step_count": count})))
    };
    reply(answer.await)
}

/// Steps as they are stored.
pub(crate) fn checked(
    steps: Vec<StepBody>,
    policy_version: Option<u64>,
) -> Result<Vec<clawhost_core::NewStep>, Refusal> {
    if steps.len() > STEPS_AT_ONCE {
        return Err(Refusal::new(ErrorKind::TooLarge, format!("steps: more than {STEPS_AT_ONCE}")));
    }
    let placed = steps.into_iter().enumerate().map(|(at, step)| {
        step.into_step(policy_version)
            .map_err(|refusal| Refusal { message: format!("steps[{at}].{}", refusal.message), ..refusal })
    });
    placed.collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    reward: Option<f64>,
}

async fn end(State(gateway): Shared, Path(id): Path<String>, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let owner = owner(&gateway, &headers)?;
        let End { reward: given } = body::parse(&bytes)?;
        let row = complete(&gateway, owner, id, reward(given)?).await?;
        Ok(json(200, &view::row(&row)))
    };
    reply(answer.await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CurationBody {
    trainable: Option<bool>,
    quality: Option<String>,
    tags: Option<Vec<String>>,
    note: Option<String>,
    #[serde(default)]
    steps: Vec<StepCuration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepCuration {
    position: u64,
    trainable: bool,
}

async fn curate(
    State(gateway): Shared,
    Path(id): Path<String>,
    asked: Result<Query<Owner>, QueryRejection>,
    request: Request,
) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let owner = owner_of(&gateway, &headers, &query(asked)?).await?;
        let CurationBody { trainable, quality, tags, note, steps } = body::parse(&bytes)?;
        let texts = quality.iter().chain(tags.iter().flatten()).chain(&note);
        let is_long = texts.into_iter().any(|text| text.chars().count() > NOTE_CHARACTERS);
        if is_long || tags.as_ref().is_some_and(|tags| tags.len() > TAGS) || steps.len() > STEPS_AT_ONCE {
            let why = format!("at most {TAGS} tags, {NOTE_CHARACTERS} characters of a text, {STEPS_AT_ONCE} steps");
            return Err(Refusal::new(ErrorKind::TooLarge, why));
        }
        caught_up(&gateway).await?;
        let steps = steps.into_iter().map(|step| (step.position, step.trainable)).collect();
        let curation = Curation { trainable, quality, tags, note, steps };
        let rows = changed(&gateway, PoolChange::Curate { owner, id, curation }).await?;
        Ok(json(200, &rows.first().map(view::row).unwrap_or_default()))
    };
    reply(answer.await)
}
