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
