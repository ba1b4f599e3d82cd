//! The routes of Claw-R1's clients: trajectories and prompt groups in the path, steps as tokens.
//!
//! Where Claw-R1 answers `ok` to what it drops, this answers with an error.

use super::body;
use super::native::{base_url, checked, metadata, name, query, reply, reward, trajectory};
use super::party::{changed, complete, owner, register};
use super::step::StepBody;
use crate::http::{Inner, Refusal, body_of, json};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::Response;
use axum::routing::post;
use clawhost_core::{Channel, NewSteps, NewTrajectory, PoolChange};
use clawhost_wire::ErrorKind;
use serde::Deserialize;
use serde_json::{Map, Value, json as value};
use std::sync::Arc;

type Shared = State<Arc<Inner>>;

pub(crate) fn routes() -> Router<Arc<Inner>> {
    Router::new()
        .route("/init_trajectory", post(init))
        .route("/submit_steps", post(submit_steps))
        .route("/complete_trajectory/{session}", post(complete_named))
        .route("/{session}/{group}/v1/register_trajectory", post(register_trajectory))
        .route("/{session}/{group}/v1/complete_trajectory", post(complete_trajectory))
}

async fn init(State(gateway): Shared, request: Request) -> Response<Body> {
    let answer = async {
        let (headers, _) = body_of(&gateway, request).await?;
        owner(&gateway, &headers)?;
        let id = gateway.new_id("t-");
        // It is registered by its first call: the client replaces the group in the address.
        Ok(json(
            200,
            &value!({"trajectory_uid": id, "prompt_uid": id, "base_url": base_url(&gateway, &headers, (&id, &id))}),
        ))
    };
    reply(answer.await)
}

#[derive(Deserialize)]
struct Register {
    channel: Option<Channel>,
    metadata: Option<Map<String, Value>>,
}

async fn register_trajectory(
    State(gateway): Shared,
    Path((id, group)): Path<(String, String)>,
    request: Request,
) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let owner = owner(&gateway, &headers)?;
        let Register { channel, metadata: given } = body::parse(&bytes)?;
        let (id, group) = (trajectory("trajectory", &id)?, name("group", &group)?);
        let new = NewTrajectory { owner, id, group, channel, metadata: metadata(given)?, at: gateway.now_ms() };
        register(&gateway, new).await?;
        Ok(json(200, &value!({"status": "ok"})))
    };
    reply(answer.await)
}

#[derive(Deserialize)]
struct Complete {
    reward: Option<f64>,
    // The channel is that of the registration. Claw-R1's clients repeat it here.
}

async fn complete_trajectory(
    State(gateway): Shared,
    Path((id, _)): Path<(String, String)>,
    request: Request,
) -> Response<Body> {
    reply(completed(&gateway, id, request).await)
}

async fn complete_named(State(gateway): Shared, Path(id): Path<String>, request: Request) -> Response<Body> {
    reply(completed(&gateway, id, request).await)
}

async fn completed(gateway: &Arc<Inner>, id: String, request: Request) -> Result<Response<Body>, Refusal> {
    let (headers, bytes) = body_of(gateway, request).await?;
    let owner = owner(gateway, &headers)?;
    let Complete { reward: given } = body::parse(&bytes)?;
    let row = complete(gateway, owner, id, reward(given)?).await?;
    Ok(json(200, &value!({"status": "ok", "step_count": row.steps})))
}

#[derive(Debug, Default, Deserialize)]
struct Submission {
    channel: Option<Channel>,
}

#[derive(Deserialize)]
struct Steps {
    steps: Vec<StepBody>,
}

/// Steps of one or several trajectories, all or none.
async fn submit_steps(
    State(gateway): Shared,
    asked: Result<Query<Submission>, QueryRejection>,
    request: Request,
) -> Response<Body> {
    let answer = async {
        let (headers, bytes) = body_of(&gateway, request).await?;
        let owner = owner(&gateway, &headers)?;
        let channel = query(asked)?.channel;
        let Steps { steps } = body::parse(&bytes)?;
        let accepted = steps.len();
        let names: Vec<(String, String, bool)> =
            steps.iter().map(|step| (step.trajectory_uid.clone(), step.prompt_uid.clone(), step.is_last)).collect();
        let mut all: Vec<NewSteps> = Vec::new();
        for (at, (step, (id, group, is_last))) in checked(steps, None)?.into_iter().zip(names).enumerate() {
            let id = name(&format!("steps[{at}].trajectory_uid"), &id)?;
            let group = if group.is_empty() { id.clone() } else { name(&format!("steps[{at}].prompt_uid"), &group)? };
            let known = all.iter_mut().find(|new| new.trajectory.id == id);
            match known {
                Some(new) if new.trajectory.group != group => {
                    let why = format!("steps[{at}].prompt_uid: the trajectory has another one in this request");
                    return Err(Refusal::new(ErrorKind::Unprocessable, why));
                }
                Some(new) => {
                    new.steps.push(step);
                    new.completes |= is_last;
                }
                None => {
                    let at = gateway.now_ms();
                    let trajectory = NewTrajectory { owner: owner.clone(), id, group, channel, metadata: None, at };
                    all.push(NewSteps { trajectory, registers: true, steps: vec![step], completes: is_last });
                }
            }
        }
        changed(&gateway, PoolChange::Steps(all)).await?;
        Ok(json(200, &value!({"accepted": accepted})))
    };
    reply(answer.await)
}
