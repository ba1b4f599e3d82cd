//! The stages of the weights layer.

use super::RoutedLearner;
use super::measures::{measures, reading, repeated, rewards_by_name, signal};
use super::teaching::{Teaching, teach};
use super::warm_up::{WarmStart, WarmStartReport};
use super::{Curriculum, WeightsIteration, WeightsReport};
use crate::batch::unmoved_reason;
use crate::experience::{Experience, mean_reward, reward_bounds};
use crate::report::{LayerDetails, LayerIteration, LayerReport};
use crate::stage::{AfterStep, LayerState, LearningStage, SavedLayer, StageContext, TaskNeeds, WarmUp};
use crate::{LearnPlan, LearningError, Staged};
use async_trait::async_trait;
use clawhost_core::{Digest, LargeState, Llm};
use clawhost_learn::policy::{Difficulty, FallMonitor, Generated, HackingMonitor, NoSignal, SignalMonitor, Watched};
use clawhost_learn::{
    Batch, CheckpointKind, Forward, Interrupt, Layer, LayerOutcome, LearnError, Metric, Step, Weights,
};
use clawhost_play::{ChatPolicy, Plan, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name of the weights in a checkpoint.
const LARGE: &str = "weights";
/// Name of the weights from before the first reward, stored if the evaluation returns to them.
const LARGE_BEFORE: &str = "weights-before";

/// Weights that a learning run and its caller share. The run locks them only on its training thread.
pub type SharedWeights = Arc<Mutex<dyn Weights>>;

/// Settings of weights that learn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightsPlan {
    /// Everything that determines a step, for the run's digest.
    pub settings: Value,
    /// Supervised warm start; `None`: rewards from the first step on.
    pub warm_start: Option<WarmStart>,
    /// Most replacements of a group without variance per iteration, at most [`clawhost_learn::policy::REFILLS`]; 0 is off.
    pub refills: u32,
    /// When tasks without variance are skipped; `None`: never.
    pub difficulty: Option<Difficulty>,
    /// Iterations between two validations, which select the best weights; 0 is off.
    pub evaluate_every: u64,
    /// Episodes of a validation.
    pub evaluate_episodes: u64,
}

/// Ports of the weights layer.
#[derive(Clone)]
pub struct WeightsPorts {
    /// The weights of the policy.
    pub weights: SharedWeights,
    /// The model that demonstrates, if a warm start is planned.
    pub demonstrator: Option<Arc<dyn Llm>>,
    /// The teacher, if the objective distils one.
    pub teaching: Option<Teaching>,
    /// The model of the weights where a router chooses the policy. `None`: it is the policy.
    pub routed: Option<RoutedLearner>,
}

/// The best weights so far. The starting weights are among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The iteration after which they were measured. 0: before the first reward, after demonstrations.
    pub iteration: u64,
    /// Mean reward of the validation episodes.
    pub reward: f64,
}

/// The state of the layer between iterations, without the weights.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct WeightsState {
    /// Progress of the warm start; `None`: not started.
    pub(super) warm_start: Option<WarmStartReport>,
    /// Selection of training tasks.
    curriculum: Curriculum,
    /// Watches for missing learning signal.
    signal: SignalMonitor,
    /// Watches for a fall of the reward.
    fall: FallMonitor,
    /// Watches for reward hacking.
    hacking: HackingMonitor,
    /// What the last iteration reported as suspicious.
    suspected: Vec<Watched>,
    best: Option<Best>,
    /// Whether the starting weights were validated.
    is_start_validated: bool,
    /// Mean validation reward of the starting weights.
    start: Option<f64>,
    /// Mean reward of the last validation.
    last: Option<f64>,
    /// Whether the checkpoint contains the weights from before the first reward.
    remembers: bool,
    /// Digest of the weights in the checkpoint, with their optimizer state.
    digest: Option<Digest>,
}

/// Locks the shared weights for each call of the transaction, which runs on the training thread.
struct SharedLayer(SharedWeights);

impl SharedLayer {
    fn lock(&self) -> MutexGuard<'_, dyn Weights + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layer for SharedLayer {
    fn name(&self) -> &str {
        "weights"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        self.lock().forward_backward(batch)
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        self.lock().optim_step()
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        self.lock().snapshot()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        self.lock().restore(bytes)
    }

