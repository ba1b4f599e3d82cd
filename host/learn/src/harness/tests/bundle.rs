//! Lessons that are tried together.

use super::*;

const RULES: [&str; 3] = ["when tier is gold: act one", "when tier is silver: act two", "when tier is unknown: look"];

fn bundling(lessons: &[&str]) -> Harness {
    let settings = HarnessSettings { admission: Admission::Bundle, ..HarnessSettings::default() };
    Harness::new(settings, playbook(lessons))
}

fn step(harness: &mut Harness, proposals: Vec<(String, Proposal)>) {
    harness.forward_backward(&batch(Vec::new(), proposals)).unwrap();
    harness.optim_step().unwrap();
}

fn lines(playbook: &Playbook) -> Vec<String> {
    playbook.entries.iter().map(|entry| entry.lesson.line()).collect()
}

fn stages(harness: &Harness) -> Vec<(String, String)> {
    harness.rows().into_iter().map(|row| (row.lesson, row.status)).collect()
}

#[test]
fn proposals_are_shown_in_training_at_once_and_in_the_order_of_the_newest_call() {
    let mut harness = bundling(&[]);
    step(&mut harness, vec![add(RULES[0]), add(RULES[2])]);
    let shown = harness.training(SEED).choose(0, 0, 1, "tier: unknown");
    assert_eq!(shown.shown.len(), 2);
    assert!(shown.drawn.is_empty(), "none is measured alone");
    step(&mut harness, vec![add(RULES[1]), add(RULES[0]), add(RULES[2])]);
    let candidate = harness.candidate().unwrap();
    assert_eq!(lines(&candidate.playbook), [RULES[1], RULES[0], RULES[2]]);
    assert!(lines(&harness.deployed()).is_empty(), "only the gate deploys");
}

#[test]
fn a_retired_lesson_leaves_the_bundle_and_may_return() {
    let mut harness = bundling(&[]);
    step(&mut harness, vec![add(RULES[0]), add(RULES[1])]);
    step(&mut harness, vec![retire(RULES[0])]);
    assert_eq!(lines(&harness.candidate().unwrap().playbook), [RULES[1]]);
    step(&mut harness, vec![add(RULES[0])]);
    assert_eq!(lines(&harness.candidate().unwrap().playbook), [RULES[1], RULES[0]]);
    step(&mut harness, vec![retire(RULES[2])]);
    assert_eq!(harness.counts().refused.values().sum::<u64>(), 1, "it was never proposed");
}

#[test]
fn a_deployed_lesson_stays_served_until_the_gate_accepts_a_bundle_without_it() {
    let mut harness = bundling(&[RULES[0], RULES[1]]);
    step(&mut harness, vec![retire(RULES[0]), add(RULES[2])]);
    assert_eq!(lines(&harness.deployed()), [RULES[0], RULES[1]]);
    let trained = harness.training(SEED).choose(0, 0, 1, "tier: unknown").shown;
    assert_eq!(trained, [id(RULES[1]), id(RULES[2])], "training is played without it");
    let candidate = harness.candidate().unwrap();
    assert_eq!(candidate.removed, [id(RULES[0])]);
    harness.promote(&candidate);
    assert_eq!(lines(&harness.deployed()), [RULES[1], RULES[2]]);
    assert_eq!(
        stages(&harness).into_iter().map(|(_, stage)| stage).collect::<Vec<_>>(),
        ["expired", "deployed", "provisional"]
    );
}

#[test]
fn a_provisional_lesson_is_held_out_from_half_of_later_training_until_it_is_decided() {
    let mut harness = bundling(&[]);
    step(&mut harness, vec![add("always: act one")]);
    let candidate = harness.candidate().unwrap();
    harness.promote(&candidate);
    let mut later = World::new(HarnessSettings::default(), &[]);
    later.harness = Harness::new(HarnessSettings::default(), harness.deployed());
    later.effect("always: act one", 0.3);
    assert_eq!(stages(&later.harness)[0].1, "provisional", "it is stored with the playbook");
    let drawn = |harness: &Harness| {
        (0..40).filter(|group| !harness.training(SEED).choose(*group, 0, MEMBERS, TEXT).drawn.is_empty()).count()
    };
    assert_eq!(drawn(&later.harness), 40);
    later.play(80);
    assert_eq!(stages(&later.harness)[0].1, "deployed", "it was confirmed: {:?}", later.harness.rows());
    assert!(drawn(&later.harness) < 20, "it is held out seldom");
}

#[test]
fn a_provisional_lesson_that_harms_is_found() {
    let mut harness = bundling(&[]);
    step(&mut harness, vec![add("always: act one")]);
    let candidate = harness.candidate().unwrap();
    harness.promote(&candidate);
    let mut later = World::new(HarnessSettings::default(), &[]);
    later.harness = Harness::new(HarnessSettings::default(), harness.deployed());
    later.effect("always: act one", -0.3);
    later.play(80);
    assert_eq!(later.status("always: act one"), "harmful");
}

#[test]
fn a_rejected_bundle_changes_nothing_that_is_served() {
    let mut harness = bundling(&[RULES[1]]);
    step(&mut harness, vec![add(RULES[0]), retire(RULES[1])]);
    let candidate = harness.candidate().unwrap();
    harness.abandon(&candidate);
    assert_eq!(lines(&harness.deployed()), [RULES[1]]);
    assert!(harness.candidate().is_none_or(|next| next.added.is_empty()));
}
