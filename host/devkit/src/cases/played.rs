//! Plays one case.

use super::answer::answered;
use super::compare::Happened;
use super::recorded::episode;
use super::text::{Case, GivenTask};
use crate::{DevkitError, TURNS};
use clawhost_app::{Bench, ModelGrants, PluginFolder, SystemClock};
use clawhost_core::{Attributes, Context, Digest, Playbook, Reflector as _, Sampling, Task};
use clawhost_follower::Follower;
use clawhost_package::Kind;
use clawhost_play::{Alone, Cancel, ChatPolicy, ScoringRule, fetch_tasks, judged, play_alone, split_of};
use clawhost_providers::Scripted;
use clawhost_run_config::PluginSpec;
use std::sync::Arc;

/// Most tasks that are searched for the one of a case.
const TASKS: u64 = 100_000;
/// Largest prompt of a case in bytes.
const PROMPT_BYTES: u64 = 1 << 20;

/// What happened, with the log; or why the case could not be played.
type Outcome = Result<(Happened, Vec<String>), String>;

/// Plays a case.
///
/// # Errors
/// The plugin or a reward cannot be loaded.
pub(super) async fn play(
    bench: &Bench<'_>,
    plugin: &PluginFolder,
    spec: &PluginSpec,
    case: &Case,
) -> Result<Outcome, DevkitError> {
    let mut spec = spec.clone();
    for (name, value) in &case.options {
        spec.options.retain(|(known, _)| known != name);
        spec.options.push((name.clone(), value.clone()));
    }
    spec.options.sort();
    let grants = ModelGrants { kv: plugin.manifest().grants.kv, models: super::replies(case) };
    match plugin.manifest().plugin.kind {
        Kind::Environment => environment(bench, plugin, case, &spec, grants).await,
        Kind::Reward => reward(bench, case, &spec, grants).await,
        Kind::Reflector => reflector(bench, case, &spec, grants).await,
        Kind::Router => Ok(Err("cases of routers are not known".to_owned())),
    }
}

/// The agent of a case, and its number of turns.
fn agent(plugin: &PluginFolder, case: &Case) -> Result<(ChatPolicy, Option<u32>), String> {
    let follower = |prompt| (ChatPolicy::new(Arc::new(Follower), prompt, Sampling::default()), None);
    match (&case.actions, case.policy.as_deref()) {
        (Some(actions), _) => {
            let mut answers = Vec::new();
            for (number, action) in (1..).zip(actions) {
                answers.push(answered(action).map_err(|error| format!("action {number}: {error}"))?);
            }
            let turns = u32::try_from(answers.len()).unwrap_or(u32::MAX);
            // Without an action the opening alone is looked at: one turn, whose answer is empty.
            let silent = || Scripted::new(vec![answered("").ok()?]);
            let model = Scripted::new(answers).or_else(silent).ok_or("no actions")?;
            Ok((ChatPolicy::new(Arc::new(model), None, Sampling::default()), Some(turns.max(1))))
        }
        (None, None | Some("follower")) => Ok(follower(None)),
        (None, Some(policy)) => match policy.strip_prefix("follower:") {
            Some(file) => {
                let path = plugin.inside(file).map_err(|error| error.to_string())?;
                let prompt = clawhost_files::read_text(&path, PROMPT_BYTES);
                Ok(follower(Some(prompt.map_err(|error| format!("{}: {error}", path.display()))?)))
            }
            None => Err(format!(
                "policy: found `{}`; expected follower or follower:FILE",
                clawhost_core::escaped(policy, 60)
            )),
        },
    }
}

