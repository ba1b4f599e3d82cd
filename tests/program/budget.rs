//! Learning with a small number of episodes, on real components.

use super::*;

/// A learning run of a house of the shop.
fn house(bench: &Bench, house: u64, budget: u64, mode: &str) -> Vec<String> {
    let shop = format!("{}?house={house}", bench.guest("env_shop"));
    let reflector = format!("{}?mode={mode}", bench.guest("reflector_rules"));
    let (reward, budget, seed) = (bench.guest("reward_state"), budget.to_string(), house.to_string());
    let playbook = format!("house{house}{mode}");
    let words = ["learn", &shop, "--reward", &reward, "--reflector", &reflector, "--layer", "harness", "-q"];
    let numbers = ["--budget", &budget, "--seed", &seed, "--test-pairs", "60", "--playbook", &playbook];
    words.iter().chain(&numbers).map(|word| (*word).to_owned()).collect()
}

fn document(bench: &Bench, words: &[String], more: &[&str]) -> Value {
    bench.outside_timing(&words.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>())
}

fn lift(document: &Value) -> f64 {
    let mean = |name: &str| document[name]["mean"].as_f64().unwrap();
    mean("heldout_after") - mean("heldout_before")
}

fn sum(document: &Value, names: &[&str]) -> u64 {
    names.iter().map(|name| document["episodes"][name].as_u64().unwrap()).sum()
}

#[test]
fn a_hundred_episodes_teach_the_rules_of_houses_that_nobody_tuned_on() {
    let Some(bench) = Bench::new("a_hundred_episodes") else { return };
    let houses = 501..507;
    let learned: Vec<Value> =
        houses.clone().map(|number| document(&bench, &house(&bench, number, 100, "rules"), &[])).collect();
    for document in &learned {
        assert!(sum(document, &["train", "gate"]) <= 100, "{}", document["episodes"]);
        assert_eq!(sum(document, &["test"]), 120);
        assert_eq!(document["learn"]["budget"]["pairs"], 16);
    }
    let mean = learned.iter().map(lift).sum::<f64>() / learned.len() as f64;
    assert!(mean >= 0.25, "a failed promotion counts as 0: {mean}");

    // Placebos gain nothing: no proposals, or rules with other actions.
    for mode in ["silent", "shuffled"] {
        let mean =
            houses.clone().map(|number| lift(&document(&bench, &house(&bench, number, 100, mode), &[]))).sum::<f64>();
        assert!(mean / 6.0 < 0.05, "{mode}: {mean}");
    }
}

#[test]
fn a_budget_is_divided_before_anything_is_played() {
    let Some(bench) = Bench::new("a_budget_is_divided") else { return };
    let words = house(&bench, 3, 300, "rules");
    let plan = bench.json(&words.iter().map(String::as_str).chain(["--dry-run"]).collect::<Vec<_>>());
    let budget = &plan["budget"];
    assert_eq!((&budget["batches"], &budget["batch"], &budget["pairs"]), (&6.into(), &33.into(), &51.into()));
    assert!(budget["smallest_lift"].as_f64().unwrap() < 0.3 && budget["power"] == 0.8, "{budget}");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let told = bench.out(&[&words[..], &["--dry-run"]].concat());
    assert!(told.contains("budget      300 episodes for training and gate; 51 pairs find a lift of 0."), "{told}");
    let refused = |more: &[&str], says: &[&str]| bench.refused(&[&words[..], more].concat(), says);
    refused(&["--iterations", "3"], &["--iterations", "cannot stand beside", "--budget"]);
    refused(&["--gate-pairs", "64"], &["--gate-pairs", "cannot stand beside", "--budget"]);
    refused(&["--evolve", "100"], &["--evolve", "cannot stand beside", "--budget"]);
    let few: Vec<&str> = words.iter().map(|word| if *word == "300" { "47" } else { *word }).collect();
    bench.refused(&few, &["--budget", "47", "48"]);
}

/// Everything of a command but its budget.
fn without_budget(words: &[String]) -> Vec<&str> {
    let at = words.iter().position(|word| word == "--budget").unwrap();
    words[..at].iter().chain(&words[at + 2..]).map(String::as_str).collect()
}

/// The tokens of a run, from its timing.
pub(crate) fn tokens(timing: &Value) -> u64 {
    ["prompt_tokens", "completion_tokens"].map(|kind| timing["spent"][kind].as_u64().unwrap()).iter().sum()
}

