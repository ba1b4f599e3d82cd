//! A policy model that a router chooses: one decision per episode, held for all of its turns.
//!
//! The decision is a function of the router (or of the plugin that decides in its place), of the messages before the first answer and of the
//! episode's seed. So it holds over a resumed run, and can be made again from the record of an episode. The decisions of a plugin are kept for
//! the later turns of their episodes: a call costs an instance, and may fail by its deadline, which is no function of these.

use super::plugin::{PluginDecision, RoutingFailures, decide_by_plugin};
use async_trait::async_trait;
use clawhost_core::{
    AnsweringModel, Digest, Episode, Llm, LlmIdentity, Message, ModelError, ModelRequest, ModelResponse, Origin, Role,
    RoutingPlugin, ToolSpec,
};
use clawhost_learn::LearnError;
use clawhost_learn::router::{Action, Decision, Request, Router, failures, opening, seed_of};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens of a unit of use: prices are per million tokens.
pub(super) const UNIT: f64 = 1e6;

/// The models of a router's table, by name.
pub type RoutedModels = BTreeMap<String, Arc<dyn Llm>>;

/// A model that a router chooses for every episode.
#[derive(Clone)]
pub struct RoutedModel {
    name: String,
    router: Arc<Router>,
    models: Arc<RoutedModels>,
    plugin: Option<Arc<Plugged>>,
}

/// Decisions of a plugin that are kept: twice as many as episodes can be in progress at once.
const KEPT_DECISIONS: usize = 8192;

/// What decides in the place of a router.
struct Plugged {
    plugin: RoutingPlugin,
    /// Counts failures of the plugin.
    failures: Arc<RoutingFailures>,
    decided: Mutex<Decided>,
}

/// The latest decisions by their request, and these requests in the order in which they were decided.
#[derive(Default)]
struct Decided {
    decisions: BTreeMap<Digest, Decision>,
    order: VecDeque<Digest>,
}

impl Decided {
    fn keep(&mut self, of: Digest, decision: &Decision) {
        if self.decisions.insert(of, decision.clone()).is_none() {
            self.order.push_back(of);
        }
        if self.order.len() > KEPT_DECISIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.decisions.remove(&oldest);
        }
    }
}

impl RoutedModel {
    /// The router of this name, and the models of its table.
    ///
    /// # Errors
    /// A model of the table is missing.
    pub fn new(name: &str, router: Arc<Router>, models: Arc<RoutedModels>) -> Result<Self, LearnError> {
        if let Some(model) = router.table().models().find(|model| !models.contains_key(*model)) {
            let known = models.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(LearnError::UnknownModel { model: model.to_owned(), known });
        }
        Ok(Self { name: name.to_owned(), router, models, plugin: None })
    }

    /// The same, for which a plugin decides. `failures` counts those of the plugin.
    #[must_use]
    pub fn with_plugin(self, plugin: RoutingPlugin, failures: Arc<RoutingFailures>) -> Self {
        Self { plugin: Some(Arc::new(Plugged { plugin, failures, decided: Mutex::default() })), ..self }
    }

    /// The same models with another state of the router.
    pub(super) fn with(&self, router: &Router) -> Self {
        let plugged = self.plugin.as_ref();
        let model = Self { router: Arc::new(router.clone()), plugin: None, ..self.clone() };
        // Kept decisions are about the candidates of the former state.
        match plugged {
            Some(plugged) => model.with_plugin(plugged.plugin.clone(), plugged.failures.clone()),
            None => model,
        }
    }

