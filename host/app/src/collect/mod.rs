//! Runs a command for every task of a file, each with a base URL of its own at the running gateway: what its agent says to models becomes a
//! trajectory of the data pool. The agent is not changed and not known.

mod agent_process;
mod pool_client;
mod tasks_file;

use crate::background::running_gateway;
use crate::keys::client_keys;
use crate::{AppError, RequestError, known_admin_key};
use agent_process::{Ended, Program};
use clawhost_core::{Channel, Secret, escaped};
use clawhost_play::Cancel;
use pool_client::{PoolClient, Registered};
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

use tasks_file::CollectTask;

/// Trajectories of every task by default.
pub const COLLECT_MEMBERS: u64 = 1;
/// Commands that run at the same time by default.
pub const COLLECT_CONCURRENCY: usize = 4;
/// Longest duration of a command by default.
pub const COLLECT_TIME: Duration = Duration::from_secs(3600);
/// The variable with the key of a gateway's client.
pub const GATEWAY_KEY_VARIABLE: &str = "CLAWHOST_KEY";
/// Attempts at a trajectory that earlier calls interrupted. Each needs an id of its own.
const ATTEMPTS: u32 = 100;
/// Failures in a report.
const FAILURES: usize = 20;
/// Longest reason of a failure in bytes.
const WHY_BYTES: usize = 500;
/// Longest name of a trajectory's parts together in bytes: the pool takes 200.
const NAME_BYTES: usize = 180;
/// Largest task in the metadata of its trajectory in bytes.
const TASK_BYTES: usize = 48 << 10;

/// What to run.
#[derive(Debug, Clone)]
pub struct CollectRequest {
    /// The data folder, in which a gateway runs.
    pub folder: PathBuf,
    /// The file of tasks: a JSON object per line, with an `id` if it has one.
    pub tasks: PathBuf,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The name of the collection. Calls with the same name continue it. `None`: the name of the file.
    pub name: Option<String>,
    /// Trajectories of every task.
    pub members: u64,
    /// Commands that run at the same time.
    pub concurrency: usize,
    /// What the trajectories are for.
    pub channel: Channel,
    /// Longest duration of a command.
    pub timeout: Duration,
    /// The key of a client of the gateway, if it has any.
    pub key: Option<Secret>,
}

/// How one trajectory ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Collected {
    /// It is complete.
    Completed {
        /// Its steps.
        steps: u64,
        /// The reward that the command printed.
        reward: Option<f64>,
    },
    /// The command failed. The trajectory is no data to train on, and has no reward.
    Failed {
        /// Why.
        why: String,
    },
    /// An earlier call has collected it.
    Skipped,
    /// The call was interrupted.
    Interrupted,
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CollectReport {
    /// The name of the collection.
    pub name: String,
    /// Number of tasks.
    pub tasks: u64,
    /// Trajectories that are complete.
    pub completed: u64,
    /// Trajectories whose command failed.
    pub failed: u64,
    /// Trajectories of earlier calls.
    pub skipped: u64,
    /// Trajectories that were not collected because the call was interrupted.
    pub interrupted: u64,
    /// Mean of the rewards; `None`: there is none.
    pub reward_mean: Option<f64>,
    /// The first failures: a trajectory and why.
    pub failures: Vec<(String, String)>,
}

/// Takes the end of each trajectory as it comes.
pub type OnCollected<'a> = &'a mut (dyn FnMut(&str, &Collected) + Send);

/// Runs the command for every task.
///
/// # Errors
/// No gateway runs, the file cannot be read, or the gateway refuses.
pub async fn collect(
    request: CollectRequest,
    cancel: &Cancel,
    told: OnCollected<'_>,
) -> Result<CollectReport, AppError> {
    let tasks = tasks_file::read(&request.tasks)?;
    let name = name_of(&request)?;
    let gateway = running_gateway(&request.folder)?;
    let gateway = gateway.ok_or_else(|| RequestError::NoGateway { folder: request.folder.display().to_string() })?;
    let is_keyed = !client_keys(&request.folder)?.is_empty();
    let key = match (is_keyed, request.key.clone()) {
        (true, None) => return Err(RequestError::GatewayKey { variable: GATEWAY_KEY_VARIABLE }.into()),
        (true, key) => key,
        (false, _) => known_admin_key(&request.folder)?,
    };
    let program = Program {
        command: request.command.clone(),
        key: request.key.clone().filter(|_| is_keyed),
        timeout: request.timeout,
    };
    let pool = Arc::new(PoolClient::new((gateway.address, gateway.certificate), key)?);
    let work = Arc::new(Work { pool, program, channel: request.channel, name: name.clone(), cancel: cancel.clone() });
    let mut report = CollectReport { name, tasks: tasks.len() as u64, ..CollectReport::default() };
    let mut waiting = tasks.iter().flat_map(|task| (1..=request.members).map(move |member| (task.clone(), member)));
    let (mut running, mut rewards) = (JoinSet::new(), Vec::new());
    loop {
        while running.len() < request.concurrency.max(1) {
            let Some((task, member)) = waiting.next() else { break };
            if cancel.is_requested() {
                report.interrupted += 1;
                continue;
            }
            let work = work.clone();
            running.spawn(async move {
                let id = work.id(&task, member);
                let collected = work.collect(&id, &task, member).await;
                (id, collected)
            });
        }
        let Some(ended) = running.join_next().await else { break };
        let (id, collected) = ended.map_err(|error| AppError::Host(format!("a command's task ended: {error}")))?;
        let collected = collected?;
        told(&id, &collected);
        match collected {
            Collected::Completed { reward, .. } => {
                report.completed += 1;
                rewards.extend(reward);
            }
            Collected::Failed { why } => {
                report.failed += 1;
                if report.failures.len() < FAILURES {
                    report.failures.push((id, why));
                }
            }
            Collected::Skipped => report.skipped += 1,
            Collected::Interrupted => report.interrupted += 1,
        }
    }
    report.reward_mean = (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64);
    Ok(report)
}

