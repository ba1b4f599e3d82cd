//! A text game with hidden dynamics, on real components.

use super::hidden_rules::Hidden;
use super::*;

const CAVE: Hidden = Hidden { guest: "env_cave", world: "world", options: "", signal: "score", read: "score" };

#[test]
fn a_text_game_is_known_from_its_handbook_alone_and_equal_everywhere() {
    let Some(bench) = Bench::new("a_text_game_is_known") else { return };
    CAVE.check(&bench, 301);
}

#[test]
fn three_hundred_episodes_teach_the_dynamics_of_caves_that_nobody_tuned_on() {
    let Some(bench) = Bench::new("three_hundred_episodes_caves") else { return };
    let lift = CAVE.lift(&bench, 301..303, 300, "rules");
    assert!(lift >= 0.4, "{lift}");
    let placebo = CAVE.lift(&bench, 301..303, 100, "shuffled");
    assert!(placebo < 0.05, "{placebo}");
}
