//! Stages of an entry.

use super::*;

/// Groups after which a clear effect is decided: at least six, and forty degrees of freedom.
const CLEAR: usize = 20;

fn with_slots(trial_slots: usize) -> HarnessSettings {
    HarnessSettings { trial_slots, ..settings() }
}

/// A world in which this lesson is admitted and waits for the gate.
fn admitted(text: &str, deployed: &[&str]) -> World {
    let mut world = World::new(settings(), deployed);
    world.effect(text, 0.3);
    world.add(&[text]);
    world.play(CLEAR);
    world.check(&[(text, "admitted")]);
    world
}

#[test]
fn an_entry_goes_from_queue_to_trial_to_gate_to_deployment() {
    let mut world = World::new(with_slots(2), &[]);
    let (helps, harms, waits) = (&rule(1), &rule(2), &rule(3));
    world.effect(helps, 0.3);
    world.effect(harms, -0.3);
    world.add(&[helps, harms, waits]);
    world.check(&[(helps, "on trial"), (harms, "on trial"), (waits, "queued")]);
    world.play(5);
    world.check(&[(helps, "on trial"), (harms, "on trial"), (waits, "queued")]);
    assert_eq!(world.harness.candidate(), None, "nothing is decided yet");
    world.play(CLEAR);
    world.check(&[(helps, "admitted"), (harms, "harmful"), (waits, "on trial")]);
    assert_eq!(world.deployed(), [""; 0], "only the gate deploys");
    let candidate = world.promote();
    assert_eq!((candidate.added, candidate.removed), (vec![id(helps)], vec![]));
    assert_eq!(candidate.question, Question::Better);
    world.check(&[(helps, "deployed"), (harms, "harmful"), (waits, "on trial")]);
    assert_eq!(world.deployed(), [helps.as_str()]);
    assert_eq!(world.harness.candidate(), None);
    let row = world.harness.rows().into_iter().find(|row| row.id == id(helps)).unwrap();
    assert!(row.lift.unwrap() > 0.25 && row.helps.unwrap() > 10.0 && row.interval.unwrap().0 > 0.0, "{row:?}");
}

#[test]
fn an_entry_expires_after_a_fixed_number_of_relevant_groups() {
    let mut world = World::new(settings(), &[]);
    let neutral = &rule(1);
    world.add(&[neutral]);
    world.play(EXPIRE_AFTER as usize - 1);
    world.check(&[(neutral, "on trial")]);
    world.play(1);
    world.check(&[(neutral, "expired")]);
    assert!(world.events.last().unwrap().starts_with("expired, no evidence: always: follow rule 1 (+0.000"));
    assert_eq!(world.harness.credit.estimates().len(), 0, "its column is free");
}

#[test]
fn a_never_relevant_entry_expires_and_frees_its_slot() {
    let mut world = World::new(with_slots(1), &[]);
    let (rare, next) = ("when tier is gold: refund", &rule(1));
    world.add(&[rare, next]);
    for _ in 0..NEVER_RELEVANT_AFTER / 100 - 1 {
        world.play(100);
    }
    world.play(99);
    world.check(&[(rare, "on trial"), (next, "queued")]);
    world.play(1);
    world.check(&[(rare, "expired"), (next, "on trial")]);
}