    fn clear_pending(&mut self) {
        self.lock().clear_pending();
    }

    fn digest(&self) -> Digest {
        self.lock().digest()
    }

    fn stop_when(&mut self, interrupt: Interrupt) {
        self.lock().stop_when(interrupt);
    }
}

/// The weights layer in a learning run.
pub struct WeightsStage {
    pub(super) plan: WeightsPlan,
    pub(super) ports: WeightsPorts,
    pub(super) state: WeightsState,
    layer: SharedLayer,
    /// Demonstrations, and their mean reward.
    pub(super) demonstrations: Option<Arc<[Arc<Generated>]>>,
    pub(super) demonstrated: Option<f64>,
    /// Whether the weights differ from those of the last checkpoint.
    pub(super) is_changed: bool,
    /// Weights from before the first reward, to be stored with the next checkpoint.
    remembered: Option<Arc<[u8]>>,
    /// The current weights, while the earlier ones act.
    set_aside: Option<Vec<u8>>,
    /// Whether a router sent all episodes of the current iteration to other models.
    is_passed_over: bool,
}

impl WeightsStage {
    /// Weights that learn by this plan.
    pub fn new(plan: WeightsPlan, ports: WeightsPorts) -> Self {
        let layer = SharedLayer(ports.weights.clone());
        Self {
            plan,
            ports,
            layer,
            state: WeightsState::default(),
            demonstrations: None,
            demonstrated: None,
            is_changed: true,
            remembered: None,
            set_aside: None,
            is_passed_over: false,
        }
    }

    /// Runs a computation with the weights on the training thread.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        context: &StageContext<'_>,
        job: impl FnOnce(&mut (dyn Weights + 'static)) -> Result<T, LearnError> + Send + 'static,
    ) -> Staged<T> {
        let weights = self.ports.weights.clone();
        let locked = move || job(&mut *weights.lock().unwrap_or_else(PoisonError::into_inner));
        match context.training.run(locked).await? {
            // It goes on from the last checkpoint.
            Err(LearnError::Interrupted) => Err(StopReason::Cancelled.into()),
            done => Ok(done?),
        }
    }

    /// The policy with the model of these weights in place of a router.
    pub(super) fn alone(&self, policy: ChatPolicy) -> ChatPolicy {
        match &self.ports.routed {
            Some(routed) => policy.with_model(routed.model.clone()),
            None => policy,
        }
    }

    async fn keep(&self, kind: CheckpointKind, context: &StageContext<'_>) -> Staged<()> {
        self.compute(context, move |weights| weights.keep(kind)).await
    }

    /// Restores weights of the last checkpoint. It is an error if they are missing, because other weights would give another
    /// result.
    async fn restore_weights(&mut self, name: &str, context: &StageContext<'_>) -> Staged<()> {
        let bytes = context.learning.large_state(context.run, name).await?;
        let missing = || LearningError::Checkpoint { run: context.run.clone(), why: format!("it holds no {name}") };
        let bytes = bytes.ok_or_else(missing)?;
        self.compute(context, move |weights| weights.restore(&bytes)).await
    }

    /// Plays the validation tasks, with the same seeds every time, and stores the best weights.
    async fn validate(&mut self, iteration: u64, context: &StageContext<'_>) -> Staged<Option<f64>> {
        let plan = Plan {
            episodes: self.plan.evaluate_episodes,
            group: 1,
            split: Some(context.splits.val.split.clone()),
            ..context.plan.play.clone()
        };
        let name = format!("i{iteration:05}-val");
        let phase = context.phase(&name, plan, self.alone(context.policy.clone()), context.val.clone()).await?;
        let Some(reward) = mean_reward(&phase.episodes) else { return Ok(None) };
        if self.state.best.as_ref().is_none_or(|best| reward > best.reward) {
            self.state.best = Some(Best { iteration, reward });
            self.keep(CheckpointKind::Best, context).await?;
        }
        self.state.last = Some(reward);
        Ok(Some(reward))
    }

    /// Validates the weights from before the first reward, once: they may stay the best. A run without a later validation
    /// has nothing to compare them with.
    async fn validate_start(&mut self, context: &StageContext<'_>) -> Staged<WarmUp> {
        let own = context.plan.schedule.iterations_of(self.name(), context.plan.iterations);
        let is_compared = (1..=own).contains(&self.plan.evaluate_every);
        if !is_compared || self.state.is_start_validated {
            return Ok(WarmUp::Done);
        }
        self.state.start = self.validate(0, context).await?;
        self.state.is_start_validated = true;
        Ok(WarmUp::Again(Vec::new()))
    }
}

#[async_trait]
impl LearningStage for WeightsStage {
    fn name(&self) -> &'static str {
        "weights"
    }