/// The name of a collection: part of the ids of its trajectories, so that equal calls find what they have collected.
fn name_of(request: &CollectRequest) -> Result<String, AppError> {
    let stem = request.tasks.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = request.name.clone().or(stem).unwrap_or_default();
    let is_plain =
        !name.is_empty() && name.len() <= NAME_BYTES / 2 && !name.chars().any(|c| c.is_control() || c == '/');
    if is_plain { Ok(name) } else { Err(RequestError::CollectionName { name: escaped(&name, WHY_BYTES) }.into()) }
}

/// What all commands share.
struct Work {
    pool: Arc<PoolClient>,
    program: Program,
    channel: Channel,
    name: String,
    cancel: Cancel,
}

impl Work {
    fn group(&self, task: &CollectTask) -> String {
        format!("{}-{}", self.name, task.id)
    }

    fn id(&self, task: &CollectTask, member: u64) -> String {
        format!("{}-{member}", self.group(task))
    }

    /// Collects a trajectory: registers it, runs the command, and ends it.
    async fn collect(&self, id: &str, task: &CollectTask, member: u64) -> Result<Collected, AppError> {
        let group = self.group(task);
        let mut metadata = Map::new();
        metadata.insert("task".to_owned(), task.id.clone().into());
        if task.text.len() <= TASK_BYTES {
            metadata.insert("document".to_owned(), task.document.clone());
        }
        for attempt in 1..=ATTEMPTS {
            let named = if attempt == 1 { id.to_owned() } else { format!("{id}.{attempt}") };
            match self.pool.register(&named, &group, self.channel, &metadata).await? {
                Registered::Ended { trainable: true } => return Ok(Collected::Skipped),
                // The command failed, or an earlier call was interrupted here.
                Registered::Ended { trainable: false } => {}
                Registered::Begun => self.pool.give_up(&named, "interrupted").await?,
                Registered::New => return self.run(&named, &group, task, member).await,
            }
        }
        Ok(Collected::Failed { why: format!("{ATTEMPTS} attempts failed or were interrupted") })
    }

    async fn run(&self, id: &str, group: &str, task: &CollectTask, member: u64) -> Result<Collected, AppError> {
        let base = self.pool.base_url(id, group);
        let (program, task, cancel) = (self.program.clone(), task.clone(), self.cancel.clone());
        let ran = tokio::task::spawn_blocking(move || program.run(&base, &task, member, &cancel)).await;
        let ended = ran.map_err(|error| AppError::Host(format!("a command's thread ended: {error}")))?;
        let why = match ended {
            Ended::Interrupted => {
                self.pool.give_up(id, "interrupted").await?;
                return Ok(Collected::Interrupted);
            }
            Ended::Failed(why) => why,
            Ended::Done { reward } => match self.pool.steps(id).await? {
                0 => "the command asked no model at its base URL".to_owned(),
                steps => {
                    self.pool.complete(id, reward).await?;
                    return Ok(Collected::Completed { steps, reward });
                }
            },
        };
        let why = escaped(&why, WHY_BYTES);
        // A failure is no reward of 0: nobody trains on it.
        self.pool.give_up(id, &why).await?;
        Ok(Collected::Failed { why })
    }
}

/// The reward on the last line of a command's output, if that is a JSON object with one.
pub(crate) fn reward_of(output: &str) -> Option<f64> {
    let last = output.lines().rev().find(|line| !line.trim().is_empty())?;
    let document: Value = serde_json::from_str(last.trim()).ok()?;
    document.get("reward")?.as_f64().filter(|reward| reward.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reward_is_on_the_last_line() {
        let check = |output: &str, expect: Option<f64>| assert_eq!(reward_of(output), expect, "{output:?}");
        check("working\n{\"reward\": 0.5, \"turns\": 3}\n\n", Some(0.5));
        check("{\"reward\": 1}", Some(1.0));
        check("{\"reward\": 1}\ndone", None);
        check("{\"reward\": \"high\"}", None);
        check("{\"reward\": 1e999}", None);
        check("0.5", None);
        check("", None);
    }
}
