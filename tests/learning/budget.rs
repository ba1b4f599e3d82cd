//! Learning with a small number of episodes: lessons are proposed from all episodes, and judged together.

use crate::world::*;
use clawhost_core::{Episode, SpecDocument};
use clawhost_learn::budget::BudgetPlan;
use clawhost_learn::gate::{Decision, Test};
use clawhost_learn::harness::{Admission, HarnessSettings};
use clawhost_learning::{GatePlan, HarnessPlan, IterationReport, LearnPlan, LearnReport, LearnStart, Schedule, learn};
use std::collections::BTreeSet;
use std::sync::Arc;

const BUDGET: u64 = 100;

async fn learned(world: &World) -> LearnReport {
    let budget = BudgetPlan::new(BUDGET, 0.05).unwrap();
    let small = small();
    let harness = HarnessPlan {
        settings: HarnessSettings { admission: Admission::Bundle, ..HarnessSettings::default() },
        gate: GatePlan { every: budget.batches, pairs: budget.pairs, alpha: 0.05 },
        budget: Some(budget),
        ..small.harness()
    };
    let play = clawhost_play::Plan { episodes: budget.batch, group: 1, ..small.play.clone() };
    let plan = LearnPlan { iterations: budget.batches, play, test_pairs: small.test_pairs, schedule: Schedule::Joint };
    let ports = world.ports(vec![Box::new(world.harness(harness))]);
    let start = LearnStart::New(SpecDocument::none());
    learn(World::run(), plan, ports, start, &world.cancel, &world.watching).await.unwrap()
}

#[tokio::test]
async fn lessons_pass_together_within_the_budget_and_are_provisional() {
    let world = World::new(Proposer::of(&[RED, GREEN]));
    let report = learned(&world).await;
    let played = report.episodes();
    assert!(played.train + played.gate <= BUDGET, "{played:?}");
    let gate = report.iterations.last().unwrap().gate().unwrap();
    assert_eq!((gate.decision, gate.evidence.test), (Decision::Promote, Test::Sign), "{gate:?}");
    assert_eq!(gate.added.len(), 2, "one bundle");
    assert_eq!(world.deployed(), [GREEN, RED], "sorted");
    let rows = &report.harness().unwrap().entries;
    assert!(rows.iter().all(|row| row.status == "provisional"), "{rows:?}");
    let evaluation = report.evaluation.clone().unwrap();
    assert!(evaluation.lift.unwrap().low > 0.0, "{evaluation:?}");
    assert_eq!(played.test, 2 * small().test_pairs);
    let stored = world.store.reports(&World::run());
    let read: Vec<IterationReport> = stored.into_iter().map(|one| serde_json::from_value(one).unwrap()).collect();
    assert_eq!(read, report.iterations, "a session of the gate round-trips through the store");
}

#[tokio::test]
async fn training_is_played_with_the_lessons_that_were_proposed_so_far() {
    let world = World::new(Proposer::of(&[RED, GREEN]));
    let report = learned(&world).await;
    let rewards: Vec<f64> = report.iterations.iter().filter_map(|one| one.reward).collect();
    assert!(rewards.first() < rewards.last(), "{rewards:?}");
    assert_eq!(report.harness().unwrap().reflections.calls, 2, "one call for each batch, with all tasks");
    let batch = BudgetPlan::new(BUDGET, 0.05).unwrap().batch;
    let shown = world.reflectors[0].shown.lock().unwrap();
    let tasks = |group: &[Arc<Episode>]| group.iter().map(|episode| episode.task.id.clone()).collect::<BTreeSet<_>>();
    let seen: Vec<u64> = shown.iter().map(|one| tasks(&one.group).len() as u64).collect();
    assert_eq!(seen, [batch, 2 * batch], "the second call sees the episodes of the first one again");
    let rewarded = |group: &[Arc<Episode>]| group.iter().any(|episode| episode.reward == Some(1.0));
    assert!(shown.iter().all(|one| rewarded(&one.group)), "successes too");
}

#[tokio::test]
async fn lessons_that_harm_are_not_deployed() {
    let world = World::new(Proposer::of(&[FALSE]));
    let report = learned(&world).await;
    let gate = report.iterations.last().unwrap().gate().unwrap();
    assert_ne!(gate.decision, Decision::Promote, "{gate:?}");
    assert!(world.deployed().is_empty());
}
