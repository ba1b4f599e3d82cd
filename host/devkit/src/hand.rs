//! A person as the agent: plays an episode by hand.

use crate::DevkitError;
use async_trait::async_trait;
use clawhost_app::{Bench, ModelGrants, SystemClock};
use clawhost_core::{
    Context, Environment as _, Episode, IgnoredRequest, Llm, LlmIdentity, Message, ModelError, ModelRequest,
    ModelResponse, Sampling, Usage, read_script,
};
use clawhost_play::{Alone, Cancel, ChatPolicy, OnTurn, fetch_tasks, play_watched, split_of};
use clawhost_run_config::PluginSpec;
use std::sync::Arc;

/// Most tasks of a split from which one is chosen.
const TASKS: u64 = 100_000;

/// Somebody who answers observations.
#[async_trait]
pub trait Hand: Send + Sync {
    /// The next turn, as a line of a script: a text, or `calls TOOL {...}`. `wrong`: why the last line was none. `None`: the person has had
    /// enough.
    async fn answer(&self, request: &ModelRequest, wrong: Option<&str>) -> Option<String>;
}

/// A hand as a model.
struct ByHand<H>(Arc<H>);

#[async_trait]
impl<H: Hand> Llm for ByHand<H> {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "hand".into(), model: "person".into(), version: String::new() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut wrong: Option<String> = None;
        let said = request.messages.iter().filter(|message| message.role == clawhost_core::Role::Assistant).count();
        loop {
            let Some(line) = self.0.answer(request, wrong.as_deref()).await else {
                return Err(ModelError::Unavailable("the person stopped".to_owned()));
            };
            // An empty line is an empty answer.
            match read_script(&format!("{line}\n")) {
                Ok(mut read) if !read.is_empty() => {
                    let mut message: Message = read.remove(0);
                    for (index, call) in message.tool_calls.iter_mut().enumerate() {
                        call.id = format!("call-{said}-{index}");
                    }
                    let finish = if message.tool_calls.is_empty() { "stop" } else { "tool_calls" };
                    let ignored = IgnoredRequest::without_sampling(request);
                    return Ok(ModelResponse { ignored, ..ModelResponse::new(message, Usage::default(), finish) });
                }
                Ok(_) => wrong = Some("nothing was read".to_owned()),
                Err(error) => wrong = Some(error.to_string()),
            }
        }
    }
}

/// An episode that a person plays.
#[derive(Debug, Clone)]
pub struct HandRequest {
    /// The environment.
    pub plugin: PluginSpec,
    /// Rewards, each as on a command line.
    pub rewards: Vec<String>,
    /// The split. `None`: the first one.
    pub split: Option<String>,
    /// The task's id. `None`: the first one.
    pub task: Option<String>,
    /// The seed.
    pub seed: u64,
    /// Most turns.
    pub max_turns: u32,
}

/// Plays an episode by hand. Nothing is recorded.
///
/// # Errors
/// A plugin cannot be loaded, or there is no such task.
pub async fn play_by_hand<H: Hand + 'static>(
    bench: &Bench<'_>,
    request: &HandRequest,
    hand: Arc<H>,
    cancel: &Cancel,
    watch: &OnTurn<'_>,
) -> Result<Arc<Episode>, DevkitError> {
    let grants = ModelGrants { kv: true, ..ModelGrants::default() };
    let environment = bench.environment(&request.plugin, grants.clone()).await?;
    let rules = bench.rewards(&request.rewards, &grants).await?;
    let splits = &environment.description().splits;
    let app = |error: clawhost_play::PlayError| DevkitError::App(error.into());
    let split = split_of(&environment.identity().name, splits, request.split.as_deref()).map_err(app)?;
    let context = Context { seed: request.seed, options: request.plugin.options.clone() };
    let limit = if request.task.is_some() { TASKS } else { 1 };
    let tasks = fetch_tasks(&environment, &context, &split, limit).await.map_err(app)?;
    let found = tasks.iter().find(|(task, _)| request.task.as_ref().is_none_or(|id| task.id == *id));
    let Some((task, _)) = found else {
        return Err(DevkitError::NoTask { task: request.task.clone().unwrap_or_default(), split });
    };
    let policy = ChatPolicy::new(Arc::new(ByHand(hand)), None, Sampling::default());
    let alone = Alone {
        task: (**task).clone(),
        seed: request.seed,
        policy_seed: None,
        options: request.plugin.options.clone(),
        max_turns: request.max_turns,
        episode_bytes: bench.limits().episode_bytes,
    };
    Ok(play_watched(&environment, &policy, &rules, alone, (&SystemClock::default(), cancel), Some(watch)).await)
}
