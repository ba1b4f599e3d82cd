//! Learning from a pool: the decided episodes of a recorded run, without playing any for training.

use crate::weights::{plan as weights_plan, policy, stage};
use crate::world::*;
use clawhost_core::RunId;
use clawhost_learning::{EpisodePool, HarnessPlan, LearnPlan, LearnPorts, LearnReport};
use clawhost_play::{Plan, RunRequest, StopReason, play_run};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const PROMPT: Option<&str> = Some("always: answer wait");
/// Groups of an iteration.
const GROUPS: u64 = 4;

fn recorded() -> RunId {
    RunId("recorded".into())
}

fn fresh(store: Arc<Shelf>) -> World {
    // What it proposes depends on the whole group, members without a reward too.
    let reflector = Proposer::by(|shown| {
        let (size, task) = (shown.group.len(), &shown.group[0].task.id);
        Ok(vec![lesson(&format!("when task is {task}: answer {size}"))])
    });
    let fails = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(7);
    // Some are not scored, whatever was answered; all of the third group.
    let marks = Marks::by(|episode| {
        let decided = !episode.policy.seed.is_multiple_of(5) && episode.group() != 2;
        decided.then(|| f64::from(u8::from(is_right(episode))))
    });
    let environment = Lights { fails: Box::new(fails), ..Lights::default() };
    World { environment: Arc::new(environment), marks: Arc::new(marks), store, ..World::new(reflector) }
}

/// A world in which a run of 16 groups was recorded, and nothing was learned.
async fn with_a_recorded_run() -> World {
    let world = fresh(Arc::default());
    let mut ports = world.play_ports();
    ports.policy = policy(&Arc::default(), 3, PROMPT);
    let plan = Plan { episodes: 64, group: 4, failure_budget: 1.0, ..small().play };
    play_run(RunRequest::new(recorded(), plan, ports), &world.cancel, &world.watching).await.unwrap();
    world.environment.begun.lock().unwrap().clear();
    world
}

/// Groups of the recorded run that hold a decided episode: position, and members with a reward.
fn decided(world: &World) -> Vec<(u64, u64)> {
    let mut groups: Vec<(u64, u64)> = Vec::new();
    for episode in world.store.of_phases("recorded").iter().filter(|episode| episode.reward.is_some()) {
        match groups.last_mut() {
            Some((group, members)) if *group == episode.group() => *members += 1,
            _ => groups.push((episode.group(), 1)),
        }
    }
    groups
}

fn plan(iterations: u64) -> LearnPlan {
    LearnPlan { iterations, test_pairs: 0, ..small().run() }
}

/// Reflectors are asked about every second batch, so that groups wait.
fn ports(world: &World, dial: &Arc<Mutex<Dial>>) -> LearnPorts {
    let harness = HarnessPlan { reflect_every: 2, ..small().harness() };
    let stages = vec![Box::new(world.harness(harness)) as _, stage(&weights_plan(None).weights, dial)];
    let mut ports = world.ports(stages);
    ports.play.policy = policy(dial, 0, PROMPT);
    ports.source = Some(Box::new(EpisodePool::of_run(recorded(), GROUPS, 0)));
    ports
}

