//! Reports: names of metrics, and stored reports.

use crate::layers::Both;
use crate::world::*;
use clawhost_learning::{IterationReport, LearnReport};
use std::sync::Arc;

async fn learned(dial: Dial) -> (World, LearnReport) {
    let mut both = Both { luck: 4, ..Both::small() };
    both.world.iterations = 4;
    (both.weights.refills, both.weights.evaluate_every, both.weights.evaluate_episodes) = (1, 2, 8);
    both.weights.difficulty = Some(clawhost_learn::policy::Difficulty::default());
    let fails = |_: &clawhost_core::Task, seed: u64| seed.is_multiple_of(7);
    let environment = Lights { fails: Box::new(fails), ..Lights::default() };
    let world = World { environment: Arc::new(environment), ..World::usual() };
    let (report, _) = both.learn(&world, dial).await;
    (world, report)
}

const HARNESS: [&str; 9] =
    ["admitted", "deployed", "episodes", "expired", "groups", "harmful", "on_trial", "proposals", "queued"];
const TRAIN: [&str; 6] =
    ["pass@1", "pass@4", "refilled_groups", "suspicions", "tasks_passed_over", "zero_variance_share"];

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_has_a_name_with_its_layer_or_its_split() {
    let (_, report) = learned(Dial::default()).await;
    let names = |one: &IterationReport| one.metrics().into_keys().collect::<Vec<_>>();
    let mut expected: Vec<String> = HARNESS.iter().map(|name| format!("harness.{name}")).collect();
    expected.extend(TRAIN.iter().map(|name| format!("train.{name}")));
    let weights = ["weights.loss", "weights.version"].map(str::to_owned);
    assert_eq!(names(&report.iterations[0]), [&expected[..], &weights].concat());
    // The second iteration also validates.
    let validated = [&expected[..], &["val.reward".to_owned()], &weights].concat();
    assert_eq!(names(&report.iterations[1]), validated);
    let metrics = report.iterations[1].metrics();
    assert_eq!((metrics["weights.version"], metrics["weights.loss"]), (2.0, 0.5));
    assert_eq!(metrics["harness.episodes"], report.iterations[1].episodes as f64);
    assert_eq!(metrics["val.reward"], report.weights().unwrap().best.clone().unwrap().reward);
}

#[tokio::test(flavor = "multi_thread")]
async fn iteration_reports_round_trip_through_the_store() {
    let (world, report) = learned(Dial { refuses: Some(1), ..Dial::default() }).await;
    let stored = world.store.reports(&World::run());
    let read: Vec<IterationReport> = stored.iter().cloned().map(|one| serde_json::from_value(one).unwrap()).collect();
    assert_eq!(read, report.iterations);
    assert!(read.iter().any(|one| one.gate().is_some()), "with a session of the gate");
    assert!(read.iter().any(|one| one.removed > 0), "with episodes that failed");
    assert_eq!(read[1].weights().unwrap().0.events, ["layer weights: no gradient today"]);
    for (stored, read) in stored.iter().zip(&read) {
        assert_eq!(serde_json::json!(read), *stored, "nothing is lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_report_is_a_function_of_the_stored_one() {
    let (world, report) = learned(Dial::default()).await;
    let published = report.published();
    let text = published.to_string();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), published, "all numbers are finite");
    assert_eq!(published["layers"], serde_json::json!(["harness", "weights"]));
    assert_eq!(published["entries"], serde_json::json!(report.harness().unwrap().entries));
    assert_eq!(published["best"], serde_json::json!(report.weights().unwrap().best));
    assert_eq!(published["evaluation"]["arms"].as_array().unwrap().len(), 3);
    assert!(published.get("usage").is_none() && published.get("name").is_none(), "without usage and name");
    for (one, stored) in published["iterations"].as_array().unwrap().iter().zip(world.store.reports(&World::run())) {
        let stored: IterationReport = serde_json::from_value(stored).unwrap();
        assert_eq!(*one, stored.published());
        assert_eq!(one["metrics"], serde_json::json!(stored.metrics()));
        assert_eq!(one["gate"], serde_json::json!(stored.gate()));
    }
    assert_eq!(world.store.summary(&World::run()).unwrap(), report.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_non_finite_measurement_becomes_an_event() {
    let (world, report) = learned(Dial { loss: Some(f64::NAN), ..Dial::default() }).await;
    let (weights, _) = report.iterations[0].weights().unwrap();
    assert_eq!(weights.events, ["loss is NaN"]);
    assert!(!report.iterations[0].metrics().contains_key("weights.loss"), "absent, and never 0");
    assert_eq!(report.iterations[0].metrics()["weights.version"], 1.0);
    assert_eq!(world.store.reports(&World::run()).len(), 4);
}
