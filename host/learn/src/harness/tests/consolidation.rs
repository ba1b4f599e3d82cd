//! Deployed entries that say the same become one, if the gate accepts it.

use super::*;

const WIDE: &str = "when tier is gold: act one";
const NARROW: &str = "when tier is gold and age is days: Act one.";
const OTHER: &str = "when tier is silver: act two";

fn served(texts: &[&str]) -> Harness {
    Harness::new(settings(), playbook(texts))
}

fn lines(playbook: &Playbook) -> Vec<String> {
    playbook.entries.iter().map(|entry| entry.lesson.line()).collect()
}

#[test]
fn a_rule_under_more_conditions_merges_into_the_wider_one() {
    let mut harness = served(&[NARROW, OTHER, WIDE]);
    let candidate = harness.candidate().unwrap();
    assert_eq!(lines(&candidate.playbook), [OTHER, WIDE]);
    assert_eq!((candidate.added.len(), candidate.removed.as_slice()), (0, [id(NARROW)].as_slice()));
    assert_eq!(candidate.question, Question::NotWorse, "fewer tokens at no loss");
    assert_eq!(lines(&harness.deployed()).len(), 3, "only the gate merges");
    harness.promote(&candidate);
    assert_eq!(harness.deployed(), candidate.playbook);
    assert_eq!(harness.status(&id(NARROW)), Some(&Status::Superseded(id(WIDE))));
    assert_eq!(harness.deployed().entries[1].merges, [id(NARROW)], "it names what it replaced");
    assert_eq!(harness.candidate(), None);
}

#[test]
fn texts_with_nearly_the_same_words_merge_and_different_ones_do_not() {
    let long = "Check the order number with the customer before you promise a refund.";
    let check = |texts: &[&str], removed: Option<&str>| {
        let found = served(texts).candidate().map(|candidate| candidate.removed);
        assert_eq!(found, removed.map(|text| vec![id(text)]), "{texts:?}");
    };
    let short = "Check the order number before you promise any refund.";
    check(&[short, long], Some(short));
    check(&[long, "Offer a voucher before you promise a refund."], None);
    check(&[WIDE, OTHER], None);
    check(&["always: act one", WIDE], Some(WIDE));
}

#[test]
fn the_merger_that_saves_most_tokens_comes_first_and_is_compared_alone() {
    let more = "when tier is silver and region is the far north of the country: act two";
    let mut harness = served(&[WIDE, NARROW, OTHER, more]);
    let first = harness.candidate().unwrap();
    assert_eq!(first.removed, [id(more)]);
    harness.promote(&first);
    assert_eq!(harness.candidate().unwrap().removed, [id(NARROW)]);
}

#[test]
fn an_exception_to_an_exception_is_not_redundant() {
    let between = "when tier is gold and region is north: act two";
    let inner = "when tier is gold and region is north and age is days: act one";
    assert_eq!(served(&[WIDE, between, inner]).candidate(), None);
    assert_eq!(served(&[WIDE, inner]).candidate().unwrap().removed, [id(inner)]);
}

#[test]
fn what_training_changed_comes_before_a_merger() {
    let mut world = World::new(settings(), &[WIDE, NARROW]);
    world.effect("always: help", 0.3);
    world.add(&["always: help"]);
    world.play(60);
    let candidate = world.promote();
    assert_eq!((candidate.added, candidate.merger), (vec![id("always: help")], None));
    assert_eq!(world.harness.candidate().unwrap().removed, [id(NARROW)]);
}

#[test]
fn a_merger_that_is_turned_down_is_not_tried_again_even_by_a_later_run() {
    let check = |settle: fn(&mut Harness, &Candidate)| {
        let mut harness = served(&[WIDE, NARROW]);
        let before = harness.deployed();
        let candidate = harness.candidate().unwrap();
        settle(&mut harness, &candidate);
        assert_eq!((harness.deployed(), harness.candidate()), (before.clone(), None));
        let mut later = Harness::new(settings(), before);
        later.remember(harness.memory());
        assert_eq!(later.candidate(), None);
    };
    check(Harness::reject);
    check(Harness::abandon);
}

#[test]
fn a_rollback_brings_the_parts_back_and_they_stay() {
    let mut harness = served(&[WIDE, NARROW]);
    let before = harness.deployed();
    let candidate = harness.candidate().unwrap();
    harness.promote(&candidate);
    let mut later = Harness::new(settings(), before.clone());
    later.remember(harness.memory());
    assert_eq!((later.deployed(), later.candidate()), (before, None));
}

