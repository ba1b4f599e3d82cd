//! Training, validation and test tasks are disjoint.

use crate::world::*;
use clawhost_core::{Context, Digest};
use clawhost_learn::gate::{Decision, Form, GateEvidence, Question};
use clawhost_learning::{HeldOut, LearningError, Splits};
use clawhost_play::{Environments, PlayError, fetch_shuffled};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

fn of(splits: &[(&str, u64)], wanted: Option<&str>) -> Result<Splits, LearningError> {
    Splits::of(&Environments::One(Arc::new(Lights::new(splits))), wanted)
}

#[test]
fn every_purpose_has_its_own_tasks() {
    let whole = |split: &str| HeldOut { split: split.into(), half: None };
    let half = |split: &str, half| HeldOut { split: split.into(), half: Some(half) };
    let check = |splits: &[(&str, u64)], wanted, train: &str, val, test| {
        let found = of(splits, wanted).unwrap();
        assert_eq!(found, Splits { train: train.into(), val, test }, "{splits:?}");
    };
    check(&[("train", 9), ("val", 9), ("test", 9)], None, "train", whole("val"), whole("test"));
    check(&[("test", 9), ("val", 9), ("train", 9)], None, "train", whole("val"), whole("test"));
    check(&[("train", 9), ("more", 9), ("val", 9), ("test", 9)], Some("more"), "more", whole("val"), whole("test"));
    check(&[("train", 9), ("test", 9)], None, "train", half("test", false), half("test", true));
    check(&[("train", 9), ("dev", 9)], None, "train", half("dev", false), half("dev", true));
    check(&[("a", 9), ("b", 9), ("c", 9)], None, "a", whole("b"), whole("c"));
    check(&[("train", 9), ("more", 9), ("val", 9)], None, "train", whole("val"), whole("more"));
    check(&[("train", 9), ("val", 0), ("test", 9)], None, "train", half("test", false), half("test", true));
}

#[test]
fn training_on_a_reserved_split_or_without_held_out_tasks_is_an_error() {
    let refused = |splits: &[(&str, u64)], wanted| of(splits, wanted).unwrap_err();
    let three = [("train", 9), ("val", 9), ("test", 9)];
    assert!(matches!(refused(&three, Some("test")), LearningError::HeldOutSplit { .. }));
    assert!(matches!(refused(&[("test", 9), ("val", 9)], None), LearningError::HeldOutSplit { .. }));
    assert!(matches!(refused(&three, Some("val")), LearningError::HeldOutSplit { .. }), "it is for validation");
    assert!(matches!(refused(&three, Some("more")), LearningError::Play(PlayError::UnknownSplit { .. })));
    for alone in [&[("train", 9)][..], &[("train", 9), ("val", 0)], &[("other", 9)], &[]] {
        assert!(matches!(refused(alone, None), LearningError::NothingHeldOut { .. }), "{alone:?}");
    }
}

/// Lights whose first half is red and whose second half is white.
fn sorted_by_colour() -> Lights {
    let colour = |_: &str, position| if position < 200 { "red" } else { "white" };
    Lights { colour, sorted: true, ..Lights::default() }
}

