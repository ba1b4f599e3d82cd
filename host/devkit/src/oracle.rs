//! Oracles: agents that know how to do well, as the manifest of an environment names them.

use crate::cases::answered;
use async_trait::async_trait;
use clawhost_app::{Bench, ModelGrants, PluginFolder};
use clawhost_core::{
    Context, Digest, Environment, Failure, IgnoredRequest, LiveEpisode, Llm, LlmIdentity, Message, ModelCallSource,
    ModelError, ModelRequest, ModelResponse, Origin, Role, Sampling, StartParams, Task, Usage, escaped, read_script,
};
use clawhost_engine::EnvironmentPlugin;
use clawhost_follower::Follower;
use clawhost_package::Oracle;
use clawhost_play::ChatPolicy;
use clawhost_providers::Scripted;
use clawhost_run_config::PluginSpec;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Largest file of an oracle in bytes.
const SCRIPT_BYTES: u64 = 1 << 20;
/// Bytes of a task's id that a message shows.
const SHOWN: usize = 100;

/// An oracle that can play.
pub(crate) struct OpenOracle<'a> {
    folder: &'a PluginFolder,
    oracle: &'a Oracle,
    component: Option<Arc<EnvironmentPlugin>>,
}

impl<'a> OpenOracle<'a> {
    /// Loads what the oracle needs.
    ///
    /// # Errors
    /// Its component cannot be loaded.
    pub(crate) async fn open(bench: &Bench<'_>, folder: &'a PluginFolder, oracle: &'a Oracle) -> Result<Self, String> {
        let component = match oracle {
            Oracle::Component(path) => {
                let path = folder.inside(path).map_err(|error| error.to_string())?.display().to_string();
                let spec = PluginSpec { path, options: Vec::new(), plugin: None };
                let loaded = bench.environment(&spec, ModelGrants::default()).await;
                Some(Arc::new(loaded.map_err(|error| error.to_string())?))
            }
            _ => None,
        };
        Ok(Self { folder, oracle, component })
    }

    /// The agent for an episode of a task.
    ///
    /// # Errors
    /// The oracle does not know this task, or a file of it cannot be read.
    pub(crate) fn agent(&self, task: &Task, context: Context, max_turns: u32) -> Result<ChatPolicy, String> {
        let id = escaped(&task.id, SHOWN);
        let read = |path: &str| {
            let path = self.folder.inside(path).map_err(|error| error.to_string())?;
            clawhost_files::read_text(&path, SCRIPT_BYTES).map_err(|error| format!("{}: {error}", path.display()))
        };
        let (model, prompt): (Arc<dyn Llm>, Option<String>) = match self.oracle {
            Oracle::Follower(None) => (Arc::new(Follower), None),
            Oracle::Follower(Some(file)) => (Arc::new(Follower), Some(read(file)?)),
            Oracle::Demonstrations => (Arc::new(Imitator), None),
            Oracle::Component(path) => {
                let component = self.component.as_ref().ok_or_else(|| format!("{path} is not loaded"))?;
                (Arc::new(ComponentAgent::new(component.clone(), task, context, max_turns)), None)
            }
            Oracle::Reference => {
                let reference = task.reference.as_deref().ok_or_else(|| format!("task {id} has no reference"))?;
                let text = match serde_json::from_str::<serde_json::Value>(reference) {
                    Ok(serde_json::Value::String(text)) => text,
                    _ => reference.to_owned(),
                };
                let answer = Message::text(Role::Assistant, Origin::Policy, text);
                (Arc::new(Scripted::new(vec![answer]).ok_or("no answer")?), None)
            }
            Oracle::Scripts(folder) => {
                // The id comes from the plugin, and is part of a path.
                let is_plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.');
                if !task.id.chars().all(is_plain) || task.id.starts_with('.') {
                    return Err(format!("task {id}: a script is named by letters, digits, `-`, `_` and `.`"));
                }
                let text = read(&format!("{folder}/{}.txt", task.id))?;
                let answers = read_script(&text).map_err(|error| format!("{folder}/{id}.txt: {error}"))?;
                (Arc::new(Scripted::new(answers).ok_or_else(|| format!("{folder}/{id}.txt is empty"))?), None)
            }
        };
        Ok(ChatPolicy::new(model, prompt, Sampling::default()))
    }
}

