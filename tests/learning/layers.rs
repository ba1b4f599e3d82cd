//! Several layers in one run: harness and weights learn from the same iterations in one transaction.

use crate::observed::observed;
use crate::weights::{plan as weights_plan, policy, stage};
use crate::world::*;
use clawhost_core::{Episode, PlaybookVersion, RunId};
use clawhost_learn::gate::Decision;
use clawhost_learn::{Batch, CheckpointKind};
use clawhost_learning::{
    ArmReport, GatePlan, LearnPorts, LearnReport, LearningError, LearningStage, WarmStart, WeightsPlan,
};
use clawhost_play::{Plan, StopReason};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// One answer in this many is right by chance, so that groups have variance before anything is learned.
const LUCK: u64 = 9;
const PROMPT: Option<&str> = Some("always: answer wait");

/// Settings of both layers.
#[derive(Clone)]
pub(crate) struct Both {
    pub(crate) world: WorldPlan,
    pub(crate) weights: WeightsPlan,
    pub(crate) luck: u64,
}

impl Both {
    pub(crate) fn small() -> Self {
        Self { world: small(), weights: weights_plan(None).weights, luck: 0 }
    }

    /// The ports of a process with these weights.
    pub(crate) fn ports(&self, world: &World, dial: &Arc<Mutex<Dial>>) -> LearnPorts {
        let stages = vec![self.harness(world), stage(&self.weights, dial)];
        let mut ports = world.ports(stages);
        ports.play.policy = policy(dial, self.luck, PROMPT);
        ports
    }

    fn harness(&self, world: &World) -> Box<dyn LearningStage> {
        Box::new(world.harness(self.world.harness()))
    }

    pub(crate) async fn learn(&self, world: &World, dial: Dial) -> (LearnReport, Arc<Mutex<Dial>>) {
        let dial = Arc::new(Mutex::new(dial));
        let report = world.begin(self.world.run(), self.ports(world, &dial)).await.unwrap();
        (report, dial)
    }
}

/// Reward of every member of every group, by the group's seed.
fn rewards(batch: &Batch) -> BTreeMap<u64, Vec<f64>> {
    let of = |group: &clawhost_learn::Group| group.members.iter().map(|member| member.reward).collect();
    batch.groups.iter().map(|group| (group.seed, of(group))).collect()
}

/// The same for the episodes of a phase.
fn recorded(episodes: &[Episode]) -> BTreeMap<u64, Vec<f64>> {
    let mut rewards: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for episode in episodes {
        rewards.entry(episode.seed()).or_default().extend(episode.reward);
    }
    rewards
}

#[tokio::test(flavor = "multi_thread")]
async fn the_harness_learns_from_all_groups_and_weights_from_selected_ones() {
    let mut both = Both { luck: LUCK, ..Both::small() };
    (both.world.iterations, both.world.test_pairs, both.weights.refills) = (2, 0, 3);
    let (world, dial) = (World::usual(), Arc::new(Mutex::new(Dial::default())));
    let (harness, of_harness) = observed(both.harness(&world));
    let mut ports = both.ports(&world, &dial);
    ports.stages[0] = harness;
    world.begin(both.world.run(), ports).await.unwrap();

    let (of_harness, of_weights) = (of_harness.lock().unwrap().clone(), dial.lock().unwrap().taught.clone());
    assert_eq!((of_harness.len(), of_weights.len()), (2, 2));
    let is_flat = |rewards: &Vec<f64>| rewards.iter().all(|reward| *reward == rewards[0]);
    for (number, (harness, weights)) in (1..).zip(of_harness.iter().zip(&of_weights)) {
        let phase = |name: &str| recorded(&world.store.of_phases(&format!("i{number:05}-{name}")));
        let (played, refills) = (phase("train"), phase("refill"));
        assert_eq!(rewards(harness), played, "all groups, without replacements");
        let taught = rewards(weights);
        assert_eq!(taught.len(), played.len(), "one group per position");
        let replaced = taught.keys().filter(|seed| !played.contains_key(seed));
        assert!(replaced.clone().count() > 0);
        assert!(replaced.clone().all(|seed| refills[seed] == taught[seed] && !is_flat(&taught[seed])));
        assert!(
            played.iter().all(|(seed, group)| is_flat(group) || taught[seed] == *group),
            "groups with variance stay"
        );
        let in_place = played.iter().filter(|(_, group)| is_flat(group)).count();
        assert!(replaced.count() <= in_place, "only groups without variance are replaced");
    }
    let shown = world.reflectors[0].groups();
    assert!(!shown.is_empty() && shown.iter().all(|(run, _)| run.0.ends_with("-train")), "reflectors see all groups");
}

