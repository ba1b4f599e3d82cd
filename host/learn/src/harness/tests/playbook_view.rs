//! Which entries members of a group are shown.

use super::*;
use crate::estimated_tokens;
use proptest::prelude::*;

fn trial(count: usize, deployed: &[&str]) -> Harness {
    let mut world = World::new(settings(), deployed);
    world.propose((0..count).map(|n| add(&rule(n))).collect());
    world.harness
}

#[test]
fn half_of_a_group_sees_an_entry_on_trial_and_entries_are_independent() {
    const GROUPS: u64 = 2_000;
    let showing = trial(6, &[]).training(SEED);
    let mut together = vec![[0_u32; 4]; 36];
    for group in 0..GROUPS {
        let chosen: Vec<Chosen> = (0..MEMBERS).map(|member| showing.choose(group, member, MEMBERS, TEXT)).collect();
        for entry in 0..6 {
            let seen = chosen.iter().filter(|chosen| chosen.drawn[entry].1).count();
            assert_eq!(seen, 2, "exactly half");
            for other in 0..6 {
                let both = usize::from(chosen[0].drawn[entry].1) * 2 + usize::from(chosen[0].drawn[other].1);
                together[entry * 6 + other][both] += 1;
            }
        }
        for chosen in &chosen {
            let seen = chosen.drawn.iter().filter(|(_, shown)| *shown).map(|(id, _)| id);
            assert!(seen.eq(&chosen.shown), "the shown entries are those drawn");
            assert_eq!(chosen.propensity, 0.5);
        }
    }
    // Five standard deviations of a quarter of the groups.
    let expect = (GROUPS as u32 / 4 - 97)..(GROUPS as u32 / 4 + 97);
    for (pair, counts) in together.iter().enumerate().filter(|(pair, _)| pair / 6 != pair % 6) {
        assert!(counts.iter().all(|count| expect.contains(count)), "{pair}: {counts:?}");
    }
}

#[test]
fn half_of_an_odd_group_is_rounded_down_and_a_single_member_sees_everything() {
    let showing = trial(2, &[]).training(SEED);
    let check = |members: u32, seen: usize, propensity: f64| {
        let all: Vec<Chosen> = (0..members).map(|member| showing.choose(3, member, members, TEXT)).collect();
        assert_eq!(all.iter().filter(|chosen| chosen.drawn[0].1).count(), seen);
        assert!(all.iter().all(|chosen| chosen.propensity == propensity));
    };
    check(1, 1, 1.0);
    check(2, 1, 0.5);
    check(5, 2, 0.4);
    check(64, 32, 0.5);
}

#[test]
fn serving_shows_all_entries() {
    let texts: Vec<String> = (0..20).map(rule).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let harness = trial(0, &texts);
    let showing = harness.serving(harness.deployed());
    for group in 0..200 {
        let chosen = showing.choose(group, (group % 4) as u32, MEMBERS, TEXT);
        assert_eq!(chosen.shown.len(), 20);
        assert_eq!(chosen.drawn, []);
        assert!(texts.iter().all(|text| chosen.text.contains(text)));
    }
}

#[test]
fn deployed_entries_are_held_out_in_one_group_of_ten() {
    let showing = trial(0, &[&rule(1)]).training(SEED);
    let groups = (0..4_000).filter(|group| !showing.choose(*group, 0, MEMBERS, TEXT).drawn.is_empty()).count();
    assert!((4_000 / MAINTENANCE as usize).abs_diff(groups) < 95, "{groups}: more than five standard deviations off");
}

#[test]
fn entries_on_trial_and_under_test_are_always_randomised() {
    let texts: Vec<String> = (1_000..2_000).map(rule).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut world = World::new(HarnessSettings { token_budget: 1 << 40, ..settings() }, &texts);
    world.propose((0..16).map(|n| add(&rule(n))).collect());
    world.propose(texts.iter().rev().take(QUESTIONED).map(|text| retire(text)).collect());
    let showing = world.harness.training(SEED);
    for group in 0..20 {
        let chosen = showing.choose(group, 0, MEMBERS, TEXT);
        let drawn: BTreeSet<&EntryId> = chosen.drawn.iter().map(|(id, _)| id).collect();
        assert_eq!(chosen.drawn.len(), crate::DRAWN_ENTRIES, "the number is limited");
        assert!((0..16).all(|n| drawn.contains(&id(&rule(n)))));
        assert!(world.harness.questioned.iter().all(|id| drawn.contains(id)));
    }
}

