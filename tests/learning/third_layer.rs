//! A layer that the loop does not know takes part in everything: transaction, checkpoints, resuming, evaluation.

use crate::layers::Both;
use crate::weights::{policy, stage};
use crate::world::*;
use async_trait::async_trait;
use clawhost_core::{Digest, Episode, LargeState, Llm, LlmIdentity, ModelError, ModelRequest, ModelResponse, Part};
use clawhost_follower::Follower;
use clawhost_learn::{Batch, Forward, Layer, LayerOutcome, LearnError, Measurements, Metric, Step};
use clawhost_learning::{
    AfterStep, Experience, LayerEffect, LayerIteration, LayerReport, LayerState, LearnPlan, LearnPorts, LearningError,
    LearningStage, SavedLayer, StageContext, Staged, TaskNeeds,
};
use clawhost_play::ChatPolicy;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Counts the groups of its batches. Its policy answers green lights correctly once the count is positive.
#[derive(Default)]
pub(crate) struct Habit {
    strength: u64,
    pending: u64,
    /// The step on the batch of this number fails.
    pub(crate) breaks: Option<u64>,
    number: u64,
}

impl Layer for Habit {
    fn name(&self) -> &str {
        "habit"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        (self.pending, self.number) = (batch.groups.len() as u64, batch.number);
        Ok(Forward { metrics: Measurements::from([(Metric::Groups, self.pending as f64)]) })
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        if self.breaks == Some(self.number) {
            return Err(LearnError::Layer { layer: "habit".into(), why: "broken".into() });
        }
        self.strength += std::mem::take(&mut self.pending);
        Ok(Step { updates: 1, events: vec![format!("strength {}", self.strength)], ..Step::default() })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        Ok(self.strength.to_le_bytes().to_vec())
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        (self.strength, self.pending) = (u64::from_le_bytes(bytes.try_into().unwrap()), 0);
        Ok(())
    }

    fn clear_pending(&mut self) {
        self.pending = 0;
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.strength.to_le_bytes())
    }
}

/// Answers green lights correctly if it has the habit; otherwise calls another model.
struct WithHabit {
    inner: Arc<dyn Llm>,
    has_it: bool,
}

#[async_trait]
impl Llm for WithHabit {
    fn identity(&self) -> LlmIdentity {
        let inner = self.inner.identity();
        LlmIdentity { version: format!("{} habit {}", inner.version, self.has_it), ..inner }
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut response = self.inner.complete(request).await?;
        if self.has_it && request.messages.last().unwrap().plain_text().ends_with("colour: green") {
            response.message.parts = vec![Part::Text(right("green").into())];
        }
        Ok(response)
    }
}

pub(crate) struct HabitStage {
    pub(crate) layer: Habit,
    inner: Arc<dyn Llm>,
    /// The strength in every checkpoint of this process.
    saved: Arc<Mutex<Vec<u64>>>,
}

impl HabitStage {
    pub(crate) fn new(inner: Arc<dyn Llm>) -> Self {
        Self { layer: Habit::default(), inner, saved: Arc::default() }
    }

    fn with(&self, policy: &ChatPolicy, has_it: bool) -> ChatPolicy {
        policy.with_model(Arc::new(WithHabit { inner: self.inner.clone(), has_it }))
    }
}

#[async_trait]
impl LearningStage for HabitStage {
    fn name(&self) -> &'static str {
        "habit"
    }

    fn plan(&self) -> Value {
        serde_json::json!({ "colour": "green" })
    }

    fn needs(&self, _: &LearnPlan) -> TaskNeeds {
        TaskNeeds::default()
    }

    /// States differ in the model, not in the guidance.
    fn is_exclusive(&self) -> bool {
        true
    }

    async fn begin(&mut self, _: &StageContext<'_>) -> Staged<()> {
        Ok(())
    }

    async fn restore(&mut self, state: Value, context: &StageContext<'_>) -> Staged<()> {
        let bytes = context.learning.large_state(context.run, "habit").await?.unwrap();
        assert_eq!(state, serde_json::json!({ "bytes": bytes.len() }));
        self.layer.restore(&bytes)?;
        Ok(())
    }

    async fn save(&mut self, _: &StageContext<'_>) -> Staged<SavedLayer> {
        self.saved.lock().unwrap().push(self.layer.strength);
        let bytes: Arc<[u8]> = self.layer.snapshot()?.into();
        let state = serde_json::json!({ "bytes": bytes.len() });
        let large = BTreeMap::from([("habit".to_owned(), LargeState::Written(bytes))]);
        Ok(SavedLayer { state, large, digest: self.layer.digest() })
    }

    fn training_policy(&self, policy: ChatPolicy, _: u64) -> ChatPolicy {
        self.with(&policy, self.layer.strength > 0)
    }

    fn serving_policy(&self, policy: ChatPolicy, state: LayerState) -> ChatPolicy {
        self.with(&policy, state == LayerState::Now && self.layer.strength > 0)
    }

    async fn observe(&mut self, experience: &Experience, _: &StageContext<'_>) -> Staged<Batch> {
        Ok(experience.batch(&experience.played))
    }

    fn layer(&mut self) -> &mut dyn Layer {
        &mut self.layer
    }

    async fn after_step(&mut self, outcome: LayerOutcome, _: &Experience, _: &StageContext<'_>) -> Staged<AfterStep> {
        Ok(AfterStep { report: LayerIteration::of("habit", outcome), versions: Vec::new(), ends_turn: false })
    }

    fn report(&self) -> LayerReport {
        LayerReport::Other("habit".into())
    }
}