#[test]
fn a_reflector_writes_a_merged_lesson_that_waits_for_the_gate_without_a_trial() {
    let merged = "when tier is gold or silver: act by the book";
    let merge = |parts: &[&str], text: &str| {
        let parts = parts.iter().map(|text| id(text).0).collect();
        proposal(Change::Merge(parts, plugin_entry("", text)))
    };
    let mut world = World::new(settings(), &[WIDE, OTHER, "always: wait"]);
    world.propose(vec![merge(&[WIDE, OTHER], merged)]);
    world.check(&[(merged, "queued")]);
    world.play(8);
    world.check(&[(merged, "queued")]);
    let candidate = world.harness.candidate().unwrap();
    assert_eq!(lines(&candidate.playbook), [merged, "always: wait"]);
    assert_eq!((candidate.added.clone(), candidate.question), (vec![id(merged)], Question::NotWorse));
    world.promote();
    world.check(&[(merged, "deployed"), (WIDE, "superseded"), (OTHER, "superseded")]);

    let refused = |parts: &[&str], text: &str| {
        let mut world = World::new(settings(), &[WIDE, OTHER]);
        world.propose(vec![merge(parts, text)]);
        assert_eq!(world.harness.candidate(), None);
        world.harness.counts().refused.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(refused(&[WIDE], merged), ["a merger of fewer than two deployed entries"]);
    assert_eq!(refused(&[WIDE, "always: wait"], merged), ["a merger of fewer than two deployed entries"]);
    let mut world = World::new(settings(), &[WIDE, OTHER]);
    world.propose(vec![merge(&[WIDE, OTHER], merged)]);
    let candidate = world.harness.candidate().unwrap();
    world.harness.reject(&candidate);
    world.check(&[(merged, "expired"), (WIDE, "deployed")]);
    world.propose(vec![merge(&[WIDE, OTHER], merged)]);
    assert_eq!(world.harness.candidate(), None, "it was turned down");
}

#[test]
fn a_later_run_does_not_try_a_lesson_that_was_written_for_a_waiting_merger() {
    let merged = "when tier is gold or silver: act by the book";
    let mut world = World::new(settings(), &[WIDE, OTHER]);
    let parts = [WIDE, OTHER].map(|text| id(text).0).to_vec();
    world.propose(vec![proposal(Change::Merge(parts, plugin_entry("", merged)))]);
    world.check(&[(merged, "queued")]);
    let mut later = Harness::new(settings(), world.harness.deployed());
    later.remember(world.harness.memory());
    assert_eq!(later.status(&id(merged)), None);
}

#[test]
fn a_merger_after_which_an_entry_would_need_itself_is_refused() {
    let (rule, merged) = ("when size is large: act three", "when tier is gold or silver: act by the book");
    let refused = |needs: [&[&str]; 3], text: &str| {
        let mut all = playbook(&[WIDE, OTHER, rule]);
        for (entry, needs) in all.entries.iter_mut().zip(needs) {
            entry.needs = needs.iter().map(|text| id(text)).collect();
        }
        let mut world = World::new(settings(), &[]);
        world.harness = Harness::new(settings(), all);
        let parts = [WIDE, OTHER].map(|text| id(text).0).to_vec();
        world.propose(vec![proposal(Change::Merge(parts, plugin_entry("", text)))]);
        world.harness.counts().refused.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(refused([&[], &[], &[]], merged), [""; 0]);
    // The second part needs the rule, and the rule needs the first part.
    let through = "a merger of entries of which one needs another through a third";
    assert_eq!(refused([&[], &[rule], &[WIDE]], merged), [through]);
    assert_eq!(refused([&[], &[], &[WIDE]], rule), ["a merger into an entry that needs one of its parts"]);
}

#[test]
fn what_needed_a_part_needs_the_merged_entry() {
    let rule = "when size is large: act three";
    let mut all = playbook(&[WIDE, NARROW, rule]);
    all.entries[2].needs = vec![id(NARROW)];
    let mut harness = Harness::new(settings(), all);
    let candidate = harness.candidate().unwrap();
    assert_eq!(candidate.playbook.entries[1].needs, [id(WIDE)]);
    harness.promote(&candidate);
    assert_eq!(harness.deployed(), candidate.playbook);
}

#[test]
fn a_run_with_a_budget_merges_nothing() {
    let settings = HarnessSettings { admission: Admission::Bundle, ..settings() };
    assert_eq!(Harness::new(settings, playbook(&[WIDE, NARROW])).candidate(), None);
}