/// The layers in the last checkpoint: state of the harness, bytes of the weights.
fn layers(world: &World) -> (serde_json::Value, Vec<u8>) {
    let (_, state) = world.store.state(&World::run()).unwrap();
    (state["layers"]["harness"]["harness"].clone(), world.store.large(&World::run())["weights"].to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn if_one_layer_cannot_step_no_layer_does() {
    let mut both = Both::small();
    (both.world.iterations, both.world.test_pairs) = (1, 0);
    let one = World::usual();
    both.learn(&one, Dial::default()).await;
    both.world.iterations = 2;
    let two = World::usual();
    both.learn(&two, Dial::default()).await;
    assert_ne!(layers(&one), layers(&two), "a second step changes both");

    let world = World::usual();
    let (report, dial) = both.learn(&world, Dial { breaks: Some(1), ..Dial::default() }).await;
    assert_eq!(layers(&world), layers(&one), "both have the state after the first step");
    assert_eq!(dial.lock().unwrap().published.load(Ordering::SeqCst), 1, "the published weights too");
    let learned: Vec<_> = report.iterations.iter().map(|one| one.learned.clone()).collect();
    assert_eq!(learned, [Ok(()), Err("layer weights: no step today".to_owned())]);
    assert_eq!(report.learned, 1);
    let measured: Vec<bool> = report.iterations[1].layers.iter().map(|one| one.measurements.is_empty()).collect();
    assert_eq!(measured, [true, true], "a rolled-back step has no measurements");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_cannot_use_a_batch_is_left_out() {
    let mut both = Both::small();
    (both.world.iterations, both.world.test_pairs) = (1, 0);
    let (report, dial) = both.learn(&World::usual(), Dial { refuses: Some(0), ..Dial::default() }).await;
    let first = &report.iterations[0];
    assert_eq!((first.learned.clone(), dial.lock().unwrap().value), (Ok(()), 0));
    assert_eq!(first.weights().unwrap().0.events, ["layer weights: no gradient today"]);
    assert_eq!(report.harness().unwrap().entries.len(), 4, "the proposals came in");
}

/// After five steps the weights answer the first five of eight lights correctly, and those that require waiting. The harness
/// learns about green lights, which are the second and the sixth.
async fn evaluated() -> (World, LearnReport, Arc<Mutex<Dial>>) {
    let mut both = Both::small();
    both.world.iterations = 5;
    let world = World::new(Proposer::of(&[GREEN]));
    let (report, dial) = both.learn(&world, Dial::default()).await;
    assert_eq!(world.deployed(), [GREEN], "{report:#?}");
    (world, report, dial)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_layer_is_evaluated_alone_and_together_with_a_lift_of_its_own() {
    let (_, report, _) = evaluated().await;
    let evaluation = report.evaluation.unwrap();
    let arm = |arm: &ArmReport| (arm.layers.join(" "), arm.mean.unwrap().mean, arm.lift.unwrap().mean);
    let arms: Vec<_> = evaluation.arms.iter().map(arm).collect();
    let expected = [("harness", 0.75, 0.25), ("weights", 0.875, 0.375), ("harness weights", 1.0, 0.5)]
        .map(|(layers, mean, lift)| (layers.to_owned(), mean, lift));
    assert_eq!(arms, expected);
    assert_eq!((evaluation.before.unwrap().mean, evaluation.after.unwrap().mean), (0.5, 1.0));
    assert_eq!(evaluation.lift, evaluation.arms[2].lift, "the lift of the run is that of all layers");
    assert_eq!((evaluation.pairs, evaluation.missing.all()), (32, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_arms_play_the_same_tasks_with_the_same_seeds() {
    let (world, ..) = evaluated().await;
    let places = |phase: &str, arm: u64| -> BTreeSet<(u64, String, u64, u64)> {
        let episodes = world.store.of_phases(phase).into_iter().filter(|episode| episode.index % 2 == arm);
        episodes.map(|one| (one.group(), one.task.id.clone(), one.seed(), one.policy.seed)).collect()
    };
    let first = places(".test-weights-before", 0);
    assert_eq!(first.len(), 32);
    for (phase, arm) in [(".test-weights-before", 1), (".test-weights-after", 0), (".test-weights-after", 1)] {
        assert_eq!(places(phase, arm), first, "{phase} {arm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_weights_act_only_in_their_arms() {
    let (world, _, dial) = evaluated().await;
    let versions = |phase: &str| -> BTreeSet<String> {
        world.store.of_phases(phase).into_iter().map(|episode| episode.policy.model.version).collect()
    };
    assert_eq!(versions(".test-weights-before"), BTreeSet::from(["0".to_owned()]));
    assert_eq!(versions(".test-weights-after"), BTreeSet::from(["5".to_owned()]));
    let dial = dial.lock().unwrap();
    assert_eq!((dial.value, dial.published.load(Ordering::SeqCst)), (5, 5));
    assert_eq!(dial.kept, [(CheckpointKind::Last, 5)], "the current weights are kept");
    assert_eq!(dial.bytes()[..], world.store.large(&World::run())["weights"][..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_earlier_weights_act_restores_the_current_ones() {
    let mut both = Both::small();
    both.world.iterations = 2;
    let whole = World::usual();
    let (expected, _) = both.learn(&whole, Dial::default()).await;
    let begun = whole.environment.begun.lock().unwrap().len();
    assert_eq!(whole.watching.phases.lock().unwrap().last().unwrap(), "test-weights-before", "it is the last phase");

    let world = World::usual();
    *world.environment.cancel_at.lock().unwrap() = Some((begun - 3, world.cancel.clone()));
    let (stopped, dial) = both.learn(&world, Dial::default()).await;
    assert_eq!((stopped.stopped, stopped.evaluation), (Some(StopReason::Cancelled), None));
    {
        let dial = dial.lock().unwrap();
        assert_eq!((dial.value, dial.published.load(Ordering::SeqCst)), (2, 2));
        assert_eq!(dial.kept.last(), Some(&(CheckpointKind::Last, 2)));
    }
    let later = World { store: world.store.clone(), ..World::usual() };
    let report = later.resume(both.world.run(), both.ports(&later, &Arc::default())).await.unwrap();
    assert_eq!(report, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_weights_in_the_store_are_an_error() {
    let mut both = Both::small();
    both.world.iterations = 1;
    let world = World::usual();
    let (_, _) = both.learn(&world, Dial::default()).await;
    world.store.lose_large_state(&World::run());
    let later = World { store: world.store.clone(), ..World::usual() };
    let error = later.resume(both.world.run(), both.ports(&later, &Arc::default())).await.unwrap_err();
    assert!(matches!(&error, LearningError::Checkpoint { .. }) && error.to_string().contains("weights"), "{error}");
}

/// The results of a run with both layers.
#[derive(PartialEq)]
struct Outcome {
    report: LearnReport,
    state: Option<(u64, serde_json::Value)>,
    large: BTreeMap<String, Arc<[u8]>>,
    versions: Vec<PlaybookVersion>,
    episodes: Vec<Episode>,
    summary: serde_json::Value,
    /// The weights, and the published ones.
    weights: (u64, u64),
}

impl Outcome {
    fn of(world: &World, report: LearnReport, dial: &Mutex<Dial>) -> Self {
        let (store, run, dial) = (&world.store, World::run(), dial.lock().unwrap());
        Self {
            report,
            state: store.state(&run),
            large: store.large(&run),
            versions: store.versions("lights"),
            episodes: store.all(),
            summary: store.summary(&run).unwrap(),
            weights: (dial.value, dial.published.load(Ordering::SeqCst)),
        }
    }

    fn assert_same(&self, expected: &Self, what: &str) {
        assert_eq!(self.report, expected.report, "{what}");
        assert_eq!((&self.state, &self.versions), (&expected.state, &expected.versions), "{what}");
        assert_eq!((&self.large, self.weights), (&expected.large, expected.weights), "{what}");
        assert!(self == expected, "{what}: an episode differs");
    }
}

/// A short run with demonstrations, replacements, validation, a promoted candidate, and an evaluation of all arms.
fn tiny() -> Both {
    let warm_start = WarmStart {
        demonstrations: 4,
        options: vec![],
        batch: 2,
        rate: 0.1,
        last_rate: 0.1,
        target: 0.99,
        every: 1,
        episodes: 8,
        steps: 2,
    };
    let weights =
        WeightsPlan { refills: 1, evaluate_every: 2, evaluate_episodes: 8, ..weights_plan(Some(warm_start)).weights };
    let world = WorldPlan {
        iterations: 3,
        // So many that lessons are decided at once. All concurrently: fewer transactions mean fewer kill points.
        play: Plan { episodes: 256, concurrency: 256, ..small().play },
        gate: GatePlan { every: 1, pairs: 64, alpha: 0.2 },
        reflect_every: 1,
        test_pairs: 4,
    };
    Both { world, weights, luck: LUCK }
}

/// Some episodes fail, so that removed episodes occur too.
fn fresh(store: Arc<Shelf>) -> World {
    let fails = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(29);
    let environment = Lights { fails: Box::new(fails), ..Lights::default() };
    World { environment: Arc::new(environment), store, ..World::usual() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_two_layers_killed_at_any_store_call_and_resumed_gives_the_same_result() {
    let both = tiny();
    let whole = fresh(Arc::default());
    let (report, dial) = both.learn(&whole, Dial::default()).await;
    let promoted =
        |one: &clawhost_learning::IterationReport| one.gate().is_some_and(|gate| gate.decision == Decision::Promote);
    assert!(report.iterations.iter().any(promoted), "something is deployed: {report:#?}");
    assert!(report.weights().unwrap().best.is_some() && report.iterations[0].metrics()["train.refilled_groups"] > 0.0);
    let expected = Outcome::of(&whole, report, &dial);
    let (calls, mut killed) = (whole.store.calls(), 0);
    for at in 0..calls {
        let store = Shelf::dying(at);
        let (first, dial) = (fresh(store.clone()), Arc::default());
        let result = first.begin(both.world.run(), both.ports(&first, &dial)).await;
        store.revive(None);
        match result {
            // Transactions contain the episodes that are ready, so there may be fewer calls.
            Ok(_) => continue,
            Err(error) => assert!(error.to_string().contains("killed"), "{at}: {error}"),
        }
        killed += 1;
        // Another process initialises its weights again.
        let (later, dial) = (fresh(store), Arc::default());
        let report = later.resume(both.world.run(), both.ports(&later, &dial)).await.unwrap();
        Outcome::of(&later, report, &dial).assert_same(&expected, &format!("killed at call {at}"));
    }
    assert!(killed > calls / 2, "{killed} of {calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_is_recorded_as_a_learning_run_and_its_parts_as_phases() {
    let mut both = Both::small();
    both.world.iterations = 1;
    let world = World::usual();
    both.learn(&world, Dial::default()).await;
    for run in world.store.runs() {
        let record = world.store.record(&run);
        let (kind, parent) = match run == World::run() {
            true => (clawhost_core::RunKind::Learn, None),
            false => (clawhost_core::RunKind::Phase, Some(World::run())),
        };
        assert_eq!((record.kind, record.parent, record.environment.as_str()), (kind, parent, "lights"), "{run}");
    }
    assert_eq!(world.store.record(&World::run()).config.0["kind"], "learn");
    let phase = |name: &str| RunId(format!("learn.{name}"));
    assert!(world.store.has_run(&phase("i00001-train")) && world.store.has_run(&phase("test-weights-before")));
}