fn is_red(position: &str) -> bool {
    position.rsplit('-').next().unwrap().parse::<u64>().unwrap() < 200
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_played_in_an_order_that_the_seed_draws() {
    let played = async |seed: u64| {
        let world = World { environment: Arc::new(sorted_by_colour()), ..World::new(Proposer::of(&[RED])) };
        let play = clawhost_play::Plan { seed, ..small().play };
        world.learn(&WorldPlan { play, ..small() }).await;
        let mut tasks: Vec<Vec<String>> = Vec::new();
        for part in ["i00001-train", "gate-0", ".test"] {
            tasks.push(world.store.of_phases(part).into_iter().map(|episode| episode.task.id.clone()).collect());
            let red = tasks.last().unwrap().iter().filter(|task| is_red(task)).count();
            let all = tasks.last().unwrap().len();
            assert!(red > all / 8 && red < all - all / 8, "{part}: {red} of {all} are of the first topic");
        }
        tasks
    };
    let first = played(1).await;
    assert_eq!(played(1).await, first);
    assert_ne!(played(2).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_suits_only_the_first_topic_is_rarely_promoted() {
    const RUNS: u64 = 200;
    let environment = Environments::One(Arc::new(sorted_by_colour()));
    let mut promoted = 0;
    for seed in 0..RUNS {
        let context = Context { seed, options: vec![] };
        let tasks = fetch_shuffled(&environment, &context, ("val", seed), 400, |_| true).await.unwrap();
        assert_eq!(tasks.len(), 400, "every task once");
        let one = NonZeroU32::MIN;
        let mut evidence = GateEvidence::new(one, Form::Binary, Question::Better, 0.05, 400).unwrap();
        for (task, _) in tasks.iter() {
            // It wins on every red light and loses on every white one.
            if evidence.observe(if is_red(&task.id) { 1.0 } else { -1.0 }).unwrap() != Decision::Continue {
                break;
            }
        }
        promoted += u64::from(evidence.decision() == Decision::Promote);
    }
    assert!(promoted <= RUNS / 20, "{promoted} of {RUNS}");
}

/// Whether a task of a halved split is in the test half.
fn is_tested(id: &str) -> bool {
    Digest::of(id.as_bytes()).prefix_u64() & 1 == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn every_iteration_plays_new_tasks_with_new_seeds() {
    let world = World::usual();
    world.learn(&small()).await;
    let episodes = world.store.of_phases("-train");
    let tasks: BTreeSet<&str> = episodes.iter().map(|episode| episode.task.id.as_str()).collect();
    let seeds: BTreeSet<u64> = episodes.iter().map(|episode| episode.seed()).collect();
    let answers: BTreeSet<u64> = episodes.iter().map(|episode| episode.policy.seed).collect();
    assert_eq!((episodes.len(), tasks.len(), seeds.len(), answers.len()), (256, 64, 64, 256));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_splits_are_an_error_before_anything_is_played() {
    let check = async |splits: &[(&str, u64)], split: Option<&str>, expect: &str| {
        let world = World { environment: Arc::new(Lights::new(splits)), ..World::usual() };
        let play = clawhost_play::Plan { split: split.map(str::to_owned), ..small().play };
        let error = world.try_learn(&WorldPlan { play, ..small() }).await.unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
        assert!(world.environment.begun.lock().unwrap().is_empty(), "{splits:?}: something was played");
        assert!(world.store.runs().is_empty(), "no run is recorded");
    };
    check(&[("train", 9), ("val", 9), ("test", 9)], Some("test"), "is reserved for validation or test").await;
    check(&[("train", 9)], None, "no tasks outside of `train`").await;
    check(&[("train", 0), ("val", 9), ("test", 9)], None, "no tasks in split `train`").await;
    // One task cannot be halved: one half is empty.
    let mut empty = BTreeSet::new();
    for split in ["test", "dev", "more", "other", "val"] {
        empty.insert(is_tested(&format!("{split}-0")));
        check(&[("train", 9), (split, 1)], None, &format!("no tasks in split `half of {split}`")).await;
    }
    assert_eq!(empty.len(), 2, "the validation half and the test half");
}

#[tokio::test(flavor = "multi_thread")]
async fn test_tasks_are_played_last_and_each_phase_uses_its_split() {
    let world = World::usual();
    world.learn(&small()).await;
    let begun: Vec<String> = world.environment.begun.lock().unwrap().iter().map(|(task, _)| task.clone()).collect();
    let first = begun.iter().position(|task| task.starts_with("test-")).unwrap();
    assert!(begun[first..].iter().all(|task| task.starts_with("test-")), "the test is played last");
    assert_eq!(begun.len() - first, 64, "32 pairs");
    for episode in world.store.all() {
        let purpose = match episode.run.0.as_str() {
            run if run.ends_with("-train") => "train",
            run if run.contains("-gate-") => "val",
            run => run.strip_prefix("learn.").unwrap(),
        };
        assert_eq!(episode.task.split, purpose);
    }
    let phases = world.watching.phases.lock().unwrap();
    assert_eq!(phases.first().map(String::as_str), Some("i00001-train"));
    assert_eq!(phases.last().map(String::as_str), Some("test"));
}

#[tokio::test(flavor = "multi_thread")]
async fn halves_of_a_split_are_disjoint_and_cover_it() {
    let environment = Arc::new(Lights::new(&[("train", 40), ("test", 40)]));
    let world = World { environment: environment.clone(), ..World::usual() };
    // All candidates stay undecided, so that the gate keeps playing.
    let marks = Marks::by(|episode| {
        Some(if episode.task.split == "train" { f64::from(u8::from(is_right(episode))) } else { 0.0 })
    });
    let world = World { marks: Arc::new(marks), ..world };
    let report = world.learn(&WorldPlan { test_pairs: 64, ..small() }).await;
    assert_eq!(report.evaluation.unwrap().split, "half of test");
    let played = |part: &str| -> Vec<(String, u64)> {
        world.store.of_phases(part).into_iter().map(|episode| (episode.task.id.clone(), episode.seed())).collect()
    };
    let (val, test) = (played("-gate-"), played(".test"));
    let ids = |played: &[(String, u64)]| -> BTreeSet<String> { played.iter().map(|(id, _)| id.clone()).collect() };
    assert!(ids(&val).iter().all(|id| !is_tested(id)) && ids(&test).iter().all(|id| is_tested(id)));
    assert_eq!(ids(&val).len() + ids(&test).len(), 40, "together they are the split");
    // Content that environments generate from the seed alone must differ between the halves too.
    let seeds = |played: &[(String, u64)]| -> BTreeSet<u64> { played.iter().map(|(_, seed)| *seed).collect() };
    assert!(seeds(&val).is_disjoint(&seeds(&test)), "no seed is used for validation and test");
}