#[test]
fn a_budget_in_tokens_or_money_becomes_episodes() {
    let Some(bench) = Bench::new("a_budget_in_tokens") else { return };
    let words = house(&bench, 3, 300, "rules");
    let words = without_budget(&words);
    fn joined<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        [words, more].concat()
    }
    let unknown = ["what an episode of env-shop costs is unknown", "clawhost run"];
    bench.refused(&joined(&words, &["--budget-tokens", "200000"]), &unknown);

    let shop = format!("{}?house=3", bench.guest("env_shop"));
    let play = |episodes: &str| bench.json(&["run", &shop, "--episodes", episodes, "--seed", "1"]);
    play("7");
    bench.refused(&joined(&words, &["--budget-tokens", "200000"]), &unknown);
    let played = play("16");
    let tokens = tokens(&played["timing"]);
    let each = tokens as f64 / 16.0;

    // The amount pays for a hundred episodes, and not for one more.
    let enough = (each * 100.5).to_string();
    let amount = enough.split('.').next().unwrap();
    let plan = bench.json(&joined(&words, &["--budget-tokens", amount, "--dry-run"]));
    assert_eq!((&plan["budget"]["budget"], &plan["budget"]["pairs"]), (&100.into(), &16.into()), "{plan}");
    assert_eq!(plan["allowance"]["rate"]["episodes"], 16);
    let told = bench.out(&joined(&words, &["--budget-tokens", amount, "--dry-run"]));
    assert!(
        told.contains("tokens: an episode cost")
            && told.contains("an estimate for ")
            && told.contains("in the 16 episodes of run-"),
        "{told}"
    );
    let money = (each * 100.5 / 1e6).to_string();
    let plan = bench.json(&joined(&words, &["--budget-money", &money, "--price", "1,1", "--dry-run"]));
    assert_eq!(plan["budget"]["budget"], 100, "{plan}");
    let little = ["it pays for", "the smallest budget is 48"];
    bench.refused(&joined(&words, &["--budget-tokens", "2000", "--dry-run"]), &little);
    bench.refused(
        &joined(&words, &["--budget-tokens", amount, "--budget", "300"]),
        &["--budget-tokens", "cannot stand beside"],
    );

    // A run that is resumed keeps its episodes, although the newest run says something else by then.
    let limited = ["--budget-tokens", amount, "--max-tokens-total", &(tokens * 3).to_string()].map(str::to_owned);
    let limited: Vec<&str> = limited.iter().map(String::as_str).collect();
    let stopped = bench.run(&joined(&words, &limited));
    assert_eq!(stopped.status.code(), Some(6), "{stopped:?}");
    let longer = "be brief ".repeat(40);
    bench.json(&["run", &shop, "--episodes", "8", "--system-prompt", &longer, "--seed", "2"]);
    let document = bench.json(&joined(&words, &["--budget-tokens", amount, "--resume"]));
    assert_eq!(document["learn"]["budget"]["budget"], 100, "{}", document["learn"]["budget"]);
    assert!(sum(&document, &["train", "gate"]) <= 100, "{}", document["episodes"]);
}

#[test]
fn training_ends_early_where_lessons_make_episodes_dearer_than_the_estimate() {
    let Some(bench) = Bench::new("training_ends_early") else { return };
    let words = house(&bench, 3, 300, "rules");
    let words = without_budget(&words);
    let shop = format!("{}?house=3", bench.guest("env_shop"));
    let played = bench.json(&["run", &shop, "--episodes", "64", "--seed", "1"]);
    let tokens = tokens(&played["timing"]);
    // A little more than 300 episodes without lessons use.
    let amount = tokens * 301 / 64;
    let given = ["--budget-tokens", &amount.to_string()];
    let other = bench.warm();
    other.json(&["run", &shop, "--episodes", "64", "--seed", "1"]);
    let document = bench.json(&[&words[..], &given].concat());
    let learn = &document["learn"];
    let (batches, batch) = (learn["budget"]["batches"].as_u64().unwrap(), learn["budget"]["batch"].as_u64().unwrap());
    let trained = document["episodes"]["train"].as_u64().unwrap();
    assert!(trained < batches * batch && trained.is_multiple_of(batch), "{trained} of {batches} batches of {batch}");
    let used = learn["spent"].as_f64().unwrap();
    assert!((0.6..1.3).contains(&(used / amount as f64)), "{used} of {amount}");
    assert_eq!(learn["iterations"].as_array().unwrap().last().unwrap()["gate"]["decision"], "promote", "{learn}");
    assert!(document["heldout_after"]["mean"].as_f64() > document["heldout_before"]["mean"].as_f64(), "{document}");
    // An interrupted run ends its training at the same place, and a complete one is found.
    let limit = (used as u64 / 2).to_string();
    let stopped = other.run(&[&words[..], &given, &["--max-tokens-total", &limit]].concat());
    assert_eq!(stopped.status.code(), Some(6), "{}", stderr(&stopped));
    let resumed = other.json(&[&words[..], &given, &["--resume"]].concat());
    assert_eq!(resumed["learn"], *learn);
    other.refused(&[&words[..], &given, &["--resume"]].concat(), &["nothing to resume"]);
    // The next estimate is from the run with lessons.
    let plan = bench.json(&[&words[..], &given, &["--dry-run"]].concat());
    assert_eq!(plan["allowance"]["rate"]["run"], document["timing"]["run"], "{plan}");
}

#[test]
fn lessons_that_passed_together_are_shown_as_provisional_and_the_run_is_equal_everywhere() {
    let Some(bench) = Bench::new("lessons_that_passed_together") else { return };
    let words = house(&bench, 502, 100, "rules");
    let learned = document(&bench, &words, &[]);
    let statuses: Vec<&str> =
        learned["learn"]["entries"].as_array().unwrap().iter().filter_map(|row| row["status"].as_str()).collect();
    assert!(statuses.contains(&"provisional"), "{statuses:?}");
    let shown = bench.out(&["playbook", "show", "house502rules"]);
    assert!(shown.contains("provisional"), "{shown}");
    let elsewhere = bench.fresh();
    assert_eq!(document(&elsewhere, &words, &["--concurrency", "3"]), learned);
}