/// The name of the pair in a message's `extra` with the demonstrated answer, as the SDK writes it.
const DEMONSTRATION: &str = "demonstration";

fn demonstration(message: &Message) -> Option<&str> {
    message.extra.iter().find(|(name, _)| name == DEMONSTRATION).map(|(_, answer)| answer.as_str())
}

/// Answers with the demonstration of the latest observation.
#[derive(Debug, Clone, Copy)]
struct Imitator;

#[async_trait]
impl Llm for Imitator {
    fn identity(&self) -> LlmIdentity {
        LlmIdentity { provider: "check".into(), model: "imitator".into(), version: Digest::of(b"1").to_string() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let latest = request.messages.iter().rev().find_map(demonstration);
        let Some(answer) = latest else {
            return Err(ModelError::Unavailable("no observation demonstrates an answer".into()));
        };
        let message = Message::text(Role::Assistant, Origin::Policy, answer);
        let ignored = IgnoredRequest::without_sampling(request);
        Ok(ModelResponse { ignored, ..ModelResponse::new(message, Usage::default(), "stop") })
    }
}

/// The name of the pair in a task's `extra` in which a component that plays the agent finds the reference.
const REFERENCE: &str = "reference";

/// A component of the world `environment` that plays the agent in one episode: observations are its actions, its observations the answers.
struct ComponentAgent {
    component: Arc<EnvironmentPlugin>,
    params: StartParams,
    live: Mutex<Option<Box<dyn LiveEpisode>>>,
}

impl ComponentAgent {
    /// The agent for an episode of a task.
    fn new(component: Arc<EnvironmentPlugin>, task: &Task, context: Context, max_turns: u32) -> Self {
        let reference = task.reference.iter().map(|reference| (REFERENCE.to_owned(), reference.clone()));
        let mut known = task.without_reference();
        known.extra.extend(reference);
        let params = StartParams { task: known, context, max_turns, answers: ModelCallSource::Live };
        Self { component, params, live: Mutex::new(None) }
    }

    async fn answer(&self, observed: &Message) -> Result<String, Failure> {
        let mut live = self.live.lock().await;
        if live.is_none() {
            *live = Some(self.component.start(self.params.clone()).await?.0);
        }
        let Some(episode) = live.as_mut() else { return Ok(String::new()) };
        let step = episode.step(observed, &[]).await?;
        Ok(step.observation.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n"))
    }
}

#[async_trait]
impl Llm for ComponentAgent {
    fn identity(&self) -> LlmIdentity {
        let identity = self.component.identity();
        LlmIdentity { provider: "component".into(), model: identity.name.clone(), version: identity.digest.to_string() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let unavailable = |why: String| ModelError::Unavailable(format!("{}: {why}", self.component.identity().name));
        // What it has not seen: everything behind its last answer.
        let last = request.messages.iter().rposition(|message| message.role == Role::Assistant);
        let new = request.messages.iter().skip(last.map_or(0, |last| last.saturating_add(1)));
        let observed: Vec<String> =
            new.filter(|message| message.role != Role::System).map(Message::plain_text).collect();
        let observed = Message::text(Role::Assistant, Origin::Policy, observed.join("\n"));
        let answer = self.answer(&observed).await.map_err(|failure| unavailable(failure.to_string()))?;
        let message = answered(&answer).map_err(unavailable)?;
        let finish = if message.tool_calls.is_empty() { "stop" } else { "tool_calls" };
        let ignored = IgnoredRequest::without_sampling(request);
        Ok(ModelResponse { ignored, ..ModelResponse::new(message, Usage::default(), finish) })
    }
}