async fn learn(world: &World, iterations: u64) -> (LearnReport, Arc<Mutex<Dial>>) {
    let dial = Arc::default();
    let report = world.begin(plan(iterations), ports(world, &dial)).await.unwrap();
    (report, dial)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loop_learns_from_the_decided_episodes_without_playing_for_training() {
    let world = with_a_recorded_run().await;
    let groups = decided(&world);
    assert!(groups.len() == 13 && groups.iter().any(|(_, members)| *members < 4), "{groups:?}");
    let (report, dial) = learn(&world, 2).await;
    let phases = world.watching.phases.lock().unwrap().clone();
    assert!(!phases.iter().any(|phase| phase.ends_with("-train")), "{phases:?}");
    assert!(world.environment.begun.lock().unwrap().iter().all(|(task, _)| task.starts_with("val-")), "the gate alone");
    for (number, one) in report.iterations.iter().enumerate() {
        let of = &groups[number * GROUPS as usize..][..GROUPS as usize];
        assert_eq!(one.episodes, of.iter().map(|(_, members)| members).sum::<u64>(), "what has no reward is left out");
        assert_eq!(one.removed, of.iter().map(|(_, members)| 4 - members).sum::<u64>(), "and counted");
        assert_eq!(dial.lock().unwrap().taught[number].groups.len() as u64, GROUPS);
    }
    assert_eq!((report.learned, report.stopped, dial.lock().unwrap().value), (2, None, 2));
    let played = world.watching.played.lock().unwrap();
    let seen: BTreeSet<u64> = played.iter().flatten().map(|episode| episode.group()).collect();
    assert_eq!(seen, groups[..8].iter().map(|(group, _)| *group).collect(), "each group once, in the recorded order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_exhausted_ends_the_run_early() {
    let world = with_a_recorded_run().await;
    let groups = decided(&world);
    let (report, dial) = learn(&world, 100).await;
    assert_eq!(
        (report.iterations.len(), report.learned, report.stopped.clone()),
        (4, 4, None),
        "13 groups are three times four, and one"
    );
    let last: u64 = groups[12..].iter().map(|(_, members)| members).sum();
    assert_eq!((report.iterations[3].episodes, dial.lock().unwrap().value), (last, 4));
    let (over, state) = world.store.state(&World::run()).unwrap();
    assert_eq!(
        (over, &state["exhausted"], &state["source"]["taken"]),
        (4, &serde_json::json!(true), &serde_json::json!(13))
    );
    // It stays at its end.
    let later = fresh(world.store.clone());
    let again = later.resume(plan(100), ports(&later, &Arc::default())).await.unwrap();
    assert_eq!((again, later.watching.played.lock().unwrap().len()), (report, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_goes_on_from_its_position_after_an_interruption() {
    let world = with_a_recorded_run().await;
    let (expected, dial) = learn(&world, 3).await;
    assert!(expected.harness().unwrap().reflections.asked > 3, "what waited is asked about: {expected:#?}");
    let stored = |world: &World| (world.store.state(&World::run()), world.store.large(&World::run()));
    let (kept, value, calls) = (stored(&world), dial.lock().unwrap().value, world.store.calls());
    let mut killed = 0;
    // The calls before the first are those of the recorded run.
    let begins = calls - { with_a_recorded_run().await.store.calls() };
    for at in 0..begins {
        let first = with_a_recorded_run().await;
        first.store.revive(Some(first.store.calls() + at));
        let result = first.begin(plan(3), ports(&first, &Arc::default())).await;
        first.store.revive(None);
        if result.is_ok() {
            continue;
        }
        killed += 1;
        let (later, dial) = (fresh(first.store.clone()), Arc::default());
        let report = later.resume(plan(3), ports(&later, &dial)).await.unwrap();
        assert_eq!((&report, dial.lock().unwrap().value), (&expected, value), "killed at call {at}");
        assert!(stored(&later) == kept, "killed at call {at}: the state differs");
    }
    assert!(killed > begins / 2, "{killed} of {begins} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_which_nothing_is_decided_teaches_nothing() {
    let mut world = fresh(Arc::default());
    world.marks = Arc::new(Marks::by(|_| None));
    let mut ports_of_run = world.play_ports();
    ports_of_run.policy = policy(&Arc::default(), 0, PROMPT);
    play_run(RunRequest::new(recorded(), small().play, ports_of_run), &world.cancel, &world.watching).await.unwrap();
    let (report, dial) = learn(&world, 3).await;
    assert_eq!((report.iterations.len(), report.learned, dial.lock().unwrap().value), (0, 0, 0));
    let Some(StopReason::Unscored { why }) = &report.stopped else { panic!("{:?}", report.stopped) };
    assert!(why.contains("recorded"), "{why}");
}