#[test]
fn entries_on_trial_use_what_measured_ones_leave_of_the_budget() {
    let deployed = &rule(100);
    let mut world = World::new(HarnessSettings { token_budget: 20, ..settings() }, &[deployed]);
    world.propose((1..=4).map(|n| add(&rule(n))).collect());
    // Its lower bound is negative.
    let mut estimate = world.harness.credit.estimates().remove(&id(&rule(1))).unwrap();
    estimate.interval.0 = -0.1;
    world.harness.records.get_mut(&id(deployed)).unwrap().decided = Some(estimate);
    let shown = |harness: &Harness| {
        let chosen: Vec<Chosen> =
            (0..MEMBERS).map(|member| harness.training(SEED).choose(1, member, MEMBERS, TEXT)).collect();
        let drawn: Vec<EntryId> = chosen[0].drawn.iter().map(|(id, _)| id.clone()).collect();
        (chosen.iter().filter(|chosen| chosen.shown.contains(&id(deployed))).count(), drawn)
    };
    assert_eq!(shown(&world.harness), (4, vec![id(&rule(1))]), "one entry on trial fits beside it");
    world.propose(vec![retire(deployed)]);
    assert_eq!(
        shown(&world.harness),
        (2, vec![id(deployed), id(&rule(1))]),
        "under test it still counts against the budget"
    );
}

#[test]
fn the_digest_covers_everything_that_changes_the_selection() {
    let digest = |harness: &Harness| harness.training(SEED).digest();
    let base = trial(2, &[&rule(9)]);
    assert_eq!(digest(&base), digest(&base.clone()));
    let mut names = BTreeSet::from([digest(&base).hex(), base.training(SEED + 1).digest().hex()]);
    let mut check = |change: &dyn Fn(&mut Harness)| {
        let mut harness = base.clone();
        change(&mut harness);
        assert!(names.insert(digest(&harness).hex()), "the digest changes");
    };
    check(&|harness| harness.settings.token_budget -= 1);
    check(&|harness| drop(harness.sections.insert("house".into(), "Be kind.".into())));
    check(&|harness| harness.put_under_test(&id(&rule(9))));
    check(&|harness| harness.close(&id(&rule(1)), Status::Expired));
    check(&|harness| harness.records.get_mut(&id(&rule(1))).unwrap().entry.status = Status::Admitted);
    check(&|harness| harness.records.get_mut(&id(&rule(1))).unwrap().entry.tags = vec!["tag".into()]);
    check(&|harness| harness.plant(lesson(&rule(3)), "operator"));
    check(&|harness| harness.records.get_mut(&id(&rule(0))).unwrap().position = 99);
    let mut measured = base.worth();
    measured.insert(id(&rule(9)), 0.1);
    let served =
        |worth: &BTreeMap<EntryId, f64>, budget| PlaybookView::serving(base.deployed(), worth, budget).digest();
    assert_ne!(served(&base.worth(), 2_000), served(&measured, 2_000));
    assert_ne!(served(&base.worth(), 2_000), served(&base.worth(), 1_999));
    assert_ne!(served(&base.worth(), 2_000), digest(&trial(0, &[&rule(9)])), "training and serving differ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn eligibility_precedes_randomisation_and_the_budget_is_never_exceeded(
        deployed in prop::collection::btree_set("(when (tier|age) is (silver|old): )?[a-z]{3,60}", 0..8),
        proposed in prop::collection::vec("(when (tier|age) is (silver|old): )?[a-z]{3,60}", 0..8),
        sections in prop::collection::btree_map("[a-z]{1,8}", "[a-z ]{0,60}", 0..3),
        text in prop::sample::select(vec!["tier: silver", "tier: gold\nage: old", "hello"]),
        token_budget in 0_u64..150,
        group in 0_u64..1_000,
        members in 1_u32..9,
    ) {
        let deployed: Vec<&str> = deployed.iter().map(String::as_str).collect();
        let mut world = World::new(HarnessSettings { token_budget, ..settings() }, &deployed);
        world.harness.sections = sections;
        world.propose(proposed.iter().map(|text| add(text)).chain(deployed.iter().take(2).map(|text| retire(text))).collect());
        let showing = world.harness.training(SEED);
        let again = world.harness.training(SEED);
        let first = showing.choose(group, 0, members, text);
        let undrawn = |chosen: &Chosen| -> Vec<EntryId> {
            let is_drawn = |id: &&EntryId| chosen.drawn.iter().any(|(drawn, _)| drawn == *id);
            chosen.shown.iter().filter(|id| !is_drawn(id)).cloned().collect()
        };
        for member in 0..members {
            let chosen = showing.choose(group, member, members, text);
            prop_assert_eq!(&chosen, &again.choose(group, member, members, text), "equal inputs, equal choice");
            prop_assert!(chosen.drawn.iter().map(|(id, _)| id).eq(first.drawn.iter().map(|(id, _)| id)));
            prop_assert_eq!(undrawn(&chosen), undrawn(&first), "only randomised entries differ");
            prop_assert!(chosen.shown.is_empty() || estimated_tokens(&chosen.text) <= token_budget);
            for (id, shown) in &chosen.drawn {
                prop_assert_eq!(chosen.shown.contains(id), *shown);
            }
        }
    }
}
