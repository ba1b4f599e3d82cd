//! When training finds nothing, reflectors are asked for another approach, and see many tasks at once.

use super::lessons::status;
use crate::world::*;
use clawhost_core::Entry;
use clawhost_learning::Outcome;
use std::collections::BTreeSet;

fn tasks(shown: &Shown) -> usize {
    shown.group.iter().map(|episode| &episode.task.id).collect::<BTreeSet<_>>().len()
}

/// Knows nothing about one task, and two rules from many.
fn of_many(shown: &Shown) -> Vec<clawhost_core::Proposal> {
    if tasks(shown) > 1 { vec![lesson(RED), lesson(GREEN)] } else { Vec::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_task_does_not_show_is_found_over_many() {
    let world = World::new(Proposer::by(|shown| Ok(of_many(shown))));
    let report = world.learn(&WorldPlan { iterations: 10, ..small() }).await;
    assert_eq!(report.outcome, Outcome::Improved, "{report:#?}");
    assert_eq!(world.deployed(), [GREEN, RED]);
    let shown = world.reflectors[0].shown.lock().unwrap();
    let (first, later): (Vec<&Shown>, Vec<&Shown>) = shown.iter().partition(|one| one.playbook.attempt == 0);
    // Three rounds of eight groups that missed something.
    assert_eq!(first.len(), 24);
    assert!(first.iter().all(|one| tasks(one) == 1), "one task at a time");
    let second = later[0];
    assert_eq!((second.playbook.attempt, tasks(second), second.group.len()), (1, 64, 256), "all four batches");
    assert!(second.group.iter().any(|episode| episode.reward == Some(1.0)), "successes too");
    // From then on nothing waits, because everything is right.
    assert_eq!(status(&report, RED), "deployed");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_other_view_the_same_reflector_finds_nothing() {
    let world = World::new(Proposer::by(|shown| Ok(of_many(shown))));
    let report = world.learn(&WorldPlan { iterations: 3, ..small() }).await;
    assert_eq!(report.outcome, Outcome::NoSignificantChange);
    assert!(report.harness().unwrap().entries.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_second_attempt_shows_one_task_at_a_time_again() {
    let world = World::new(Proposer::of(&[]));
    world.learn(&WorldPlan { iterations: 10, ..small() }).await;
    let shown = world.reflectors[0].shown.lock().unwrap();
    let mut rounds: Vec<(u32, bool)> = shown.iter().map(|one| (one.playbook.attempt, tasks(one) > 1)).collect();
    rounds.dedup();
    assert_eq!(rounds, [(0, false), (1, true), (2, false), (3, true)]);
    assert_eq!(shown.iter().filter(|one| one.playbook.attempt == 1).count(), 3, "one call for each batch");
    let last = shown.last().unwrap();
    assert_eq!(last.group.len(), 640, "it looks back over the batches that it was shown one by one");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_tried_in_vain_is_shown() {
    let world = World::new(Proposer::of(&[FALSE]));
    world.learn(&WorldPlan { iterations: 8, ..small() }).await;
    let shown = world.reflectors[0].shown.lock().unwrap();
    let tried: Vec<&Entry> = shown.iter().filter_map(|one| one.playbook.tried.first()).collect();
    assert!(!tried.is_empty());
    let extra = vec![("status".to_owned(), "harmful".to_owned())];
    assert!(tried.iter().all(|entry| entry.text == FALSE && entry.extra == extra), "{tried:?}");
}