#[test]
fn equal_rewards_decide_nothing() {
    for reward in [-1.0, 0.0, 0.5, 1.0] {
        let mut world = World::new(settings(), &[&rule(0)]);
        let texts: Vec<String> = (1..=16).map(rule).collect();
        world.add(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for _ in 0..15 {
            let mut groups = world.groups(16, TEXT);
            groups.iter_mut().flat_map(|group| &mut group.members).for_each(|member| member.reward = reward);
            world.learn(&batch(groups, Vec::new()));
        }
        assert_eq!(world.harness.count(&Status::Expired), 16);
        assert_eq!(world.harness.count(&Status::Deployed), 1);
        assert_eq!(world.harness.candidate(), None);
    }
}

#[test]
fn an_expired_lesson_gets_a_new_trial_after_a_number_of_groups() {
    let mut world = World::new(settings(), &[]);
    let (neutral, changed) = (&rule(1), 0.3);
    world.add(&[neutral]);
    world.play(EXPIRE_AFTER as usize);
    world.check(&[(neutral, "expired")]);
    world.pass(RETRIAL_AFTER_EXPIRY - 1);
    world.add(&[neutral]);
    world.check(&[(neutral, "expired")]);
    assert_eq!((world.harness.counts().known, world.harness.counts().merged), (1, 0));
    world.pass(1);
    world.check(&[(neutral, "expired")]);
    world.add(&["Always: follow the rule 1."]);
    world.check(&[(neutral, "on trial")]);
    assert_eq!((world.harness.counts().known, world.harness.counts().merged), (1, 1));
    world.effect(neutral, changed);
    world.play(CLEAR);
    world.check(&[(neutral, "admitted")]);
}

#[test]
fn an_expired_lesson_returns_after_a_deployment() {
    let mut world = World::new(settings(), &[]);
    let (needs, look_up, rare) = (&rule(1), &rule(2), "when tier is gold: refund");
    world.add(&[needs, rare]);
    world.play(EXPIRE_AFTER as usize);
    world.pass(NEVER_RELEVANT_AFTER);
    world.check(&[(needs, "expired"), (rare, "expired")]);
    world.effect(look_up, 0.3);
    world.add(&[look_up]);
    world.play(CLEAR);
    world.check(&[(look_up, "admitted"), (needs, "expired")]);
    world.promote();
    world.check(&[(look_up, "deployed"), (needs, "on trial"), (rare, "expired")]);
    let record = &world.harness.records[&id(needs)];
    assert_eq!(record.earlier.len(), 1, "the new trial is one more hypothesis");
    world.effect(needs, 0.3);
    world.play(CLEAR);
    world.check(&[(needs, "admitted")]);
}

#[test]
fn a_new_trial_counts_as_one_more_hypothesis_and_the_earlier_one_keeps_its_value() {
    // E-values that an entry was closed with, and the value of its new trial, which is selected alone from 10 times the number tried.
    let check = |closed_with: &[f64], now: f64, expect: bool| {
        let mut world = World::new(settings(), &[]);
        let text = &rule(1);
        world.add(&[text]);
        for value in closed_with {
            world.harness.records.get_mut(&id(text)).unwrap().evidence =
                Some(Evidence { helps: Some(*value), harms: 0.0 });
            world.harness.close(&id(text), Status::Expired);
            world.pass(RETRIAL_AFTER_EXPIRY);
            world.add(&[text]);
            world.check(&[(text, "on trial")]);
        }
        let record = world.harness.records.get_mut(&id(text)).unwrap();
        assert_eq!(record.earlier.iter().filter_map(|one| one.helps).collect::<Vec<_>>(), closed_with);
        record.evidence = Some(Evidence { helps: Some(now), harms: 0.0 });
        let chosen = world.harness.convincing(|evidence| evidence.helps);
        assert_eq!(!chosen.is_empty(), expect, "{now} after {closed_with:?}");
    };
    check(&[], 10.0, true);
    check(&[0.3], 10.0, false);
    check(&[0.3], 20.0, true);
    check(&[0.3, 4.0], 20.0, false);
    check(&[0.3, 4.0], 30.0, true);
    // Two of three need 15 each, and the frozen one has it.
    check(&[0.3, 16.0], 15.0, true);
}

#[test]
fn lessons_that_an_earlier_run_closed_get_no_immediate_trial() {
    let mut world = World::new(settings(), &[&rule(1)]);
    let turned_down = [1, 2].map(|n| Entry { status: Status::Harmful, ..Entry::new(lesson(&rule(n)), "earlier") });
    let open = Entry::new(lesson(&rule(3)), "earlier");
    world.harness.remember(turned_down.into_iter().chain([open]).collect());
    world.check(&[(&rule(1), "deployed"), (&rule(2), "harmful"), (&rule(3), "on trial")]);
    world.add(&[&rule(2)]);
    world.check(&[(&rule(2), "harmful")]);
    assert_eq!(world.harness.counts().known, 1);
}

#[test]
fn entries_of_a_rejected_candidate_return_to_the_queue() {
    let text = &rule(1);
    let mut world = admitted(text, &[]);
    world.harness.settings.trial_slots = 1;
    world.add(&[&rule(2)]);
    world.check(&[(text, "admitted"), (&rule(2), "on trial")]);
    let candidate = world.harness.candidate().unwrap();
    world.harness.reject(&candidate);
    world.check(&[(text, "queued"), (&rule(2), "on trial")]);
    assert_eq!(world.harness.candidate(), None);
    assert!(!world.harness.credit.estimates().contains_key(&id(text)), "it is measured anew");
    assert!(!world.harness.worth().contains_key(&id(text)));
    world.harness.settings.trial_slots = 2;
    world.play(1);
    world.check(&[(text, "on trial")]);
    world.play(CLEAR);
    world.check(&[(text, "admitted")]);
}

#[test]
fn entries_are_retired_one_per_step() {
    let mut world = World::new(settings(), &[]);
    let (bad, worse) = (&rule(1), &rule(2));
    world.effect(bad, -0.2);
    world.effect(worse, -0.3);
    world.add(&[bad, worse]);
    world.play(CLEAR * 2);
    world.check(&[(bad, "on trial"), (worse, "harmful")]);
    world.play(CLEAR);
    world.check(&[(bad, "harmful")]);
}

#[test]
fn maintenance_finds_wrongly_admitted_entries() {
    let text = &rule(1);
    let mut world = admitted(text, &[]);
    // Admitted by chance; in truth it harms.
    world.effect(text, -0.3);
    world.promote();
    world.play(CLEAR);
    world.check(&[(text, "deployed")]);
    for _ in 0..30 {
        world.play(10);
    }
    world.check(&[(text, "harmful")]);
    assert_eq!(world.deployed(), [text.as_str()], "it is served until the gate accepts its removal");
    let asked = world.harness.candidate().unwrap();
    assert_eq!((asked.removed.clone(), asked.question), (vec![id(text)], Question::NotWorse));
    world.harness.reject(&asked);
    world.check(&[(text, "deployed")]);
    assert_eq!(world.harness.candidate(), None);
    for _ in 0..30 {
        world.play(10);
    }
    world.promote();
    assert_eq!(world.deployed(), [""; 0]);
    world.check(&[(text, "harmful")]);
}

#[test]
fn an_entry_that_waits_for_removal_gets_no_trial() {
    let text = &rule(1);
    let mut world = World::new(settings(), &[text]);
    world.effect(text, -0.3);
    world.propose(vec![retire(text)]);
    world.play(CLEAR);
    world.check(&[(text, "harmful")]);
    world.pass(RETRIAL_AFTER_HARM);
    world.add(&[text]);
    world.check(&[(text, "harmful")]);
    world.promote();
    world.add(&[text]);
    world.check(&[(text, "on trial")]);
    assert_eq!(world.deployed(), [""; 0]);
}

#[test]
fn a_proposed_retirement_starts_a_test_and_only_harm_removes_the_entry() {
    for (effect, expect) in [(0.0, "deployed"), (0.3, "deployed"), (-0.3, "harmful")] {
        let text = &rule(1);
        let mut world = World::new(settings(), &[text]);
        world.effect(text, effect);
        let drawn = |world: &Harness| {
            let showing = world.training(SEED);
            (1_000..1_100).filter(|group| !showing.choose(*group, 0, MEMBERS, TEXT).drawn.is_empty()).count()
        };
        assert!((1..30).contains(&drawn(&world.harness)), "now and then");
        world.propose(vec![retire(text), retire(text)]);
        world.check(&[(text, "deployed")]);
        assert_eq!(drawn(&world.harness), 100, "in every group");
        world.play(EXPIRE_AFTER as usize - 1);
        world.check(&[(text, expect)]);
        world.play(1);
        world.check(&[(text, expect)]);
        assert_eq!(world.harness.questioned.len(), 0, "the test has ended");
        assert_eq!(world.deployed(), [text.as_str()]);
        assert_eq!(world.harness.candidate().is_some(), effect < 0.0);
    }
}

#[test]
fn an_accepted_update_supersedes_the_old_wording() {
    let (old, new) = ("always: follow the old rule", "always: follow the old rule at once");
    let mut world = World::new(settings(), &[old, &rule(9)]);
    world.effect(new, 0.3);
    world.propose(vec![update(old, new), retire(old)]);
    world.check(&[(old, "deployed"), (new, "on trial")]);
    world.play(CLEAR);
    world.check(&[(old, "deployed"), (new, "admitted")]);
    let candidate = world.promote();
    assert_eq!((candidate.added, candidate.removed), (vec![id(new)], vec![id(old)]));
    world.check(&[(old, "superseded"), (new, "deployed")]);
    assert_eq!(world.harness.status(&id(old)), Some(&Status::Superseded(id(new))));
    assert_eq!(world.deployed(), [rule(9).as_str(), new]);
    assert_eq!(world.harness.questioned.len(), 0);
    assert!(!world.harness.credit.estimates().contains_key(&id(old)), "it is not measured any more");
}

#[test]
fn of_successive_updates_only_the_last_is_served() {
    let (first, second, third) = (&rule(1), &rule(2), &rule(3));
    let mut world = World::new(settings(), &[first]);
    world.effect(second, 0.2);
    world.effect(third, 0.3);
    world.propose(vec![update(first, second)]);
    world.propose(vec![update(second, third)]);
    world.play(CLEAR * 2);
    world.check(&[(first, "deployed"), (second, "admitted"), (third, "admitted")]);
    let candidate = world.promote();
    assert_eq!((candidate.added, candidate.removed), (vec![id(third)], vec![id(first)]));
    world.check(&[(first, "superseded"), (second, "superseded"), (third, "deployed")]);
    assert_eq!(world.deployed(), [third.as_str()]);
    assert_eq!(world.harness.candidate(), None);
}

#[test]
fn two_updates_of_one_entry_remove_it_once() {
    let (old, one, other) = (&rule(1), &rule(2), &rule(3));
    let mut world = World::new(settings(), &[old]);
    world.effect(one, 0.2);
    world.effect(other, 0.2);
    world.propose(vec![update(old, one), update(old, other)]);
    world.play(CLEAR * 2);
    let candidate = world.promote();
    assert_eq!((candidate.added, candidate.removed), (vec![id(one), id(other)], vec![id(old)]));
    world.check(&[(old, "superseded"), (one, "deployed"), (other, "deployed")]);
}

#[test]
fn a_planted_lesson_is_tried_first_by_the_same_rules() {
    let mut world = World::new(with_slots(1), &[]);
    world.add(&[&rule(1), &rule(2)]);
    world.harness.plant(lesson(&rule(3)), "operator");
    world.harness.plant(lesson(&rule(3)), "operator");
    world.check(&[(&rule(1), "on trial"), (&rule(2), "queued"), (&rule(3), "queued")]);
    let support = |world: &World| world.harness.rows().iter().map(|row| row.support).collect::<Vec<_>>();
    assert_eq!(support(&world), [1, 1, 0], "planting is not a proposal");
    let planted = world.harness.known().entries.pop().unwrap();
    assert_eq!(EntryRow::unmeasured(&planted).support, 0, "unmeasured rows too");
    world.add(&[&rule(3)]);
    assert_eq!(support(&world), [1, 1, 1], "now it was proposed");
    world.play(EXPIRE_AFTER as usize);
    world.check(&[(&rule(1), "expired"), (&rule(2), "queued"), (&rule(3), "on trial")]);
}

#[test]
fn the_number_of_trials_is_limited() {
    let mut world = World::new(with_slots(1_000), &[]);
    let texts: Vec<String> = (0..100).map(rule).collect();
    world.add(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(world.harness.count(&Status::OnTrial), TRIAL_SLOTS);
}

#[test]
fn entries_without_groups_have_no_numbers() {
    let mut world = World::new(settings(), &[&rule(1)]);
    world.add(&[&rule(2)]);
    let known = |row: EntryRow| (row.groups, row.lift, row.interval, row.helps, row.harms);
    for row in world.harness.rows() {
        assert_eq!(known(row.clone()), (0, None, None, None, None), "{row:?}");
    }
    (0..10).for_each(|_| world.play(5));
    assert!(world.harness.rows().into_iter().all(|row| row.groups > 0 && row.lift.is_some() && row.harms.is_some()));
}

#[test]
fn initially_deployed_entries_do_not_raise_the_admission_threshold() {
    let many: Vec<String> = (100..200).map(rule).collect();
    let mut world = World::new(settings(), &many.iter().map(String::as_str).collect::<Vec<_>>());
    world.add(&[&rule(1)]);
    (0..20).for_each(|_| world.play(5));
    let rows = world.harness.rows();
    let (deployed, tried): (Vec<&EntryRow>, Vec<&EntryRow>) = rows.iter().partition(|row| row.status == "deployed");
    assert!(deployed.iter().all(|row| row.harms.is_some() && row.helps.is_none()), "only harm is tested");
    assert!(tried.iter().all(|row| row.helps.is_some()));
    assert_eq!(
        world.harness.convincing(|evidence| evidence.helps.map(|_| 10.0)),
        [id(&rule(1))],
        "it is the only entry tried"
    );
}

#[test]
fn every_new_trial_counts_as_one_more_hypothesis_and_keeps_the_old_evidence() {
    let text = &rule(1);
    let mut world = admitted(text, &[]);
    let tried = |world: &World| world.harness.records.values().map(|record| 1 + record.earlier.len()).sum::<usize>();
    let old = world.harness.records[&id(text)].evidence.unwrap().helps;
    assert_eq!(tried(&world), 1);
    let candidate = world.harness.candidate().unwrap();
    world.harness.reject(&candidate);
    assert_eq!(tried(&world), 2, "after the gate's rejection");
    assert_eq!(world.harness.records[&id(text)].earlier[0].helps, old, "the first trial keeps its value");
    world.effect(text, 0.0);
    world.play(EXPIRE_AFTER as usize);
    world.check(&[(text, "expired")]);
    world.pass(RETRIAL_AFTER_EXPIRY);
    assert_eq!(tried(&world), 2);
    world.add(&[text]);
    assert_eq!(tried(&world), 3, "after it expired");

    let mut world = World::new(settings(), &[text]);
    world.play(CLEAR * 3);
    world.propose(vec![retire(text)]);
    world.play(EXPIRE_AFTER as usize);
    world.propose(vec![retire(text)]);
    assert_eq!(tried(&world), 3, "each test of harm");
}
