//! What the learning loop deploys, and from which episodes it learns.

use crate::world::*;
use clawhost_core::{LearningStore as _, SpecDocument};
use clawhost_learn::gate::Decision;
use clawhost_learning::{LearnReport, LearnStart, Ledger, Outcome, learn};
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
async fn only_helpful_lessons_are_deployed() {
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
    assert_eq!(world.deployed(), [GREEN, RED], "the promoted entries are served");
    let versions = world.store.versions("lights");
    assert_eq!(versions.len(), 1);
    assert_eq!((versions[0].digest, versions[0].run.clone()), (report.harness().unwrap().playbook, Some(World::run())));
    assert_eq!(*world.watching.iterations.lock().unwrap(), [1, 2, 3, 4]);
    assert_eq!(world.store.summary(&World::run()).unwrap(), report.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_lesson_is_reported_with_the_episodes_it_could_apply_in() {
    let world = World::new(Proposer::of(&[RED, "when colour is rde: answer stop", "Be kind."]));
    let report = world.learn(&small()).await;
    let rows = &report.harness().unwrap().entries;
    let usage = |lesson: &str| rows.iter().find(|row| row.lesson == lesson).unwrap().usage.clone().unwrap();
    let (red, dead, prose) = (usage(RED), usage("when colour is rde: answer stop"), usage("Be kind."));
    assert!(red.episodes > 0 && red.applicable == Some(red.episodes / 4), "a quarter of the lights is red: {red:?}");
    assert!(red.applied < red.applicable, "half of the members are not shown it: {red:?}");
    assert_eq!((dead.applicable, dead.shown), (Some(0), 0));
    let why = "no observation states `colour: rde`; values seen for colour: green, grey, red, white";
    assert_eq!(dead.why_dead().as_deref(), Some(why));
    assert_eq!((prose.applicable, prose.why_dead()), (None, None));
    assert!(prose.shown > 0);
    let ledger = world.store.ledger("lights").await.unwrap().unwrap();
    let ledger: Ledger = serde_json::from_value(ledger.document).unwrap();
    assert_eq!(&ledger.entries, rows, "`playbook show` reports the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_proposals_nothing_changes() {
    let world = World::new(Proposer::of(&[]));
    let report = world.learn(&small()).await;
    assert_eq!(report.outcome, Outcome::NoSignificantChange);
    assert_eq!(report.evaluation.as_ref().unwrap().lift.unwrap().mean, 0.0);
    assert_eq!(report.learned, 4, "layers still step");
    assert!(report.harness().unwrap().entries.is_empty() && report.iterations.iter().all(|one| one.gate().is_none()));
    assert!(world.store.versions("lights").is_empty());
    assert!(report.harness().unwrap().reflections.asked > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_run_starts_with_deployed_and_closed_entries() {
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
async fn a_single_task_suffices_for_learning() {
    let environment = Lights::new(&[("train", 1), ("val", 1), ("test", 1)]);
    let world = World { environment: Arc::new(environment), ..World::usual() };
    let report = world.learn(&small()).await;
    // One task has no variance between tasks, however often it is played.
    assert_eq!((report.outcome, status(&report, RED)), (Outcome::NotMeasured, "deployed"));
    assert_eq!(world.deployed(), [RED], "the other tasks did not occur");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_rewards_admit_nothing() {
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
async fn a_run_stops_if_the_first_iteration_is_unscored() {
    let world = World { marks: Arc::new(Marks::by(|_| None)), ..World::usual() };
    let report = world.learn(&small()).await;
    let why = "marks has nothing to say: no opinion".to_owned();
    assert_eq!(report.stopped, Some(StopReason::Unscored { why }));
    assert_eq!((report.outcome, report.evaluation, report.iterations.len()), (Outcome::NotMeasured, None, 0));
    assert_eq!(*world.watching.phases.lock().unwrap(), ["i00001-train"], "nothing else is played");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_after_an_unscored_later_iteration() {
    let unscored = |phase: &str| ["i00002-train", "test"].iter().any(|name| phase.ends_with(name));
    let marks = Marks::by(move |one| (!unscored(&one.run.0)).then(|| f64::from(u8::from(is_right(one)))));
    let world = World { marks: Arc::new(marks), ..World::usual() };
    let report = world.learn(&small()).await;
    let second = &report.iterations[1];
    assert_eq!((second.reward, second.episodes, second.removed), (None, 0, 64));
    assert_eq!(second.learned, Ok(()), "an empty batch is a step too");
    let evaluation = report.evaluation.as_ref().unwrap();
    assert_eq!((report.outcome, evaluation.pairs, evaluation.missing.all()), (Outcome::NotMeasured, 0, 32));
    assert_eq!((evaluation.before, evaluation.lift), (None, None), "never 0");
    let unasked = world.learn_with(&WorldPlan { test_pairs: 0, ..small() }).await;
    assert_eq!((unasked.outcome, unasked.evaluation, unasked.stopped), (Outcome::NotMeasured, None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_and_unscored_episodes_are_removed_and_counted() {
    let fails = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(7);
    let environment = Lights { fails: Box::new(fails), ..Lights::default() };
    // Unscored at random, independent of the answer.
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
    assert!(gate.missing.all() > 0, "{gate:?}");
    assert_eq!(
        gate.evidence.losses, gate.missing.after,
        "a side without a score loses the pair, and nothing else is lost: {gate:?}"
    );
}
