//! Evolution of a section of the prompt, end to end.

use super::*;
use rusqlite::Connection;

const BUDGET: u64 = 300;

/// Episodes of candidates, without those of the gate afterwards.
const PLAYED: &str = "FROM episode_rows WHERE run GLOB '*.evolve-[0-9]*'";

impl Bench {
    /// A run that does little beside an evolution.
    fn evolution(&self, budget: u64) -> Vec<String> {
        let (shop, state) = (format!("{}?house=7", self.guest("env_shop")), self.guest("reward_state"));
        let rules = format!("{}?write=section", self.guest("reflector_rules"));
        let budget = budget.to_string();
        let words = ["learn", &shop, "--reward", &state, "--layer", "harness", "--evolve", &budget, "--quiet"];
        let short = ["--iterations", "1", "--episodes", "4", "--gate-pairs", "64", "--test-pairs", "4", "--seed", "1"];
        let reflector = ["--evolve-reflector", &rules];
        words.iter().chain(&short).chain(&reflector).map(|word| (*word).to_owned()).collect()
    }

    fn evolved(&self, arguments: &[String]) -> Value {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.json(&arguments)["learn"].clone()
    }

    fn number(&self, sql: &str) -> u64 {
        let path = self.data.path().join("clawhost.sqlite");
        let count = |connection: Connection| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        // A process that was killed early has no tables.
        Connection::open(path).and_then(count).map_or(0, |number| number as u64)
    }
}

fn means(evolution: &Value) -> Vec<f64> {
    evolution["curve"].as_array().unwrap().iter().map(|point| point["mean"].as_f64().unwrap()).collect()
}

#[test]
fn a_section_evolves_within_its_budget_and_only_on_training_tasks() {
    let Some(bench) = Bench::new("a_section_evolves_within_its_budget") else { return };
    let learned = bench.evolved(&bench.evolution(BUDGET));
    let evolution = &learned["evolution"];
    let means = means(evolution);
    assert!(means.first().unwrap() + 0.2 < *means.last().unwrap(), "{means:?}");
    let evaluations = evolution["evaluations"].as_u64().unwrap();
    assert!(evaluations <= BUDGET && evaluations > BUDGET / 2, "{evaluations}");
    assert_eq!(bench.number(&format!("SELECT count(*) {PLAYED}")), evaluations, "one episode each");
    let others = format!("SELECT count(*) {PLAYED} AND split <> 'train'");
    assert_eq!(bench.number(&others), 0, "val and test teach nothing");
    let judged = "SELECT count(*) FROM episode_rows WHERE run GLOB '*.evolve-gate-*' AND split = 'val'";
    assert_eq!(bench.number(judged), 2 * evolution["gate"]["evidence"]["pairs"].as_u64().unwrap());
    let rules = evolution["best"]["rules"].as_str().unwrap();
    assert!(rules.lines().count() >= 2 && rules.lines().all(|line| line.starts_with("when ")), "{rules}");
    assert_eq!(evolution["gate"]["decision"], "promote");
    let shown = stdout(&bench.run(&["playbook", "show", "--version", "1"]));
    assert!(shown.contains(rules.lines().next().unwrap()), "{shown}");
    let replayed = bench.run(&["replay", "--quiet"]);
    assert!(replayed.status.success(), "{}", stdout(&replayed));
}

#[test]
fn the_rewriting_reflector_defaults_to_the_first_one_also_in_run_files() {
    let Some(bench) = Bench::new("who_rewrites_follows") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let plain = ["learn", &shop, "--reward", &state, "--layer", "harness", "--dry-run"];
    let plan = |more: &[&str]| bench.json(&[&plain[..], more].concat());
    let by_default = plan(&["--reflector", &rules, "--evolve", "1000"]);
    let evolve = |plan: &Value| plan["config"]["work"]["layers"][0]["evolve"].clone();
    let told = |plan: &Value| ["budget", "minibatch", "section"].map(|key| evolve(plan)[key].clone());
    assert_eq!(told(&by_default), [Value::from(1000), 3.into(), "rules".into()], "{by_default}");
    assert_eq!(by_default["at_most"]["evolution_episodes"], 1000);
    let other =
        plan(&["--reflector", &rules, "--evolve", "1000", "--evolve-section", "tone", "--evolve-minibatch", "5"]);
    assert_eq!(told(&other), [Value::from(1000), 5.into(), "tone".into()], "{other}");
    let none = plan(&["--reflector", &rules]);
    assert_eq!((evolve(&none), &none["at_most"]["evolution_episodes"]), (Value::Null, &0.into()));

    let named = format!("{rules}?write=section");
    let spelled = plan(&["--reflector", &rules, "--evolve", "1000", "--evolve-reflector", &named]);
    assert_eq!(spelled["digest"], by_default["digest"], "the same run");
    let file = bench.data.path().join("run.toml");
    let text = format!(
        "version = 1\nplugin = {shop:?}\nrewards = [{state:?}]\n[[learn]]\nlayer = \"harness\"\nreflectors = [{rules:?}]\n\
         evolve = 1000\nevolve_section = \"tone\"\nevolve_minibatch = 5\n"
    );
    std::fs::write(&file, text).unwrap();
    let written = bench.json(&["learn", file.to_str().unwrap(), "--dry-run", "--trust-run-file"]);
    assert_eq!(written["digest"], other["digest"], "{written}");
    let text = stdout(&bench.run(&["learn", file.to_str().unwrap(), "--dry-run", "--trust-run-file"]));
    assert!(text.contains("evolution   of section tone: 1,000 episodes at most"), "{text}");
}

#[test]
fn an_evolution_is_summarised_in_two_lines() {
    let Some(bench) = Bench::new("what_came_of_it_is_said") else { return };
    let arguments = bench.evolution(150);
    let output = bench.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let text = stdout(&output);
    assert!(text.contains("evolution   "), "{text}{}", stderr(&output));
    assert!(text.contains(" evaluations (") && text.contains(" on the tasks that chose it; "), "{text}");
}

#[test]
fn an_impossible_evolution_is_refused_and_leaves_no_run() {
    let Some(bench) = Bench::new("an_evolution_that_could_not_begin") else { return };
    let (shop, state, rules) = (bench.guest("env_shop"), bench.guest("reward_state"), bench.guest("reflector_rules"));
    let refused = |more: &[&str], says: &str| {
        let output = bench.run(&[&["learn", &shop, "--reward", &state, "--quiet"][..], more].concat());
        assert!(!output.status.success(), "{more:?}");
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
        assert_eq!(bench.number("SELECT count(*) FROM runs"), 0, "{more:?}");
    };
    refused(&["--layer", "harness", "--reflector", &rules, "--evolve", "8"], "is too small for one child");
    refused(
        &["--layer", "harness", "--reflector", &rules, "--evolve", "105"],
        "50, a child up to 56; give 106 or more",
    );
    refused(&["--layer", "harness", "--evolve", "100"], "--reflector: missing; name a reflector");
    refused(&["--reflector", &rules, "--evolve", "100"], "--layer: names no layer; known: harness, weights, router");
    let rewriting = ["--layer", "harness", "--reflector", &rules, "--evolve-reflector", &rules];
    refused(&rewriting, "--evolve-reflector: needs --evolve; without it nothing evolves");
    let many = ["--layer", "harness", "--reflector", &rules, "--evolve", "many"];
    refused(&many, "--evolve: found the text \"many\"; expected a whole number from 0 to 1000000");
}
