//! Learning from a pool: the decided episodes of a recorded run, without playing training episodes.

use crate::weights::{plan as weights_plan, policy, stage};
use crate::world::*;
use clawhost_core::RunId;
use clawhost_learning::{EpisodePool, HarnessPlan, LearnPlan, LearnPorts, LearnReport};
use clawhost_play::{Plan, RunRequest, StopReason, play_run};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const PROMPT: Option<&str> = Some("always: answer wait");
/// Groups per iteration.
const GROUPS: u64 = 4;

fn recorded() -> RunId {
    RunId("recorded".into())
}

fn fresh(store: Arc<Shelf>) -> World {
    // Its proposals depend on the whole group, including members without a reward.
    let reflector = Proposer::by(|shown| {
        let (size, task) = (shown.group.len(), &shown.group[0].task.id);
        Ok(vec![lesson(&format!("when task is {task}: answer {size}"))])
    });
    let fails = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(7);
    // Some members are unscored, and all of the third group.
    let marks = Marks::by(|episode| {
        let decided = !episode.policy.seed.is_multiple_of(5) && episode.group() != 2;
        decided.then(|| f64::from(u8::from(is_right(episode))))
    });
    let environment = Lights { fails: Box::new(fails), ..Lights::default() };
    World { environment: Arc::new(environment), marks: Arc::new(marks), store, ..World::new(reflector) }
}

/// A world with a recorded run of 16 groups.
async fn with_a_recorded_run() -> World {
    let world = fresh(Arc::default());
    let mut ports = world.play_ports();
    ports.policy = policy(&Arc::default(), 3, PROMPT);
    let plan = Plan { episodes: 64, group: 4, failure_budget: 1.0, ..small().play };
    play_run(RunRequest::new(recorded(), plan, ports), &world.cancel, &world.watching).await.unwrap();
    world.environment.begun.lock().unwrap().clear();
    world
}

/// Groups of the recorded run with a decided episode: position, and number of scored members.
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

/// Reflectors are called every second batch, so that groups wait.
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
async fn a_pool_run_plays_no_training_episodes() {
    let world = with_a_recorded_run().await;
    let groups = decided(&world);
    assert!(groups.len() == 13 && groups.iter().any(|(_, members)| *members < 4), "{groups:?}");
    let (report, dial) = learn(&world, 2).await;
    let phases = world.watching.phases.lock().unwrap().clone();
    assert!(!phases.iter().any(|phase| phase.ends_with("-train")), "{phases:?}");
    assert!(
        world.environment.begun.lock().unwrap().iter().all(|(task, _)| task.starts_with("val-")),
        "only the gate plays"
    );
    for (number, one) in report.iterations.iter().enumerate() {
        let of = &groups[number * GROUPS as usize..][..GROUPS as usize];
        assert_eq!(one.episodes, of.iter().map(|(_, members)| members).sum::<u64>(), "unscored members are left out");
        assert_eq!(one.removed, of.iter().map(|(_, members)| 4 - members).sum::<u64>(), "and counted");
        assert_eq!(dial.lock().unwrap().taught[number].groups.len() as u64, GROUPS);
    }
    assert_eq!((report.learned, report.stopped, dial.lock().unwrap().value), (2, None, 2));
    let played = world.watching.played.lock().unwrap();
    let seen: BTreeSet<u64> = played.iter().flatten().map(|episode| episode.group()).collect();
    assert_eq!(seen, groups[..8].iter().map(|(group, _)| *group).collect(), "each group once, in the recorded order");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_pool_ends_the_run() {
    let world = with_a_recorded_run().await;
    let groups = decided(&world);
    let (report, dial) = learn(&world, 100).await;
    assert_eq!(
        (report.iterations.len(), report.learned, report.stopped.clone()),
        (4, 4, None),
        "13 groups are three batches of four and one of one"
    );
    let last: u64 = groups[12..].iter().map(|(_, members)| members).sum();
    assert_eq!((report.iterations[3].episodes, dial.lock().unwrap().value), (last, 4));
    let (over, state) = world.store.state(&World::run()).unwrap();
    assert_eq!(
        (over, &state["exhausted"], &state["source"]["taken"]),
        (4, &serde_json::json!(true), &serde_json::json!(13))
    );
    // Resuming does not restart the pool.
    let later = fresh(world.store.clone());
    let again = later.resume(plan(100), ports(&later, &Arc::default())).await.unwrap();
    assert_eq!((again, later.watching.played.lock().unwrap().len()), (report, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_continues_from_its_position_after_an_interruption() {
    let world = with_a_recorded_run().await;
    let (expected, dial) = learn(&world, 3).await;
    assert!(expected.harness().unwrap().reflections.asked > 3, "waiting groups are reflected on: {expected:#?}");
    let stored = |world: &World| (world.store.state(&World::run()), world.store.large(&World::run()));
    let (kept, value, calls) = (stored(&world), dial.lock().unwrap().value, world.store.calls());
    let mut killed = 0;
    // The first calls belong to the recorded run.
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
async fn a_pool_without_decided_episodes_stops_the_run() {
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
