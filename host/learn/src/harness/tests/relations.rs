//! Entries that need each other: proposed, shown, tried, admitted and retired together.

use super::*;
use proptest::prelude::*;

const LOOK: &str = "when tier is unknown: look";
const RULE: &str = "when tier is gold: act one";
const OTHER: &str = "when tier is silver: act two";
/// A task of which the tier is not known.
const OPEN: &str = "tier: unknown";

/// A world in which the rule helps only beside the look-up, and the look-up alone harms.
fn pair_world() -> World {
    let mut world = World::new(settings(), &[]);
    world.effect(LOOK, -0.05);
    world.joint.push((id(LOOK), id(RULE), 0.35));
    world
}

fn pair(world: &mut World) {
    world.answer(vec![needing("look", LOOK, &[]), needing("", RULE, &["look"])]);
}

fn play(world: &mut World, groups: usize) {
    let groups = world.groups(groups, OPEN);
    world.learn(&batch(groups, Vec::new()));
}

fn refusals(world: &World) -> Vec<&str> {
    world.harness.counts().refused.keys().map(String::as_str).collect()
}

#[test]
fn a_pair_is_one_factor_of_a_trial() {
    let mut world = pair_world();
    pair(&mut world);
    world.check(&[(LOOK, "queued"), (RULE, "on trial")]);
    let showing = world.harness.training(SEED);
    for group in 0..50 {
        let all: Vec<Chosen> = (0..MEMBERS).map(|member| showing.choose(group, member, MEMBERS, OPEN)).collect();
        assert_eq!(all.iter().filter(|chosen| chosen.shown.len() == 2).count(), 2, "half of the members see both");
        assert_eq!(all.iter().filter(|chosen| chosen.shown.is_empty()).count(), 2, "the others see none");
        assert!(all.iter().all(|chosen| chosen.drawn.len() == 1 && chosen.drawn[0].0 == id(RULE)));
    }
}

#[test]
fn a_pair_is_admitted_and_deployed_together() {
    let mut world = pair_world();
    pair(&mut world);
    play(&mut world, 60);
    world.check(&[(LOOK, "admitted"), (RULE, "admitted")]);
    let candidate = world.promote();
    assert_eq!(candidate.added, [id(LOOK), id(RULE)]);
    assert_eq!(world.harness.deployed().entries[1].needs, [id(LOOK)], "the playbook has the relation");
    let rows = world.harness.rows();
    assert_eq!(rows[1].needs, [id(LOOK)]);
}

