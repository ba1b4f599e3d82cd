//! The layer under random rewards of 0 and 1, with lessons that help, harm or do nothing.

use super::*;

const BATCHES: usize = 100;
const GROUPS: usize = 16;
const WORLDS: u64 = 10;

#[test]
fn helpful_lessons_are_admitted_harmful_ones_retired_and_neutral_ones_expire() {
    for seed in 0..WORLDS {
        let mut world = World::new(settings(), &[]);
        world.random = Some(Random(seed));
        world.effect("always: help", 0.3);
        world.effect("always: harm", -0.3);
        world.add(&["always: help", "always: do nothing", "always: harm"]);
        for _ in 0..BATCHES {
            world.play(GROUPS);
        }
        world.check(&[("always: help", "admitted"), ("always: harm", "harmful"), ("always: do nothing", "expired")]);
        let candidate = world.promote();
        assert_eq!(candidate.added, [id("always: help")]);
    }
}

#[test]
fn the_control_serves_every_proposal_at_once() {
    let mut world = World::new(HarnessSettings { admission: Admission::Everything, ..settings() }, &[]);
    world.random = Some(Random(1));
    let all = ["always: help", "always: do nothing", "always: harm"];
    world.effect(all[0], 0.3);
    world.effect(all[2], -0.3);
    world.add(&all);
    assert_eq!(world.deployed(), all);
    for _ in 0..BATCHES {
        world.play(GROUPS);
        assert_eq!(world.deployed(), all, "without the gate nothing is removed");
    }
}

/// An e-value of a hypothesis that is true: `p^(-1/2) / 2` for a uniform p-value, which has mean 1 (Vovk and Wang 2021).
fn null_evidence(random: &mut Random) -> f64 {
    0.5 / (1.0 - random.uniform()).sqrt()
}

#[test]
fn many_trials_of_worthless_lessons_admit_and_retire_hardly_any() {
    const TRIALS: usize = 200;
    const RUNS: u64 = 300;
    // The evidence for a value of the last trial. If only it counted, the share would be about 1 - (1 - 1/400)^200 = .4.
    let selected = |value: fn(Evidence) -> Option<f64>, status: Status| {
        let is_selected = |seed: &u64| {
            let mut random = Random(1_000 + seed);
            let mut world = World::new(settings(), &[]);
            world.add(&[&rule(1)]);
            (0..TRIALS).any(|_| {
                let evidence = null_evidence(&mut random);
                let record = world.harness.records.get_mut(&id(&rule(1))).unwrap();
                record.evidence = Some(Evidence { helps: Some(evidence), harms: evidence });
                let selected = !world.harness.convincing(value).is_empty();
                world.harness.try_again(&id(&rule(1)), status.clone());
                selected
            })
        };
        (0..RUNS).filter(is_selected).count() as f64 / RUNS as f64
    };
    let check = |value: fn(Evidence) -> Option<f64>, status: Status| {
        let share = selected(value, status.clone());
        assert!(share <= FALSE_DISCOVERY / 2.0, "{status:?}: {share}");
    };
    check(|evidence| evidence.helps, Status::Queued);
    check(|evidence| Some(evidence.harms), Status::Queued);
    check(|evidence| Some(evidence.harms), Status::Deployed);
}