    /// The decision about the session of a request.
    async fn decide(&self, request: &ModelRequest) -> Result<Decision, LearnError> {
        let opening = opening(&request.messages);
        let seed = request.seed.unwrap_or_else(|| seed_of(opening));
        let Some(plugged) = &self.plugin else {
            return decide(&self.router, opening, &request.tools, seed, "", 0);
        };
        let of = Digest::of_json(&serde_json::json!([seed, opening, request.tools.len()]));
        let decided = || plugged.decided.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = decided().decisions.get(&of) {
            return Ok(known.clone());
        }
        let (features, words) = self.router.request(opening, request.tools.len())?;
        let asked = Request { session: "", time: 0, features: &features, words: &words, seed };
        let PluginDecision { decision, failure } = decide_by_plugin(&self.router, &plugged.plugin, &asked).await?;
        failure.into_iter().for_each(|failure| plugged.failures.add(&self.name, failure));
        decided().keep(of, &decision);
        Ok(decision)
    }

    async fn ask(&self, model: &str, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let known = self.models.get(model);
        let known = known.ok_or_else(|| ModelError::Refused(format!("router {}: no model {model}", self.name)))?;
        let mut response = known.complete(request).await?;
        let version = response.answered_by.take().map(|by| match by.version {
            Some(version) => format!("{} {version}", by.model),
            None => by.model,
        });
        // The name in the table: from it the record of an episode tells who was paid for a turn.
        response.answered_by = Some(AnsweringModel { model: model.to_owned(), version });
        Ok(response)
    }
}

#[async_trait]
impl Llm for RoutedModel {
    fn identity(&self) -> LlmIdentity {
        let models: Vec<LlmIdentity> = self.models.values().map(|model| model.identity()).collect();
        let models = serde_json::to_vec(&models).unwrap_or_default();
        let decides = match &self.plugin {
            Some(plugged) => self.router.identity_with(&plugged.plugin),
            None => self.router.identity(),
        };
        let version = decides.extended(&models);
        LlmIdentity { provider: "router".to_owned(), model: self.name.clone(), version: version.to_string() }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let broken = |error: LearnError| ModelError::Refused(error.to_string());
        let decision = self.decide(request).await.map_err(broken)?;
        let Action { model, then } = decision.action().map_err(broken)?;
        let Some(then) = then else { return self.ask(model, request).await };
        if failures(&request.messages) > failures(opening(&request.messages)) {
            return self.ask(then, request).await;
        }
        match self.ask(model, request).await {
            Err(error) if !matches!(error, ModelError::Budget(_) | ModelError::Stopped) => {
                self.ask(then, request).await
            }
            answer => answer,
        }
    }
}

fn decide(
    router: &Router,
    opening: &[Message],
    tools: &[ToolSpec],
    seed: u64,
    session: &str,
    time: u64,
) -> Result<Decision, LearnError> {
    let (features, words) = router.request(opening, tools.len())?;
    router.decide(&Request { session, time, features: &features, words: &words, seed })
}

/// The decision by which an episode was played, made again, and the units that it used of the first and the second model. `None`: it did
/// not begin. `time`: the number of the iteration.
pub(super) fn decision_of(
    router: &Router,
    episode: &Episode,
    time: u64,
) -> Result<Option<(Decision, [f64; 2])>, LearnError> {
    // What no answer followed is in the closing.
    let observed = episode.turns.first().map_or(&episode.closing, |first| &first.observation);
    if observed.is_empty() {
        return Ok(None);
    }
    let system = episode.policy.system_prompt.as_ref();
    let mut opening: Vec<Message> =
        system.map(|text| Message::text(Role::System, Origin::Host, text)).into_iter().collect();
    opening.extend(observed.iter().cloned());
    let session = episode.id.to_string();
    let decision = decide(router, &opening, &episode.tools, episode.policy.seed, &session, time)?;
    let then = decision.action()?.then.clone();
    let mut units = [0.0, 0.0];
    for turn in &episode.turns {
        let escalated = then.is_some() && turn.answered_by.as_ref().map(|by| &by.model) == then.as_ref();
        let [own, other] = &mut units;
        let tokens = turn.usage.prompt_tokens.saturating_add(turn.usage.completion_tokens);
        *(if escalated { other } else { own }) += tokens as f64 / UNIT;
    }
    Ok(Some((decision, units)))
}