async fn environment(
    bench: &Bench<'_>,
    plugin: &PluginFolder,
    case: &Case,
    spec: &PluginSpec,
    grants: ModelGrants,
) -> Result<Outcome, DevkitError> {
    let environment = bench.environment(spec, grants.clone()).await?;
    let rules = bench.rewards(&plugin.rewards(), &grants).await?;
    let (policy, turns) = match agent(plugin, case) {
        Ok(agent) => agent,
        Err(why) => return Ok(Err(why)),
    };
    let task = match task(&environment, plugin, case, spec.options.clone()).await {
        Ok(task) => task,
        Err(why) => return Ok(Err(why)),
    };
    let usual = plugin.manifest().tasks.max_turns.unwrap_or(TURNS);
    let alone = Alone {
        task,
        seed: case.seed,
        policy_seed: None,
        options: spec.options.clone(),
        // After the last action there is none: the episode is truncated.
        max_turns: [case.max_turns, turns].into_iter().flatten().min().unwrap_or(usual),
        episode_bytes: bench.limits().episode_bytes,
    };
    let cancel = Cancel::default();
    let episode = play_alone(&environment, &policy, &rules, alone, (&SystemClock::default(), &cancel)).await;
    Ok(Ok((Happened::in_episode(&episode), episode.log.clone())))
}

/// The task of a case.
async fn task(
    environment: &dyn clawhost_core::Environment,
    plugin: &PluginFolder,
    case: &Case,
    options: Attributes,
) -> Result<Task, String> {
    if let Some(given) = &case.given {
        let GivenTask { id, split, input, reference, tags, extra } = given.clone();
        return Ok(Task { input, reference, tags, extra, ..Task::new(&split, id) });
    }
    let splits = &environment.description().splits;
    let wanted = case.split.as_ref().or(plugin.manifest().tasks.split.as_ref());
    let split = split_of(&environment.identity().name, splits, wanted.map(String::as_str))
        .map_err(|error| error.to_string())?;
    let context = Context { seed: case.tasks_seed.unwrap_or(case.seed), options };
    let limit = if case.task.is_some() { TASKS } else { 1 };
    let tasks = fetch_tasks(environment, &context, &split, limit).await.map_err(|error| error.to_string())?;
    let found =
        tasks.iter().find(|(task, _): &&(Arc<Task>, Digest)| case.task.as_ref().is_none_or(|id| task.id == *id));
    match (found, &case.task) {
        (Some((task, _)), _) => Ok((**task).clone()),
        (None, Some(id)) => Err(format!("there is no task `{}` in split {split}", clawhost_core::escaped(id, 100))),
        (None, None) => Err(format!("there is no task in split {split}")),
    }
}

async fn reward(
    bench: &Bench<'_>,
    case: &Case,
    spec: &PluginSpec,
    grants: ModelGrants,
) -> Result<Outcome, DevkitError> {
    let reward = bench.reward(spec, grants).await?;
    let episode = match episode(case, case.seed, bench.limits().episode_bytes) {
        Ok(episode) => episode,
        Err(why) => return Ok(Err(why)),
    };
    let rule = ScoringRule::new(Arc::new(reward), spec.options.clone());
    let judged = judged(&[rule], vec![episode], &Cancel::default()).await;
    let record = judged.first().and_then(|episode| episode.verdicts.first());
    Ok(record
        .map(|record| (Happened::verdict(&record.verdict), record.log.clone()))
        .ok_or_else(|| "no verdict".to_owned()))
}

async fn reflector(
    bench: &Bench<'_>,
    case: &Case,
    spec: &PluginSpec,
    grants: ModelGrants,
) -> Result<Outcome, DevkitError> {
    let reflector = bench.reflector(spec, grants).await?;
    let episode = match episode(case, case.seed, bench.limits().episode_bytes) {
        Ok(episode) => episode,
        Err(why) => return Ok(Err(why)),
    };
    let context = Context { seed: case.seed, options: spec.options.clone() };
    let proposals = reflector.reflect(&context, &Playbook::default(), &[Arc::new(episode)]).await;
    Ok(proposals.map(|all| (Happened::proposals(&all), Vec::new())).map_err(|failure| failure.to_string()))
}
