//! Generated worlds, on real components.

use super::hidden_rules::Hidden;
use super::*;

const WORLDS: Hidden = Hidden { guest: "env_worlds", world: "world", options: "", signal: "score", read: "score" };

#[test]
fn a_generated_world_is_known_from_its_handbook_alone_and_equal_everywhere() {
    let Some(bench) = Bench::new("a_generated_world_is_known") else { return };
    WORLDS.check(&bench, 301);
}

#[test]
fn three_hundred_episodes_teach_worlds_that_nobody_tuned_on() {
    let Some(bench) = Bench::new("three_hundred_episodes_worlds") else { return };
    let lift = WORLDS.lift(&bench, 301..304, 300, "rules");
    assert!(lift >= 0.5, "{lift}");
    let unnamed = Hidden { read: "", ..WORLDS }.lift(&bench, 301..303, 300, "rules");
    assert!(unnamed >= 0.4, "texts and rewards without a named signal: {unnamed}");
    let placebo = WORLDS.lift(&bench, 301..303, 100, "shuffled");
    assert!(placebo < 0.05, "{placebo}");
}

#[test]
fn look_ups_are_deployed_together_with_the_rules_that_need_them() {
    let Some(bench) = Bench::new("look_ups_are_deployed_together") else { return };
    let document = WORLDS.learned(&bench, 301, 300, "rules");
    let entries = document["learn"]["entries"].as_array().unwrap();
    let served = entries.iter().filter(|entry| entry["status"] == "provisional");
    let lessons: Vec<&str> = served.filter_map(|entry| entry["lesson"].as_str()).collect();
    // The words with which a world says that a fact is open.
    let open = ["unknown", "not known", "hidden", "?", "not told"];
    let looks = lessons.iter().filter(|lesson| open.iter().any(|open| lesson.contains(&format!(" is {open}: call"))));
    assert_eq!(looks.count(), 2, "{lessons:#?}");
}

#[test]
fn a_reward_that_never_differs_is_told() {
    let Some(bench) = Bench::new("a_reward_that_never_differs") else { return };
    let (world, exact) = (format!("{}?world=301", bench.guest("env_worlds")), bench.guest("reward_exact"));
    let rules = format!("{}?signal=score", bench.guest("reflector_rules"));
    let learn = ["learn", &world, "--reward", &exact, "--reflector", &rules, "--layer", "harness", "-q"];
    let told = bench.out(&[&learn[..], &["--budget", "64", "--test-pairs", "0"]].concat());
    assert!(told.contains("every batch had the reward 0.000"), "{told}");
    assert!(told.contains("there was no candidate for the gate") || told.contains("no candidate passed"), "{told}");
}
