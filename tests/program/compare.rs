//! `clawhost compare`: runs side by side, differences with intervals, costs and curves.

use super::*;

impl Bench {
    /// Compares runs, as JSON.
    fn compared(&self, runs: &[&str]) -> Value {
        self.json(&[&["compare"], runs].concat())
    }
}

impl Bench {
    /// Checks that the newest run is compared by the numbers of its own evaluation.
    pub(crate) fn is_compared_as_reported(&self, evaluation: &Value) {
        let run = &self.compared(&["last", "last"])["runs"][0];
        for (found, recorded) in [("before", "before"), ("reward", "after"), ("lift", "lift")] {
            let recorded = &evaluation[recorded];
            assert!(
                (number(&run[found]["mean"]) - number(&recorded["mean"])).abs() < 1e-12,
                "{found}: {run} {recorded}"
            );
            assert!((number(&run[found]["interval"][0]) - number(&recorded["low"])).abs() < 1e-12, "{run} {recorded}");
            assert!((number(&run[found]["interval"][1]) - number(&recorded["high"])).abs() < 1e-12, "{run} {recorded}");
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Mean reward of each task and seed of a run, from its exported episodes.
fn rewards(bench: &Bench, run: &str) -> std::collections::BTreeMap<(String, u64), f64> {
    let exported = bench.out(&["episodes", "export", "--run", run]);
    let episodes = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut groups = std::collections::BTreeMap::<_, Vec<f64>>::new();
    for episode in episodes {
        let (task, seed) = (episode["task"]["id"].as_str().unwrap(), episode["seed"].as_u64().unwrap());
        groups.entry((task.to_owned(), seed)).or_default().push(number(&episode["reward"]));
    }
    groups.into_iter().map(|(cell, all)| (cell, all.iter().sum::<f64>() / all.len() as f64)).collect()
}

#[test]
fn runs_with_equal_tasks_and_seeds_are_compared_pair_by_pair() {
    let Some(bench) = Bench::new("runs_with_equal_tasks_and_seeds") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let play =
        |more: &[&str]| bench.play(&[&[&math, "--reward", &exact, "--seed", "3", "--tasks", "test"], more].concat());
    let follower = play(&["--episodes", "40"]);
    // Two episodes of each task are averaged first.
    let random = play(&["--policy", "random", "--episodes", "80", "--group", "2"]);
    let document = bench.compared(&[&random, &follower]);
    assert_eq!(document["format"], 1);
    let (first, second) = (rewards(&bench, &random), rewards(&bench, &follower));
    let differences: Vec<f64> = second.iter().map(|(cell, reward)| reward - first[cell]).collect();
    let (count, mean) = (differences.len(), differences.iter().sum::<f64>() / differences.len() as f64);
    let found = &document["differences"][0];
    assert_eq!((&found["from"], &found["run"]), (&random.as_str().into(), &follower.as_str().into()));
    let reward = &found["reward"];
    assert_eq!((&reward["design"], &reward["pairs"]), (&"paired".into(), &count.into()), "{found}");
    assert!((number(&reward["mean"]) - mean).abs() < 1e-12 && mean > 0.2, "{reward} {mean}");
    let (low, high) = (number(&reward["interval"]["low"]), number(&reward["interval"]["high"]));
    assert!(0.0 < low && low < mean && mean < high, "{reward}");
    let told = bench.out(&["compare", &random, &follower]);
    for part in ["env-math 0.1.0", "random", "follower", "higher", "paired: 40 pairs of equal task and seed", "Student"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The table has the numbers that the run itself reported.
    let shown = bench.json(&["runs", "show", &follower]);
    assert_eq!(document["runs"][1]["reward"], shown["run"]["reward"]);
    let other = bench.compared(&[&follower, &random]);
    assert!((number(&other["differences"][0]["reward"]["mean"]) + mean).abs() < 1e-12);
}

#[test]
fn other_seeds_are_compared_without_pairs_and_other_rewards_or_environments_not_at_all() {
    let Some(bench) = Bench::new("other_seeds_are_compared") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let play = |plugin: &str, reward: &str, seed: &str| {
        bench.play(&[plugin, "--reward", reward, "--episodes", "20", "--seed", seed])
    };
    let base = play(&math, &exact, "1");
    let check = |other: &str, unlike: &str, told: &str| {
        let found = &bench.compared(&[&base, other])["differences"][0];
        assert_eq!(found["unlike"], unlike, "{found}");
        assert_eq!(found["reward"]["design"], "unpaired");
        assert!(number(&found["reward"]["interval"]["low"]) < number(&found["reward"]["mean"]));
        let text = bench.out(&["compare", &base, other]);
        assert!(text.contains(told) && text.contains("Welch's t"), "{told}: {text}");
    };
    check(&play(&math, &exact, "2"), "seed", "unpaired, because they have other seeds");
    check(&play(&format!("{math}?kind=words"), &exact, "1"), "options", "the environment has other options");
    let refused = |other: &str, why: &str, told: &str| {
        let found = &bench.compared(&[&base, other])["differences"][0];
        assert_eq!((&found["result"], &found["obstacles"][0]["why"]), (&"not_comparable".into(), &why.into()));
        let text = bench.out(&["compare", &base, other]);
        assert!(text.contains("not comparable: ") && text.contains(told), "{told}: {text}");
    };
    refused(&play(&math, &format!("{exact}#weight=2"), "1"), "rewards", "weight 2");
    refused(&play(&math, &format!("{exact}?tolerance=1"), "1"), "rewards", "?tolerance=1");
    refused(&play(&bench.guest("env_guess"), &exact, "1"), "environment", "env-math 0.1.0 (");
    let unscored = bench.play(&[&math, "--episodes", "2", "--seed", "1"]);
    let found = bench.compared(&[&base, &unscored]);
    let why: Vec<&Value> =
        found["differences"][0]["obstacles"].as_array().unwrap().iter().map(|one| &one["why"]).collect();
    assert_eq!(why, ["rewards", "unscored"]);
    assert_eq!(found["runs"][1]["reward"], Value::Null);
}

#[test]
fn learning_runs_are_compared_by_their_test_and_cost_per_point_of_lift() {
    let Some(bench) = Bench::new("learning_runs_are_compared") else { return };
    let shop = format!("{}?house=502", bench.guest("env_shop"));
    let reward = bench.guest("reward_state");
    let learn = |mode: &str| {
        let reflector = format!("{}?mode={mode}", bench.guest("reflector_rules"));
        let words = ["learn", &shop, "--reward", &reward, "--reflector", &reflector, "--layer", "harness", "-q"];
        let numbers = ["--budget", "100", "--seed", "502", "--test-pairs", "60", "--playbook", mode, "--name", mode];
        bench.json(&[&words[..], &numbers, &["--price", "1,2"]].concat())
    };
    let (silent, rules) = (learn("silent"), learn("rules"));
    let document = bench.compared(&["silent", "rules"]);
    bench.is_compared_as_reported(&rules["learn"]["evaluation"]);
    for (run, learned) in document["runs"].as_array().unwrap().iter().zip([&silent, &rules]) {
        let played = &learned["episodes"];
        assert_eq!(run["cost"]["test"]["episodes"], played["test"], "{}", run["cost"]);
        let taught = played["train"].as_u64().unwrap() + played["gate"].as_u64().unwrap();
        assert_eq!(run["cost"]["spent"]["episodes"], taught, "{}", run["cost"]);
    }
    let (none, gained) = (&document["runs"][0], &document["runs"][1]);
    assert_eq!(none["cost"]["per_point"], Value::Null, "no lift, no price of it");
    let point = &gained["cost"]["per_point"];
    let lift = number(&gained["lift"]["mean"]);
    assert_eq!(point["of"], "lift");
    assert!((number(&point["episodes"]["value"]) * lift - number(&gained["cost"]["spent"]["episodes"])).abs() < 1e-6);
    assert!((number(&point["money"]["value"]) * lift - number(&gained["cost"]["spent"]["money"])).abs() < 1e-6);
    assert!(number(&gained["cost"]["spent"]["money"]) > 0.0 && number(&gained["cost"]["test"]["money"]) > 0.0);

    let found = &document["differences"][0];
    assert_eq!((&found["reward"]["design"], &found["reward"]["pairs"]), (&"paired".into(), &60.into()), "{found}");
    // Both begin with the same policy on the same tasks, so both differences are the same.
    assert!((number(&found["lift"]["mean"]) - number(&found["reward"]["mean"])).abs() < 1e-12, "{found}");
    assert!((number(&found["lift"]["mean"]) - lift).abs() < 1e-12, "silence lifts nothing: {found}");
    let text = bench.out(&["compare", "silent", "rules"]);
    for part in ["before", "lift", "learns harness", "60 pairs of equal task and seed", "higher", " of lift ("] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // An evaluation of the learned playbook is compared by its side with the playbook.
    let evaluate = ["eval", &shop, "--reward", &reward, "--playbook", "rules", "--pairs", "60", "--seed", "502"];
    bench.is_compared_as_reported(&bench.json(&evaluate)["evaluation"]);
    assert_eq!(bench.compared(&["rules", "last"])["runs"][1]["kind"], "evaluate");
}

#[test]
fn curves_are_drawn_under_the_names_of_their_runs() {
    let Some(bench) = Bench::new("curves_are_drawn") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let first = bench.play(&[&math, "--reward", &exact, "--episodes", "30", "--name", "a.first"]);
    let second = bench.play(&[&math, "--reward", &exact, "--episodes", "30", "--policy", "random"]);
    let file = bench.data.path().join("curves.svg");
    let path = file.display().to_string();
    let text = bench.out(&["compare", "a.first", &second, "--svg", &path]);
    assert!(text.contains("the curves are in "), "{text}");
    let drawing = std::fs::read_to_string(&file).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>"));
    for part in ["a.first", &second, "mean reward", "episodes"] {
        assert!(drawing.contains(part), "{part}");
    }
    assert!(!drawing.contains(&first), "a run is called by its name");
    let curve = bench.compared(&["a.first", &second])["runs"][0]["curve"].clone();
    assert_eq!(curve.as_array().unwrap().last().unwrap()[0], 30.0);
    bench.refused(&["compare", "a.first", &second, "--svg", "curve.png"], &["curve.png", "is not the name of an SVG"]);
}

#[test]
fn runs_are_named_as_everywhere_and_agents_have_no_tasks() {
    let Some(bench) = Bench::new("runs_are_named_as_everywhere") else { return };
    let (math, exact) = (bench.guest("env_math"), bench.guest("reward_exact"));
    let play = |seed: &str| bench.play(&[&math, "--reward", &exact, "--episodes", "4", "--seed", seed]);
    let first = play("1");
    bench.out(&["runs", "rename", &first, "base"]);
    let second = play("2");
    let runs = |names: &[&str]| {
        let document = bench.compared(names);
        let runs = document["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned());
        runs.collect::<Vec<_>>()
    };
    assert_eq!(runs(&["base", "last", &second[..second.len() - 1]]), [first.clone(), second.clone(), second.clone()]);
    bench.refused(&["compare", "base"], &["RUN"]);
    bench.refused(&["compare", "base", "nothing"], &["no run `nothing` here"]);
    // `last` is the newest run in every command, unless a run is called so.
    assert_eq!(bench.json(&["runs", "show", "last"])["run"]["id"], second.as_str());
    bench.out(&["runs", "rename", &first, "last"]);
    assert_eq!(bench.json(&["runs", "show", "last"])["run"]["id"], first.as_str());
    let agents = bench.fresh();
    live::with_live_episodes(&agents);
    agents.refused(&["compare", "last", "last"], &["run-live was captured from agents, so it has no tasks to compare"]);
}
