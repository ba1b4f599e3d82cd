//! When training finds nothing, another approach is due.

use super::*;

fn round(world: &mut World, texts: &[&str]) {
    world.answer(texts.iter().map(|text| add(text).1).collect());
}

#[test]
fn rounds_without_anything_on_trial_change_the_attempt() {
    let mut world = World::new(settings(), &[]);
    let mut attempts = Vec::new();
    for _ in 0..7 {
        round(&mut world, &[]);
        attempts.push(world.harness.attempt());
    }
    assert_eq!(attempts, [0, 0, 1, 1, 1, 2, 2]);
    assert!(world.events.iter().any(|event| event.contains("another approach, number 1")));
}

#[test]
fn batches_without_a_reflection_are_no_rounds() {
    let mut world = World::new(settings(), &[]);
    world.pass(10);
    (0..10).for_each(|_| world.propose(Vec::new()));
    assert_eq!(world.harness.attempt(), 0);
}

#[test]
fn a_trial_that_runs_or_waits_keeps_the_approach() {
    let mut world = World::new(settings(), &[]);
    (0..10).for_each(|_| round(&mut world, &["always: wait"]));
    assert_eq!(world.harness.attempt(), 0);
}

#[test]
fn trials_that_end_one_after_the_other_without_an_admission_change_it_and_are_told() {
    let texts: Vec<String> = (0..STAGNANT_TRIALS as usize + 1).map(rule).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut world = World::new(settings(), &[]);
    round(&mut world, &texts);
    world.play(EXPIRE_AFTER as usize);
    assert_eq!(world.harness.attempt(), 0, "the round is not over");
    round(&mut world, &[]);
    assert_eq!(world.harness.attempt(), 1, "although one more is on trial");
    let tried: Vec<String> = world.harness.tried().into_iter().map(|entry| entry.lesson.line()).collect();
    assert_eq!(tried.len(), 16);
    assert!(tried.iter().all(|text| texts.contains(&text.as_str())));
}

#[test]
fn an_admission_is_progress() {
    let mut world = World::new(settings(), &[]);
    world.effect("always: help", 0.4);
    (0..2).for_each(|_| round(&mut world, &[]));
    round(&mut world, &["always: help"]);
    world.play(60);
    world.check(&[("always: help", "admitted")]);
    (0..2).for_each(|_| round(&mut world, &[]));
    assert_eq!(world.harness.attempt(), 0);
    assert!(world.harness.tried().is_empty());
}

/// The attempt and what was tried after this happened to an admitted lesson, and rounds followed.
fn after(settle: fn(&mut Harness, &Candidate)) -> (u32, Vec<String>) {
    let mut world = World::new(settings(), &[]);
    world.effect("always: help", 0.4);
    round(&mut world, &["always: help", "always: do nothing"]);
    world.play(EXPIRE_AFTER as usize + 8);
    let candidate = world.harness.candidate().unwrap();
    settle(&mut world.harness, &candidate);
    (0..7).for_each(|_| round(&mut world, &[]));
    (world.harness.attempt(), world.harness.tried().into_iter().map(|entry| entry.lesson.line()).collect())
}

#[test]
fn the_gates_decision_changes_neither_the_attempt_nor_what_was_tried() {
    // A promotion queues expired entries again; a rejection queues the admitted ones.
    let undecided = after(|_, _| ());
    assert_eq!(undecided, (2, vec!["always: do nothing".to_owned()]));
    for settle in [Harness::promote as fn(&mut Harness, &Candidate), Harness::reject, Harness::abandon] {
        let (attempt, tried) = after(settle);
        assert_eq!((attempt, &tried), (undecided.0, &undecided.1));
    }
}

#[test]
fn trials_that_a_promotion_begins_again_count_for_nothing_when_they_end() {
    let texts: Vec<String> = (0..STAGNANT_TRIALS as usize).map(rule).collect();
    let mut world = World::new(settings(), &[]);
    world.effect("always: help", 0.4);
    round(&mut world, &["always: help"]);
    world.play(60);
    round(&mut world, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    world.play(EXPIRE_AFTER as usize);
    round(&mut world, &[]);
    assert_eq!(world.harness.attempt(), 1, "sixteen trials ended");
    world.promote();
    assert_eq!(world.status(&texts[0]), "on trial", "beside what is deployed now they may help");
    world.play(EXPIRE_AFTER as usize);
    assert_eq!(world.status(&texts[0]), "expired");
    round(&mut world, &[]);
    assert_eq!((world.harness.attempt(), world.harness.tried().len()), (1, texts.len()));
}

#[test]
fn a_bundle_has_one_approach() {
    let mut world = World::new(HarnessSettings { admission: Admission::Bundle, ..settings() }, &[]);
    (0..10).for_each(|_| round(&mut world, &[]));
    assert_eq!(world.harness.attempt(), 0);
}