/// The share of worlds with chance in which both lessons are admitted within this number of groups, one group after another.
fn found(is_pair: bool, crowd: usize, groups: usize) -> usize {
    let is_found = |seed: &u64| {
        let mut world = pair_world();
        world.harness = Harness::new(HarnessSettings { trial_crowd: crowd, ..settings() }, playbook(&[]));
        world.random = Some(Random(*seed));
        world.add(&(0..12).map(rule).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
        match is_pair {
            true => pair(&mut world),
            false => world.add(&[LOOK, RULE]),
        }
        (0..groups / 16).for_each(|_| play(&mut world, 16));
        [LOOK, RULE].iter().all(|text| world.status(text) == "admitted")
    };
    (0..20).filter(is_found).count()
}

#[test]
fn a_pair_is_found_that_its_lessons_alone_miss() {
    // As in a run: at most four of fourteen lessons on trial share a prompt.
    let (pairs, singles) = (found(true, TRIAL_CROWD, 640), found(false, TRIAL_CROWD, 640));
    assert!(pairs >= 18 && singles <= 2, "{pairs} of 20 as pairs, {singles} as single lessons");
}

#[test]
fn a_prerequisite_has_its_own_trial_once_nothing_needs_it() {
    let mut world = World::new(settings(), &[]);
    world.effect(LOOK, 0.3);
    world.effect(RULE, -0.6);
    pair(&mut world);
    play(&mut world, 60);
    world.check(&[(LOOK, "on trial"), (RULE, "harmful")]);
    play(&mut world, 60);
    world.check(&[(LOOK, "admitted")]);
}

#[test]
fn what_needs_a_harmful_entry_leaves_with_it() {
    let mut world = World::new(settings(), &[]);
    world.effect(LOOK, 0.2);
    world.answer(vec![needing("look", LOOK, &[]), needing("a", RULE, &["look"]), needing("b", OTHER, &["look"])]);
    world.joint.push((id(LOOK), id(RULE), 0.2));
    play(&mut world, 60);
    world.promote();
    world.answer(vec![needing("", "when tier is bronze: act three", &[&id(LOOK).0])]);
    world.effect(LOOK, -0.9);
    world.propose(vec![retire(LOOK)]);
    play(&mut world, 120);
    world.check(&[(LOOK, "harmful"), ("when tier is bronze: act three", "expired")]);
    let candidate = world.promote();
    assert_eq!(candidate.playbook.entries, [], "{candidate:#?}");
    assert!(world.deployed().is_empty());
    world.check(&[(RULE, "expired")]);
}

#[test]
fn a_held_out_prerequisite_hides_what_needs_it() {
    let mut served = playbook(&[LOOK, RULE, OTHER]);
    served.entries[1].needs = vec![id(LOOK)];
    let harness = Harness::new(settings(), served);
    let showing = harness.training(SEED);
    let mut seen = [0; 3];
    for group in 0..2_000 {
        for member in 0..MEMBERS {
            let chosen = showing.choose(group, member, MEMBERS, OPEN);
            let shows = |text: &str| chosen.shown.contains(&id(text));
            assert!(!shows(RULE) || shows(LOOK), "{chosen:?}");
            let drawn = |text: &str| chosen.drawn.iter().any(|(entry, _)| *entry == id(text));
            assert!(!(drawn(RULE) && drawn(LOOK)), "one of a unit is drawn");
            assert!(chosen.drawn.iter().all(|(entry, is_shown)| chosen.shown.contains(entry) == *is_shown));
            seen[0] += usize::from(!shows(LOOK));
            seen[1] += usize::from(shows(LOOK) && !shows(RULE));
            seen[2] += usize::from(!shows(OTHER));
        }
    }
    assert!(seen.iter().all(|times| *times > 200), "each is held out by itself: {seen:?}");
}

#[test]
fn unknown_needs_cycles_and_second_names_are_refused_by_name() {
    let check = |proposals: Vec<Proposal>, entries: usize, expect: &[&str]| {
        let mut world = World::new(settings(), &[OTHER]);
        world.answer(proposals);
        assert_eq!(refusals(&world), expect);
        assert_eq!(world.harness.rows().len(), entries + 1);
    };
    check(
        vec![needing("", RULE, &["x"])],
        0,
        &["an entry that needs `x`, which neither its answer nor the playbook has"],
    );
    check(vec![needing("a", RULE, &["a"])], 0, &["an entry that needs itself through `a`"]);
    check(
        vec![needing("a", RULE, &["b"]), needing("b", LOOK, &["a"]), needing("c", "always: wait", &[])],
        1,
        &["an entry that needs itself through `a`", "an entry that needs itself through `b`"],
    );
    check(vec![needing("a", LOOK, &[]), needing("a", RULE, &[])], 1, &["a second entry named `a` in one answer"]);
    check(
        vec![needing("a", "", &[]), needing("b", RULE, &["a"]), needing("", LOOK, &["b"])],
        0,
        &[
            "an entry that needs `a`, which was refused",
            "an entry that needs `b`, which was refused",
            "the lesson is empty; give it a text, an action, or what to avoid",
        ],
    );
    // Through an entry that is known already.
    check(
        vec![needing("a", LOOK, &[]), needing("b", RULE, &["a"]), needing("c", &LOOK.to_uppercase(), &["b"])],
        2,
        &[&format!("an entry that needs itself through `{}`", id(RULE))],
    );
    let many: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
    let mut proposals: Vec<Proposal> = (0..9).map(|n| needing(&many[n], &rule(n), &[])).collect();
    proposals.push(needing("", RULE, &many.iter().map(String::as_str).collect::<Vec<_>>()));
    check(proposals, 9, &["an entry that needs more than 8 others"]);
}

#[test]
fn a_known_lesson_with_another_relation_is_another_hypothesis() {
    let mut world = World::new(settings(), &[]);
    world.add(&[RULE]);
    play(&mut world, EXPIRE_AFTER as usize);
    world.check(&[(RULE, "expired")]);
    world.add(&[RULE]);
    world.check(&[(RULE, "expired")]);
    pair(&mut world);
    world.check(&[(RULE, "on trial"), (LOOK, "queued")]);
    assert_eq!(world.harness.records[&id(RULE)].earlier.len(), 1, "it counts among those tried");
    play(&mut world, EXPIRE_AFTER as usize);
    world.check(&[(RULE, "expired")]);
    pair(&mut world);
    world.check(&[(RULE, "expired")]);
}

#[test]
fn a_relation_with_which_a_lesson_was_turned_down_gives_no_further_trial() {
    let wait = "always: wait";
    let mut world = World::new(settings(), &[OTHER, wait]);
    let needs = |world: &mut World, text: &str| world.answer(vec![needing("", RULE, &[&id(text).0])]);
    // In some of the groups the deployed entry is held out, and the rule with it.
    let expire = |world: &mut World| play(world, 2 * EXPIRE_AFTER as usize);
    for text in [OTHER, wait] {
        needs(&mut world, text);
        world.check(&[(RULE, "on trial")]);
        expire(&mut world);
    }
    for text in [OTHER, wait, OTHER] {
        needs(&mut world, text);
        world.check(&[(RULE, "expired")]);
    }
    assert_eq!(world.harness.records[&id(RULE)].earlier.len(), 1, "two trials, each counted once");
}

#[test]
fn a_replaced_prerequisite_is_followed() {
    let mut served = playbook(&[LOOK, RULE]);
    served.entries[1].needs = vec![id(LOOK)];
    let mut world = World::new(settings(), &[]);
    world.harness = Harness::new(settings(), served);
    let better = "when tier is unknown: look twice";
    world.effect(better, 0.3);
    world.propose(vec![update(LOOK, better)]);
    play(&mut world, 60);
    let candidate = world.promote();
    assert_eq!(candidate.removed, [id(LOOK)]);
    let served = world.harness.deployed();
    assert_eq!(served.digest(), candidate.digest());
    assert_eq!(served.entries.iter().find(|entry| entry.id == id(RULE)).unwrap().needs, [id(better)]);
}

#[test]
fn the_relation_survives_a_restart() {
    let mut world = pair_world();
    pair(&mut world);
    let mut later = Harness::new(settings(), playbook(&[]));
    let memory: Memory = serde_json::from_str(&serde_json::to_string(&world.harness.memory()).unwrap()).unwrap();
    later.remember(memory);
    world.harness = later;
    world.check(&[(LOOK, "queued"), (RULE, "on trial")]);
}

#[test]
fn a_lesson_of_a_bundle_leaves_with_what_it_needs() {
    let settings = HarnessSettings { admission: Admission::Bundle, ..settings() };
    let mut world = World::new(settings, &[]);
    pair(&mut world);
    assert_eq!(world.harness.candidate().unwrap().added.len(), 2);
    world.propose(vec![retire(LOOK)]);
    assert_eq!(world.harness.candidate(), None);
    // The newest answer says that it needs nothing.
    world.propose(vec![add(RULE)]);
    assert_eq!(world.harness.candidate().unwrap().added, [id(RULE)]);
}

proptest! {
    /// Whatever is proposed with whatever needs: nothing is shown without what it needs, and the budget holds.
    #[test]
    fn nothing_is_shown_without_what_it_needs(
        needs in prop::collection::vec(prop::collection::vec(0..8_usize, 0..3), 1..8),
        deployed in 0..8_usize,
        budget in 20_u64..120,
        group in 0..50_u64,
    ) {
        let texts: Vec<String> = (0..needs.len()).map(rule).collect();
        let names: Vec<String> = (0..8).map(|n| format!("n{n}")).collect();
        let mut world = World::new(HarnessSettings { token_budget: budget, ..settings() }, &[]);
        let mut served = playbook(&texts.iter().take(deployed).map(String::as_str).collect::<Vec<_>>());
        for (position, entry) in served.entries.iter_mut().enumerate() {
            // Only on those before it, so without a cycle.
            entry.needs = needs[position].iter().filter(|need| **need < position).map(|need| id(&rule(*need))).collect();
            entry.needs.dedup();
        }
        world.harness = Harness::new(HarnessSettings { token_budget: budget, ..settings() }, served);
        let proposals = texts.iter().enumerate().skip(deployed).map(|(position, text)| {
            let needs: Vec<&str> = needs[position].iter().map(|need| names[*need].as_str()).collect();
            needing(&names[position], text, &needs)
        });
        world.answer(proposals.collect());
        let showing = world.harness.training(SEED);
        for member in 0..MEMBERS {
            let chosen = showing.choose(group, member, MEMBERS, TEXT);
            for shown in &chosen.shown {
                let needed = world.harness.needed(shown);
                prop_assert!(needed.iter().all(|needed| chosen.shown.contains(needed)), "{chosen:?}");
            }
            prop_assert!(crate::estimated_tokens(&chosen.text) <= budget || chosen.shown.is_empty());
            let drawn: Vec<&EntryId> = chosen.drawn.iter().map(|(id, _)| id).collect();
            for (one, is_shown) in &chosen.drawn {
                prop_assert_eq!(chosen.shown.contains(one), *is_shown);
                let needed = world.harness.needed(one);
                prop_assert!(!drawn.iter().any(|other| needed.contains(*other)));
            }
        }
    }
}
