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

/// The statuses of the entries about looking after a run that measures each entry, and the number of rules on looked-up facts that are served.
fn open_ended(bench: &Bench, pairs: &str) -> (Vec<String>, f64) {
    let plugin = format!("{}?world=301", bench.guest("env_worlds"));
    let reward = format!("{}?name=score", bench.guest("reward_signal"));
    let reflector = format!("{}?signal=score&pairs={pairs}", bench.guest("reflector_rules"));
    let words = ["learn", &plugin, "--reward", &reward, "--reflector", &reflector, "--layer", "harness", "-q"];
    let numbers = ["--iterations", "40", "--seed", "301", "--test-pairs", "60", "--playbook", pairs];
    let document = bench.outside_timing(&[&words[..], &numbers].concat());
    let entries = document["learn"]["entries"].as_array().unwrap();
    let open = ["unknown", "not known", "hidden", "?", "not told"];
    let is_look = |entry: &&Value| {
        let lesson = entry["lesson"].as_str().unwrap();
        open.iter().any(|open| lesson.contains(&format!(" is {open}: call")))
    };
    let looks = entries.iter().filter(is_look).map(|entry| entry["status"].as_str().unwrap().to_owned()).collect();
    (looks, document["heldout_after"]["mean"].as_f64().unwrap())
}

#[test]
fn a_pair_is_found_without_a_budget_that_single_lessons_miss() {
    let Some(bench) = Bench::new("a_pair_is_found_without_a_budget") else { return };
    let (with, after) = open_ended(&bench, "on");
    let (without, alone) = open_ended(&bench, "off");
    eprintln!("{with:?} {after} {without:?} {alone}");
}
