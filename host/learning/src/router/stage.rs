//! The stages of the router layer in a learning run.

use super::model::{RoutedModel, RoutedModels, decision_of};
use crate::experience::{Experience, reward_bounds};
use crate::report::{LayerIteration, LayerReport};
use crate::stage::{AfterStep, LayerState, LearningStage, SavedLayer, StageContext, TaskNeeds};
use crate::{LearnPlan, LearningError, Staged};
use async_trait::async_trait;
use clawhost_core::{Ending, Episode, FailureKind, LargeState, Llm as _, code};
use clawhost_learn::router::{Logged, Outcome, Router};
use clawhost_learn::{Batch, Layer, LayerOutcome, LearnError};
use clawhost_play::ChatPolicy;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The layer's name.
const NAME: &str = "router";

/// What a run has learned about a router.
#[derive(Debug, Clone)]
pub struct LearnedRouter {
    /// Its state.
    pub router: Router,
    /// The decisions that it learned from in this run.
    pub log: Vec<Logged>,
    /// The cost of all training episodes that it decided about, with and without a reward, at the prices of its table.
    pub spent: f64,
}

/// Keeps what a run has learned.
pub trait RouterKeeper: Send + Sync {
    /// Keeps the result of a run.
    ///
    /// # Errors
    /// It cannot be written; the text says why.
    fn keep(&self, result: LearnedRouter) -> Result<(), String>;
}

/// What a router learns with.
pub struct RouterPorts {
    /// Its name.
    pub name: String,
    /// Its state before the run.
    pub router: Router,
    /// The models of its table.
    pub models: Arc<RoutedModels>,
    /// Receives the result.
    pub keeper: Arc<dyn RouterKeeper>,
}

/// The router layer in a learning run.
pub struct RouterStage {
    layer: Router,
    /// The state before the first reward.
    before: Router,
    model: RoutedModel,
    keeper: Arc<dyn RouterKeeper>,
    /// The decisions that were learned from, by the name under which a checkpoint holds them.
    logs: BTreeMap<String, Vec<Logged>>,
    /// The log that no checkpoint holds yet.
    unsaved: Option<String>,
    /// The decisions of the iteration that is being learned.
    observed: Vec<Logged>,
    /// The cost of the training episodes so far.
    spent: f64,
}

/// The layer's part of a checkpoint.
#[derive(Serialize, Deserialize)]
struct State {
    router: Box<RawValue>,
    before: Box<RawValue>,
    logs: Vec<String>,
    #[serde(default)]
    spent: f64,
}

impl RouterStage {
    /// A router that learns.
    ///
    /// # Errors
    /// A model of its table is missing.
    pub fn new(ports: RouterPorts) -> Result<Self, LearnError> {
        let RouterPorts { name, router, models, keeper } = ports;
        let model = RoutedModel::new(&name, Arc::new(router.clone()), models)?;
        let (before, layer) = (router.clone(), router);
        Ok(Self {
            layer,
            before,
            model,
            keeper,
            logs: BTreeMap::new(),
            unsaved: None,
            observed: Vec::new(),
            spent: 0.0,
        })
    }
}

/// Whether the episode failed because its model gave no answer. A spent budget and a stop are nobody's fault.
fn has_failing_model(episode: &Episode) -> bool {
    match &episode.ending {
        Ending::Failed(failure) => {
            failure.kind == FailureKind::Llm && failure.code != code::BUDGET && failure.code != code::CANCELLED
        }
        _ => false,
    }
}

fn raw(router: &Router) -> Result<Box<RawValue>, LearnError> {
    let text = String::from_utf8_lossy(&router.snapshot()?).into_owned();
    RawValue::from_string(text).map_err(|error| LearnError::Router(error.to_string()))
}

