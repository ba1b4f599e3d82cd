//! An interrupted and resumed run gives the result of an uninterrupted one.

use crate::world::*;
use clawhost_core::{Episode, Hint, LearningStore as _, PlaybookVersion, RunId};
use clawhost_learn::playbook::Playbook;
use clawhost_learning::{GatePlan, LearnReport, LearningError};
use clawhost_play::{Cancel, Plan, StopReason};
use std::sync::Arc;

/// A small run with waiting groups, gate sessions of two looks, a promoted candidate, and an undecided one.
fn tiny() -> WorldPlan {
    WorldPlan {
        iterations: 5,
        // All concurrently: fewer transactions mean fewer kill points.
        play: Plan { episodes: 48, concurrency: 64, ..small().play },
        reflect_every: 2,
        gate: GatePlan { every: 2, pairs: 36, alpha: 0.05 },
        test_pairs: 8,
    }
}

/// The gate sees no effect for some time; some episodes fail; the reward varies.
fn fresh(store: Arc<Shelf>) -> World {
    let colour = |split: &str, position: u64| match (split, position) {
        ("val", ..36) => "grey",
        _ => COLOURS[position as usize % 4],
    };
    let fails = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(29);
    let environment = Lights { colour, fails: Box::new(fails), ..Lights::default() };
    World { environment: Arc::new(environment), store, ..World::usual() }
}

/// The results of a run.
type Outcome = (LearnReport, Option<(u64, serde_json::Value)>, Vec<PlaybookVersion>, Vec<Episode>, serde_json::Value);

fn outcome(world: &World, report: LearnReport) -> Outcome {
    let store = &world.store;
    let run = World::run();
    (report, store.state(&run), store.versions("lights"), store.all(), store.summary(&run).unwrap())
}

fn assert_same(found: &Outcome, expected: &Outcome, what: &str) {
    assert_eq!(found.0, expected.0, "{what}");
    assert_eq!((&found.1, &found.2, &found.4), (&expected.1, &expected.2, &expected.4), "{what}");
    assert_eq!(found.3.len(), expected.3.len(), "{what}");
    assert!(found.3 == expected.3, "{what}: an episode differs");
}

