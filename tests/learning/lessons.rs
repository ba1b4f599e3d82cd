//! What the loop learns, and from what.

use crate::world::*;
use clawhost_core::SpecDocument;
use clawhost_learn::gate::Decision;
use clawhost_learning::{LearnReport, LearnStart, Outcome, learn};
use clawhost_play::{Plan, StopReason};
use std::sync::Arc;

pub(crate) fn status<'a>(report: &'a LearnReport, lesson: &str) -> &'a str {
    report
        .harness()
        .unwrap()
        .entries
        .iter()
        .find(|row| row.lesson == lesson)
        .map_or("unknown", |row| row.status.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_helps_is_deployed_through_the_gate_and_nothing_else() {
    let world = World::usual();
    let report = world.learn(&small()).await;
    assert_eq!(report.outcome, Outcome::Improved, "{report:#?}");
    let evaluation = report.evaluation.as_ref().unwrap();
    let (before, after) = (evaluation.before.unwrap().mean, evaluation.after.unwrap().mean);
    assert_eq!((before, after, evaluation.pairs, evaluation.missing.all()), (0.5, 1.0, 32, 0));
    assert!(evaluation.lift.unwrap().low > 0.0);
    assert_eq!((status(&report, RED), status(&report, GREEN)), ("deployed", "deployed"));
    assert_eq!(status(&report, FALSE), "harmful");
    assert!(["on trial", "expired"].contains(&status(&report, NEUTRAL)), "{}", status(&report, NEUTRAL));
    let passed: Vec<_> = report.iterations.iter().filter_map(|one| one.gate()).collect();
    assert_eq!(passed.iter().map(|gate| gate.decision).collect::<Vec<_>>(), [Decision::Promote]);
    assert_eq!(passed[0].playbook, report.harness().unwrap().playbook);
    assert_eq!(world.deployed(), [GREEN, RED], "what is served is what passed");
    let versions = world.store.versions("lights");
    assert_eq!(versions.len(), 1);
    assert_eq!((versions[0].digest, versions[0].run.clone()), (report.harness().unwrap().playbook, Some(World::run())));
    assert_eq!(*world.watching.iterations.lock().unwrap(), [1, 2, 3, 4]);
    assert_eq!(world.store.summary(&World::run()).unwrap(), report.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_proposals_nothing_changes_and_the_report_says_so() {
    let world = World::new(Proposer::of(&[]));
    let report = world.learn(&small()).await;
    assert_eq!(report.outcome, Outcome::NoSignificantChange);
    assert_eq!(report.evaluation.as_ref().unwrap().lift.unwrap().mean, 0.0);
    assert_eq!(report.learned, 4, "batches are learned from all the same");
    assert!(report.harness().unwrap().entries.is_empty() && report.iterations.iter().all(|one| one.gate().is_none()));
    assert!(world.store.versions("lights").is_empty());
    assert!(report.harness().unwrap().reflections.asked > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_next_run_begins_with_what_was_deployed_and_what_was_turned_down() {
    let world = World::usual();
    let first = world.learn(&small()).await;
    let again = World { store: world.store.clone(), ..World::usual() };
    let run = clawhost_core::RunId("second".into());
    let (start, ports) = (LearnStart::New(SpecDocument::none()), again.harness_ports(&small()));
    let report = learn(run, small().run(), ports, start, &again.cancel, &again.watching).await.unwrap();
    let evaluation = report.evaluation.as_ref().unwrap();
    assert_eq!((evaluation.before.unwrap().mean, evaluation.after.unwrap().mean), (1.0, 1.0));
    assert_eq!(report.outcome, Outcome::NoSignificantChange);
    assert_eq!(
        (report.harness().unwrap().playbook, status(&report, FALSE)),
        (first.harness().unwrap().playbook, "harmful")
    );
    assert_eq!(again.store.versions("lights").len(), 1, "nothing new was deployed");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_plans_give_equal_reports_whatever_the_concurrency() {
    let mut reports = Vec::new();
    for concurrency in [1, 16] {
        let world = World::usual();
        let play = Plan { concurrency, ..small().play };
        reports.push(world.learn(&WorldPlan { play, ..small() }).await);
        assert_eq!(reports[0].harness().unwrap().entries, reports[reports.len() - 1].harness().unwrap().entries);
    }
    assert_eq!(reports[0], reports[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_is_enough_to_learn_from() {
    let environment = Lights::new(&[("train", 1), ("val", 1), ("test", 1)]);
    let world = World { environment: Arc::new(environment), ..World::usual() };
    let report = world.learn(&small()).await;
    // One task tells nothing about others, however often it is played.
    assert_eq!((report.outcome, status(&report, RED)), (Outcome::NotMeasured, "deployed"));
    assert_eq!(world.deployed(), [RED], "of the others nothing was seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_rewards_are_equal_nothing_is_admitted() {
    for value in [0.0, 0.5, 1.0] {
        let world = World { marks: Arc::new(Marks::by(move |_| Some(value))), ..World::usual() };
        let report = world.learn(&WorldPlan { iterations: 6, ..small() }).await;
        assert_eq!(report.outcome, Outcome::NoSignificantChange, "{value}");
        let open = |row: &clawhost_learn::harness::EntryRow| row.status == "on trial" || row.status == "expired";
        assert!(report.harness().unwrap().entries.iter().all(open), "{:?}", report.harness().unwrap().entries);
        assert_eq!((report.learned, report.harness().unwrap().entries.len()), (6, if value < 1.0 { 4 } else { 0 }));
        assert!(world.store.versions("lights").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_scored_at_first_the_run_stops_and_says_why() {
    let world = World { marks: Arc::new(Marks::by(|_| None)), ..World::usual() };
    let report = world.learn(&small()).await;
    let why = "marks has nothing to say: no opinion".to_owned();
    assert_eq!(report.stopped, Some(StopReason::Unscored { why }));
    assert_eq!((report.outcome, report.evaluation, report.iterations.len()), (Outcome::NotMeasured, None, 0));
    assert_eq!(*world.watching.phases.lock().unwrap(), ["i00001-train"], "nothing else is paid for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_iteration_in_which_nothing_is_scored_teaches_nothing_and_the_run_goes_on() {
    let unscored = |phase: &str| ["i00002-train", "test"].iter().any(|name| phase.ends_with(name));
    let marks = Marks::by(move |one| (!unscored(&one.run.0)).then(|| f64::from(u8::from(is_right(one)))));
    let world = World { marks: Arc::new(marks), ..World::usual() };
    let report = world.learn(&small()).await;
    let second = &report.iterations[1];
    assert_eq!((second.reward, second.episodes, second.removed), (None, 0, 64));
    assert_eq!(second.learned, Ok(()), "a batch of nothing is learned from too");
    let evaluation = report.evaluation.as_ref().unwrap();
    assert_eq!((report.outcome, evaluation.pairs, evaluation.missing.all()), (Outcome::NotMeasured, 0, 32));
    assert_eq!((evaluation.before, evaluation.lift), (None, None), "never 0");
    let unasked = world.learn_with(&WorldPlan { test_pairs: 0, ..small() }).await;
    assert_eq!((unasked.outcome, unasked.evaluation, unasked.stopped), (Outcome::NotMeasured, None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_or_is_not_scored_is_removed_and_counted_and_never_a_zero() {
    let fails = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(7);
    let environment = Lights { fails: Box::new(fails), ..Lights::default() };
    // Not scored by chance, whatever was answered.
    let marks = Marks::by(|episode| {
        let scored = !episode.policy.seed.is_multiple_of(5);
        scored.then(|| f64::from(u8::from(is_right(episode))))
    });
    let world = World { environment: Arc::new(environment), marks: Arc::new(marks), ..World::usual() };
    let report = world.learn(&WorldPlan { iterations: 6, ..small() }).await;
    for iteration in &report.iterations {
        let phase = format!("i{:05}-train", iteration.iteration);
        let episodes = world.store.of_phases(&phase);
        let scored: Vec<f64> = episodes.iter().filter_map(|episode| episode.reward).collect();
        assert_eq!((iteration.episodes, iteration.removed), (scored.len() as u64, 64 - scored.len() as u64));
        let mean = scored.iter().sum::<f64>() / scored.len() as f64;
        assert!((iteration.reward.unwrap() - mean).abs() < 1e-12, "{:?} {mean}", iteration.reward);
        assert!(iteration.removed > 0);
    }
    let evaluation = report.evaluation.as_ref().unwrap();
    assert!(evaluation.missing.all() > 0 && evaluation.pairs + evaluation.missing.all() == 32, "{evaluation:?}");
    assert_eq!(evaluation.after.unwrap().mean, 1.0, "{evaluation:?}");
    assert_eq!(world.deployed(), [GREEN, RED]);
    let gate = report.iterations.iter().find_map(|one| one.gate()).unwrap();
    assert!(gate.missing.all() > 0 && gate.evidence.losses == 0, "{gate:?}");
}