    fn plan(&self) -> Value {
        serde_json::json!(self.plan)
    }

    fn needs(&self, _: &LearnPlan) -> TaskNeeds {
        let shown = self.plan.warm_start.as_ref().map_or(0, |warm| warm.demonstrations.max(warm.episodes));
        TaskNeeds { train: shown, val: self.plan.evaluate_episodes }
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    async fn begin(&mut self, context: &StageContext<'_>) -> Staged<()> {
        let (_, best) = reward_bounds(&context.ports.rewards);
        let model = self.ports.routed.as_ref().map(|routed| routed.name.clone());
        let curriculum = Curriculum::new(self.plan.refills, self.plan.difficulty, best).of_model(model);
        self.state = WeightsState { curriculum, ..WeightsState::default() };
        Ok(())
    }

    async fn restore(&mut self, state: Value, context: &StageContext<'_>) -> Staged<()> {
        let damaged =
            |error: serde_json::Error| LearningError::Checkpoint { run: context.run.clone(), why: error.to_string() };
        self.state = serde_json::from_value(state).map_err(damaged)?;
        (self.set_aside, self.remembered) = (None, None);
        self.restore_weights(LARGE, context).await?;
        self.is_changed = false;
        Ok(())
    }

    async fn save(&mut self, context: &StageContext<'_>) -> Staged<SavedLayer> {
        let mut large = BTreeMap::new();
        if std::mem::take(&mut self.is_changed) {
            let bytes: Arc<[u8]> = self.compute(context, |weights| weights.snapshot()).await?.into();
            self.state.digest = Some(Digest::of(&bytes));
            large.insert(LARGE.to_owned(), LargeState::Written(bytes));
        } else {
            large.insert(LARGE.to_owned(), LargeState::Unchanged);
        }
        if let Some(bytes) = self.remembered.take() {
            self.state.remembers = true;
            large.insert(LARGE_BEFORE.to_owned(), LargeState::Written(bytes));
        } else if self.state.remembers {
            large.insert(LARGE_BEFORE.to_owned(), LargeState::Unchanged);
        }
        let digest = self.state.digest.unwrap_or_else(|| Digest::of(b""));
        Ok(SavedLayer { state: serde_json::json!(self.state), large, digest })
    }

    async fn warm_up(&mut self, context: &StageContext<'_>) -> Staged<WarmUp> {
        match self.imitate(context).await? {
            WarmUp::Done => self.validate_start(context).await,
            again => Ok(again),
        }
    }

    async fn remember_before(&mut self, context: &StageContext<'_>) -> Staged<()> {
        if !self.state.remembers && self.remembered.is_none() {
            self.remembered = Some(self.compute(context, |weights| weights.snapshot()).await?.into());
        }
        Ok(())
    }

    async fn act_as(&mut self, state: LayerState, context: &StageContext<'_>) -> Staged<()> {
        match (state, self.set_aside.take()) {
            (LayerState::Before, None) => {
                self.set_aside = Some(self.compute(context, |weights| weights.snapshot()).await?);
                self.restore_weights(LARGE_BEFORE, context).await
            }
            (LayerState::Now, Some(bytes)) => self.compute(context, move |weights| weights.restore(&bytes)).await,
            (_, set_aside) => {
                self.set_aside = set_aside;
                Ok(())
            }
        }
    }

    fn training_policy(&self, policy: ChatPolicy, _: u64) -> ChatPolicy {
        self.alone(policy)
    }

    fn curriculum(&mut self) -> Option<&mut Curriculum> {
        Some(&mut self.state.curriculum)
    }

    async fn observe(&mut self, experience: &Experience, context: &StageContext<'_>) -> Staged<Batch> {
        let own = self.ports.routed.as_ref().map(|routed| routed.own(experience));
        let experience = own.as_ref().unwrap_or(experience);
        self.is_passed_over = experience.selected.is_empty();
        let mut batch = experience.batch(&experience.selected);
        if let Some(teaching) = &self.ports.teaching {
            teach(teaching, &mut batch, context.cancel).await?;
        }
        Ok(batch)
    }

    fn layer(&mut self) -> &mut dyn Layer {
        &mut self.layer
    }

    fn learned(&self, outcome: &LayerOutcome) -> Result<(), String> {
        match outcome {
            LayerOutcome::Stepped(_, step) if step.updates > 0 => Ok(()),
            LayerOutcome::Stepped(..) if self.is_passed_over => {
                Err("the router sent no episode to the model whose weights learn".to_owned())
            }
            LayerOutcome::Stepped(forward, _) => Err(unmoved_reason(&forward.metrics)),
            LayerOutcome::LeftOut(why) => Err(why.to_string()),
            LayerOutcome::RolledBack => Err("rolled back".to_owned()),
        }
    }

    async fn after_step(
        &mut self,
        outcome: LayerOutcome,
        experience: &Experience,
        context: &StageContext<'_>,
    ) -> Staged<AfterStep> {
        // Weights that did not step, or were rolled back, equal those of the last checkpoint.
        self.is_changed |= matches!(&outcome, LayerOutcome::Stepped(..));
        let own = self.ports.routed.as_ref().map(|routed| routed.own(experience));
        let experience = own.as_ref().unwrap_or(experience);
        let (_, best) = reward_bounds(&context.ports.rewards);
        let (episodes, rules) = (experience.episodes(), &context.ports.rewards);
        let reward = mean_reward(&episodes);
        let observed = signal(experience, rules, reward);
        let fall = self.state.fall.note(observed);
        // Tasks that the policy once solved are not too hard.
        let is_fall = |why: &NoSignal| fall.is_some() && matches!(why, NoSignal::AllFail(_));
        let signal = self.state.signal.note(observed).filter(|why| !is_fall(why));
        // Who learns from a teacher needs no rewards that differ.
        let signal = signal.filter(|_| self.ports.teaching.is_none());
        let mut rollout = measures(experience, context.turn.play.group, best, &self.state.curriculum);
        (rollout.rewards, rollout.repetition) = (rewards_by_name(&episodes, rules), repeated(&episodes));
        // Of the policy that played, before the steps.
        let entropy = match &outcome {
            LayerOutcome::Stepped(forward, _) => forward.metrics.get(Metric::Entropy),
            LayerOutcome::LeftOut(_) | LayerOutcome::RolledBack => None,
        };
        let suspicions = match reading(experience, rules, &rollout, (reward, entropy)) {
            Some(reading) => self.state.hacking.note(reading),
            None => Vec::new(),
        };
        let new = suspicions.iter().filter(|one| !self.state.suspected.contains(&one.watched));
        let events: Vec<String> = new.map(ToString::to_string).collect();
        self.state.suspected = suspicions.iter().map(|one| one.watched.clone()).collect();
        let details = WeightsIteration {
            rollout,
            suspicions,
            signal: signal.map(|why| why.to_string()),
            fall: fall.map(|fall| fall.to_string()),
            validation: match (context.turn.own + 1).checked_rem(self.plan.evaluate_every) {
                Some(0) => self.validate(experience.number + 1, context).await?,
                _ => None,
            },
        };
        let mut report = LayerIteration::of(self.name(), outcome);
        report.events.extend(events);
        report.details = LayerDetails::Weights(Box::new(details));
        Ok(AfterStep { report, versions: Vec::new(), ends_turn: false })
    }

    async fn finish(&mut self, context: &StageContext<'_>) -> Staged<()> {
        let steps = self.state.warm_start.as_ref().map_or(0, |warm| warm.steps);
        if context.cancel.is_requested() && context.iteration == 0 && steps == 0 {
            // Nothing was learned, and writing a large model takes longer than people wait after Ctrl-C.
            return Ok(());
        }
        self.keep(CheckpointKind::Last, context).await
    }

    fn report(&self) -> LayerReport {
        let WeightsState { warm_start, best, start, last, .. } = self.state.clone();
        LayerReport::Weights(Box::new(WeightsReport { warm_start, start, last, best }))
    }
}