async fn uninterrupted() -> (Outcome, u64) {
    let world = fresh(Arc::default());
    let report = world.learn(&tiny()).await;
    assert_eq!(world.deployed(), [GREEN, RED], "{report:#?}");
    let sessions: Vec<u64> = report.iterations.iter().filter_map(|one| Some(one.gate()?.evidence.pairs)).collect();
    assert!(
        sessions.len() > 1 && sessions[0] > 30 && sessions[1] > sessions[0],
        "one session is continued: {sessions:?}"
    );
    let calls = world.store.calls();
    (outcome(&world, report), calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_at_any_store_call_and_resumed_gives_the_same_result() {
    let (expected, calls) = uninterrupted().await;
    let mut killed = 0;
    // Killed before a call equals killed after the previous one: the stored state is the same.
    for at in 0..calls {
        let store = Shelf::dying(at);
        let first = fresh(store.clone()).try_learn(&tiny()).await;
        store.revive(None);
        match first {
            // Transactions contain the episodes that are ready, so there may be fewer calls.
            Ok(_) => continue,
            Err(error) => assert!(error.to_string().contains("killed"), "{at}: {error}"),
        }
        killed += 1;
        let later = fresh(store);
        let report = later.go_on(&tiny()).await.unwrap();
        assert_same(&outcome(&later, report), &expected, &format!("killed at call {at}"));
    }
    assert!(killed > calls / 2, "{killed} of {calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_repeatedly_gives_the_same_result() {
    let (expected, _) = uninterrupted().await;
    for patience in [22, 31] {
        let store = Shelf::dying(patience);
        // Group by group, so that it is killed within phases too.
        let plan = WorldPlan { play: Plan { concurrency: 4, ..tiny().play }, ..tiny() };
        let mut report = fresh(store.clone()).try_learn(&plan).await;
        let mut lives = 1;
        while report.is_err() {
            lives += 1;
            assert!(lives < 40, "it makes no progress");
            store.revive(Some(store.calls() + patience));
            let later = fresh(store.clone());
            report = later.go_on(&plan).await;
        }
        assert!(lives > 2);
        assert_same(&outcome(&fresh(store), report.unwrap()), &expected, &format!("{lives} lives"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stopped_at_any_episode_reports_its_last_checkpoint_and_can_be_resumed() {
    let (expected, _) = uninterrupted().await;
    let begun = expected.3.len();
    for at in (1..begun).step_by(23) {
        let world = fresh(Arc::default());
        *world.environment.cancel_at.lock().unwrap() = Some((at, world.cancel.clone()));
        let report = world.learn(&tiny()).await;
        assert_stands(&world, &report, at);
        let later = fresh(world.store.clone());
        let report = later.go_on(&tiny()).await.unwrap();
        assert_same(&outcome(&later, report), &expected, &format!("stopped at episode {at}"));
    }
}

/// The report of a stopped run covers exactly the complete iterations.
fn assert_stands(world: &World, report: &LearnReport, at: usize) {
    assert_eq!(report.stopped, Some(StopReason::Cancelled), "{at}");
    assert_eq!(report.evaluation, None, "{at}");
    let (over, state) = world.store.state(&World::run()).unwrap();
    let harness = report.harness().unwrap();
    assert_eq!((report.iterations.len() as u64, report.learned), (over, over), "{at}");
    assert_eq!(serde_json::json!(harness.reflections), state["layers"]["harness"]["reflections"], "{at}");
    assert_eq!(serde_json::json!(harness.proposals), state["layers"]["harness"]["harness"]["counts"], "{at}");
    let statuses = |of: &str| harness.entries.iter().filter(|row| row.status == of).count();
    let kept: Vec<&serde_json::Value> =
        state["layers"]["harness"]["harness"]["records"].as_object().unwrap().values().collect();
    let stored = |of: &str| kept.iter().filter(|record| record["entry"]["status"] == of).count();
    assert_eq!(harness.entries.len(), kept.len(), "{at}");
    for (row, record) in
        [("queued", "queued"), ("on trial", "on_trial"), ("admitted", "admitted"), ("deployed", "deployed")]
    {
        assert_eq!(statuses(row), stored(record), "{at}: {row}");
    }
    if let Some(last) = report.iterations.last() {
        assert_eq!(state["iteration"], last.iteration, "{at}");
    }
    assert_eq!(world.store.summary(&World::run()).unwrap()["stopped"], "cancelled", "{at}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stopped_during_reflection_calls_reflectors_again() {
    let (expected, _) = uninterrupted().await;
    let cancel = Cancel::default();
    let stops = cancel.clone();
    let reflector = Proposer::by(move |_| {
        stops.request();
        Ok([RED, GREEN, NEUTRAL, FALSE].map(lesson).to_vec())
    });
    let world = World { reflectors: vec![reflector], cancel, ..fresh(Arc::default()) };
    let report = world.learn(&tiny()).await;
    assert_stands(&world, &report, 0);
    let harness = report.harness().unwrap();
    assert_eq!((harness.reflections.asked, harness.entries.len()), (0, 0), "nothing of it is recorded yet");
    let later = fresh(world.store.clone());
    let report = later.go_on(&tiny()).await.unwrap();
    assert_same(&outcome(&later, report), &expected, "stopped in reflection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stopped_before_its_start_can_be_resumed() {
    let (expected, _) = uninterrupted().await;
    let world = fresh(Arc::default());
    world.cancel.request();
    let report = world.learn(&tiny()).await;
    assert_stands(&world, &report, 0);
    assert!(world.environment.begun.lock().unwrap().is_empty());
    let later = fresh(world.store.clone());
    let report = later.go_on(&tiny()).await.unwrap();
    assert_same(&outcome(&later, report), &expected, "stopped before it began");
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_a_complete_run_returns_its_report_and_plays_nothing() {
    let world = fresh(Arc::default());
    let report = world.learn(&tiny()).await;
    let expected = outcome(&world, report);
    let later = fresh(world.store.clone());
    let report = later.go_on(&tiny()).await.unwrap();
    assert_same(&outcome(&later, report), &expected, "over");
    assert!(later.environment.begun.lock().unwrap().is_empty());
    assert!(later.reflectors[0].groups().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_budget_stops_the_run_and_a_larger_one_resumes_it() {
    let (expected, _) = uninterrupted().await;
    let strict = |budget| WorldPlan { play: Plan { failure_budget: budget, ..tiny().play }, ..tiny() };
    let world = fresh(Arc::default());
    let report = world.learn(&strict(0.0)).await;
    assert!(matches!(report.stopped, Some(StopReason::FailureBudget { failed: 1, allowed: 0 })), "{report:?}");
    let still = fresh(world.store.clone());
    let report = still.go_on(&strict(0.0)).await.unwrap();
    assert!(matches!(report.stopped, Some(StopReason::FailureBudget { .. })), "{report:?}");
    let later = fresh(world.store.clone());
    let report = later.go_on(&tiny()).await.unwrap();
    assert_same(&outcome(&later, report), &expected, "after a failure budget");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_state_is_an_error() {
    let check = async |damage: fn(&Shelf, &RunId)| {
        let world = fresh(Arc::default());
        *world.environment.cancel_at.lock().unwrap() = Some((60, world.cancel.clone()));
        world.learn(&tiny()).await;
        damage(&world.store, &World::run());
        let later = fresh(world.store.clone());
        let error = later.go_on(&tiny()).await.unwrap_err();
        assert!(matches!(error, LearningError::Checkpoint { .. }), "{error}");
    };
    check(|store, run| store.damage_state(run)).await;
    check(|store, run| store.damage_iteration(run)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playbook_changed_during_the_interruption_is_not_overwritten() {
    let world = fresh(Arc::default());
    *world.environment.cancel_at.lock().unwrap() = Some((40, world.cancel.clone()));
    assert_eq!(world.learn(&tiny()).await.stopped, Some(StopReason::Cancelled));
    let other = Playbook { sections: [("rules".to_owned(), "Be kind.".to_owned())].into(), entries: vec![] };
    let version = PlaybookVersion {
        name: "lights".into(),
        number: 0,
        digest: other.digest(),
        document: serde_json::json!(other),
        why: "imported".into(),
        run: None,
        created_at: 0,
    };
    world.store.add_version(version, None).await.unwrap();
    let later = fresh(world.store.clone());
    let error = later.go_on(&tiny()).await.unwrap_err();
    assert!(error.to_string().contains("playbook lights changed since learn was interrupted"), "{error}");
    assert_eq!((error.code(), error.hints()), ("playbook-changed", vec![Hint::NewRun]));
    assert_eq!(later.store.summary(&World::run()).unwrap()["stopped"], "cancelled", "the run is unchanged");
    assert!(later.environment.begun.lock().unwrap().is_empty(), "nothing was played");
}