fn plan() -> WorldPlan {
    WorldPlan { iterations: 5, ..small() }
}

/// A harness that learns about red lights, and the habit layer.
fn ports(world: &World, habit: HabitStage) -> LearnPorts {
    world.ports(vec![Box::new(world.harness(plan().harness())), Box::new(habit)])
}

fn fresh(store: Arc<Shelf>) -> World {
    World { store, ..World::new(Proposer::of(&[RED])) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_layer_is_reported_checkpointed_and_evaluated_like_the_others() {
    let world = fresh(Arc::default());
    let report = world.begin(plan().run(), ports(&world, HabitStage::new(Arc::new(Follower)))).await.unwrap();
    assert_eq!(report.layer_names(), ["harness", "habit"]);
    assert_eq!(report.layers[1], LayerReport::Other("habit".into()));
    for one in &report.iterations {
        assert_eq!(one.metrics()["habit.groups"], 16.0);
        assert_eq!(one.layers[1].events, [format!("strength {}", 16 * one.iteration)]);
    }
    assert!(report.iterations[1].reward > report.iterations[0].reward, "it acts in training too");
    let (_, state) = world.store.state(&World::run()).unwrap();
    assert_eq!(state["layers"]["habit"], serde_json::json!({ "bytes": 8 }));
    assert_eq!(world.store.large(&World::run())["habit"][..], 80u64.to_le_bytes());

    let evaluation = report.evaluation.unwrap();
    let lifts: Vec<_> = evaluation.arms.iter().map(|arm| (arm.layers.join(" "), arm.lift.unwrap().mean)).collect();
    let expected = [("harness", 0.25), ("habit", 0.25), ("harness habit", 0.5)];
    assert_eq!(lifts, expected.map(|(layers, lift)| (layers.to_owned(), lift)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_third_layer_that_cannot_step_rolls_back_the_others() {
    let world = fresh(Arc::default());
    let mut habit = HabitStage::new(Arc::new(Follower));
    habit.layer.breaks = Some(0);
    let saved = habit.saved.clone();
    let plan = LearnPlan { iterations: 2, test_pairs: 0, ..plan().run() };
    let report = world.begin(plan, ports(&world, habit)).await.unwrap();
    let learned: Vec<_> = report.iterations.iter().map(|one| one.learned.clone()).collect();
    assert_eq!(learned, [Err("layer habit: broken".to_owned()), Ok(())]);
    let proposed = report.iterations[0].harness().unwrap().1.proposals;
    assert!(proposed > 0, "the first batch came with proposals");
    let entries = &report.harness().unwrap().proposals;
    assert!(entries.proposed > 0 && entries.proposed + proposed == world.reflectors[0].groups().len() as u64);
    assert_eq!(*saved.lock().unwrap(), [0, 0, 16], "at the beginning, and after each iteration");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_third_layer_killed_at_any_store_call_and_resumed_gives_the_same_result() {
    let plan = LearnPlan { iterations: 2, test_pairs: 4, ..plan().run() };
    let stored = |world: &World| {
        let (store, run) = (&world.store, World::run());
        (store.state(&run), store.large(&run), store.versions("lights"), store.all(), store.summary(&run))
    };
    let whole = fresh(Arc::default());
    let begun = ports(&whole, HabitStage::new(Arc::new(Follower)));
    let expected = whole.begin(plan.clone(), begun).await.unwrap();
    let (kept, calls, mut killed) = (stored(&whole), whole.store.calls(), 0);
    for at in 0..calls {
        let store = Shelf::dying(at);
        let first = fresh(store.clone());
        let result = first.begin(plan.clone(), ports(&first, HabitStage::new(Arc::new(Follower)))).await;
        store.revive(None);
        if result.is_ok() {
            continue;
        }
        killed += 1;
        let later = fresh(store);
        let resumed = ports(&later, HabitStage::new(Arc::new(Follower)));
        assert_eq!(later.resume(plan.clone(), resumed).await.unwrap(), expected, "killed at call {at}");
        assert!(stored(&later) == kept, "killed at call {at}: what is stored differs");
    }
    assert!(killed > calls / 2, "{killed} of {calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_without_the_third_layer_is_an_error() {
    let world = fresh(Arc::default());
    let plan = LearnPlan { iterations: 1, test_pairs: 0, ..plan().run() };
    world.try_learn(&WorldPlan { iterations: 1, test_pairs: 0, ..small() }).await.unwrap();
    let later = fresh(world.store.clone());
    let error = later.resume(plan, ports(&later, HabitStage::new(Arc::new(Follower)))).await.unwrap_err();
    assert!(matches!(&error, LearningError::Checkpoint { .. }), "{error}");
    assert!(error.to_string().contains("it holds no layer habit"), "{error}");
}

/// Phases of the evaluation of three layers, two of which are exclusive.
const PHASES: [&str; 4] = [
    ".test-weights-before-habit-before",
    ".test-weights-after-habit-before",
    ".test-weights-before-habit-after",
    ".test-weights-after-habit-after",
];

#[tokio::test(flavor = "multi_thread")]
async fn three_layers_are_compared_on_the_same_tasks_with_the_same_seeds() {
    let both = Both::small();
    let world = World::new(Proposer::of(&[RED]));
    let dial = Arc::new(Mutex::new(Dial::default()));
    let published = dial.lock().unwrap().published.clone();
    let inner = Arc::new(Dialled { published, demonstrates: false, luck: 0 });
    let stages: Vec<Box<dyn LearningStage>> = vec![
        Box::new(world.harness(both.world.harness())),
        stage(&both.weights, &dial),
        Box::new(HabitStage::new(inner)),
    ];
    let mut ports = world.ports(stages);
    ports.play.policy = policy(&dial, 0, Some("always: answer wait"));
    let plan = LearnPlan { iterations: 1, ..both.world.run() };
    let report = world.begin(plan, ports).await.unwrap();
    let evaluation = report.evaluation.unwrap();
    let arms: Vec<_> = evaluation.arms.iter().map(|arm| (arm.layers.join(" "), arm.lift.unwrap().mean)).collect();
    // After one step the weights know the first of eight lights, which is red; the habit layer knows the two green ones.
    let expected = [
        ("harness", 0.0),
        ("weights", 0.125),
        ("habit", 0.25),
        ("harness weights", 0.125),
        ("harness habit", 0.25),
        ("weights habit", 0.375),
        ("harness weights habit", 0.375),
    ];
    assert_eq!(arms, expected.map(|(layers, lift)| (layers.to_owned(), lift)));
    let behind: Vec<_> = evaluation.arms.iter().map(|arm| arm.behind.unwrap().mean).collect();
    assert_eq!(behind, [0.375, 0.25, 0.125, 0.25, 0.125, 0.0, 0.0], "all layers are this much better");
    let effect =
        |effect: &LayerEffect| (effect.layer.clone(), effect.mean.unwrap().mean, effect.added_last.unwrap().mean);
    let effects: Vec<_> = evaluation.effects.iter().map(effect).collect();
    let expected = [("harness", 0.0, 0.0), ("weights", 0.125, 0.125), ("habit", 0.25, 0.25)];
    assert_eq!(effects, expected.map(|(layer, mean, last)| (layer.to_owned(), mean, last)));

    let places = |episodes: Vec<Episode>| -> BTreeSet<(u64, String, u64, u64)> {
        episodes.into_iter().map(|one| (one.group(), one.task.id.clone(), one.seed(), one.policy.seed)).collect()
    };
    let first = places(world.store.of_phases(PHASES[0]));
    assert_eq!(first.len(), 32);
    for phase in PHASES {
        assert_eq!(places(world.store.of_phases(phase)), first, "{phase}");
    }
}