#[async_trait]
impl LearningStage for RouterStage {
    fn name(&self) -> &'static str {
        NAME
    }

    fn plan(&self) -> Value {
        serde_json::json!({ "model": self.model.identity(), "settings": self.before.settings(), "table": self.before.table() })
    }

    fn needs(&self, _: &LearnPlan) -> TaskNeeds {
        TaskNeeds::default()
    }

    /// States differ in the model that is asked, not in the guidance.
    fn is_exclusive(&self) -> bool {
        true
    }

    async fn begin(&mut self, context: &StageContext<'_>) -> Staged<()> {
        let (least, most) = reward_bounds(&context.ports.rewards);
        let rewards = self.layer.settings().rewards;
        if least < rewards.low || most > rewards.high {
            let what =
                format!("its rewards are {} to {}, and those of this run {least} to {most}", rewards.low, rewards.high);
            return Err(LearnError::Router(what).into());
        }
        Ok(())
    }

    async fn restore(&mut self, state: Value, context: &StageContext<'_>) -> Staged<()> {
        let damaged = |why: String| LearningError::Checkpoint { run: context.run.clone(), why };
        let text = state.to_string();
        let State { router, before, logs, spent } =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let read =
            |state: &RawValue| Router::from_state(state.get().as_bytes()).map_err(|error| damaged(error.to_string()));
        (self.layer, self.before, self.spent) = (read(&router)?, read(&before)?, spent);
        self.logs.clear();
        for name in logs {
            let bytes = context.learning.large_state(context.run, &name).await?;
            let bytes = bytes.ok_or_else(|| damaged(format!("it holds no {name}")))?;
            let log = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
            self.logs.insert(name, log);
        }
        (self.unsaved, self.observed) = (None, Vec::new());
        Ok(())
    }

    async fn save(&mut self, _: &StageContext<'_>) -> Staged<SavedLayer> {
        let unsaved = self.unsaved.take();
        let mut large = BTreeMap::new();
        for (name, log) in &self.logs {
            let part = if unsaved.as_ref() == Some(name) {
                let bytes = serde_json::to_vec(log).map_err(|error| LearnError::Router(error.to_string()))?;
                LargeState::Written(bytes.into())
            } else {
                LargeState::Unchanged
            };
            large.insert(name.clone(), part);
        }
        let logs = self.logs.keys().cloned().collect();
        let state = State { router: raw(&self.layer)?, before: raw(&self.before)?, logs, spent: self.spent };
        let state = serde_json::to_string(&state).and_then(|text| serde_json::from_str(&text));
        let state = state.map_err(|error| LearnError::Router(error.to_string()))?;
        Ok(SavedLayer { state, large, digest: self.layer.digest() })
    }

    fn training_policy(&self, policy: ChatPolicy, _: u64) -> ChatPolicy {
        policy.with_model(Arc::new(self.model.with(&self.layer)))
    }

    fn serving_policy(&self, policy: ChatPolicy, state: LayerState) -> ChatPolicy {
        let router = match state {
            LayerState::Before => &self.before,
            LayerState::Now => &self.layer,
        };
        policy.with_model(Arc::new(self.model.with(router)))
    }

    async fn observe(&mut self, experience: &Experience, _: &StageContext<'_>) -> Staged<Batch> {
        let played_by = self.model.with(&self.layer).identity();
        self.observed.clear();
        let mut cost = 0.0;
        for episode in experience.episodes() {
            // Another model, or another state of the router, has other propensities.
            if episode.policy.model != played_by {
                continue;
            }
            let Some((decision, units)) = decision_of(&self.layer, &episode, experience.number)? else { continue };
            cost += self.layer.cost(decision.action()?, &Outcome { reward: 0.0, units }).unwrap_or_default();
            let logged = match episode.reward {
                Some(reward) => {
                    self.layer.stage(episode.id.clone(), decision.clone(), units);
                    Logged { decision, outcome: Outcome { reward, units } }
                }
                None if has_failing_model(&episode) => self.layer.stage_failed(decision, units),
                None => continue,
            };
            self.observed.push(logged);
        }
        // Only now: a weight of cost that moves changes the decisions, which are made again above.
        self.layer.charge(cost)?;
        self.spent += cost;
        Ok(experience.batch(&experience.played))
    }

    fn layer(&mut self) -> &mut dyn Layer {
        &mut self.layer
    }

    fn learned(&self, outcome: &LayerOutcome) -> Result<(), String> {
        match outcome {
            LayerOutcome::Stepped(_, step) if step.updates > 0 => Ok(()),
            LayerOutcome::Stepped(..) => Err("the router made none of the decisions of this batch".to_owned()),
            LayerOutcome::LeftOut(why) => Err(why.to_string()),
            LayerOutcome::RolledBack => Err("rolled back".to_owned()),
        }
    }

    async fn after_step(
        &mut self,
        outcome: LayerOutcome,
        experience: &Experience,
        _: &StageContext<'_>,
    ) -> Staged<AfterStep> {
        let observed = std::mem::take(&mut self.observed);
        if matches!(outcome, LayerOutcome::Stepped(..)) && !observed.is_empty() {
            let name = format!("router-decisions-{:05}", experience.number + 1);
            self.logs.insert(name.clone(), observed);
            self.unsaved = Some(name);
        }
        Ok(AfterStep { report: LayerIteration::of(NAME, outcome), versions: Vec::new(), ends_turn: false })
    }

    async fn finish(&mut self, _: &StageContext<'_>) -> Staged<()> {
        let log = self.logs.values().flatten().cloned().collect();
        let result = LearnedRouter { router: self.layer.clone(), log, spent: self.spent };
        self.keeper.keep(result).map_err(|why| LearnError::Router(why).into())
    }

    fn report(&self) -> LayerReport {
        LayerReport::Other(NAME.to_owned())
    }
}
