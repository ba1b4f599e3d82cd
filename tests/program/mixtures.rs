//! Several environments in one run, on real components.

use super::*;

/// Two games: one with a review, one whose signal is the reward.
struct Mixed {
    shop: String,
    clean: String,
    shop_reward: String,
    clean_reward: String,
}

impl Mixed {
    fn new(bench: &Bench) -> Self {
        Self {
            shop: format!("{}?house=3", bench.guest("env_shop")),
            clean: format!("{}?house=4#weight=2&name=clean", bench.guest("env_clean")),
            shop_reward: format!("{}#for=env-shop", bench.guest("reward_state")),
            clean_reward: format!("{}?name=share#for=clean", bench.guest("reward_signal")),
        }
    }

    fn words<'a>(&'a self, verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let words = [verb, &self.shop, "--mix", &self.clean, "--reward", &self.shop_reward];
        [&words[..], &["--reward", &self.clean_reward], more].concat()
    }
}

fn parts(document: &Value) -> Vec<(String, u64)> {
    let part = |part: &Value| (part["part"].as_str().unwrap().to_owned(), part["episodes"].as_u64().unwrap());
    document["parts"].as_array().unwrap().iter().map(part).collect()
}

#[test]
fn parts_share_a_run_by_weight_and_it_replays_and_resumes() {
    let Some(bench) = Bench::new("parts_share_a_run_by_weight") else { return };
    let mixed = Mixed::new(&bench);
    let words = mixed.words("run", &["--episodes", "90", "--seed", "5"]);
    let whole = bench.json(&words);
    assert_eq!(parts(&whole), [("clean".to_owned(), 60), ("env-shop".to_owned(), 30)]);
    assert_eq!((&whole["by_reward"][0]["scored"], &whole["by_reward"][1]["scored"]), (&30.into(), &60.into()));
    assert_eq!(whole["mixture"][1]["options"], serde_json::json!([["house", "4"]]));
    assert!(whole["episodes"][0]["task"].as_str().unwrap().starts_with("clean/"), "{}", whole["episodes"][0]);
    bench.out(&["replay", "--run", "last"]);

    let listed = bench.out(&["episodes", "list", "--limit", "3"]);
    assert!(listed.contains("clean/") && listed.contains("env-clean"), "{listed}");
    let told = bench.out(&["runs", "show", "last"]);
    assert!(told.contains("env-shop") && told.contains(" as clean, 67 %"), "{told}");

    // Another data folder, so that nothing is known: interrupted by a budget of tokens, and resumed.
    let other = bench.fresh();
    let stopped = other.run(&[&words[..], &["--max-tokens-total", "3000"]].concat());
    assert_eq!(stopped.status.code(), Some(6), "{}", stderr(&stopped));
    let heavier = mixed.clean.replace("weight=2", "weight=3");
    let differs: Vec<&str> = words.iter().map(|word| if *word == mixed.clean { &heavier } else { *word }).collect();
    other.refused(&[&differs[..], &["--resume"]].concat(), &["part.env-clean.weight was 2.0 and is 3.0"]);
    let resumed = other.json(&[&words[..], &["--resume"]].concat());
    assert_eq!(resumed["content_root"], whole["content_root"]);
    assert_eq!(resumed["parts"], whole["parts"]);
    other.out(&["replay", "--run", "last"]);
}

#[test]
fn one_run_learns_two_environments_and_reports_the_lift_of_each() {
    let Some(bench) = Bench::new("one_run_learns_two_environments") else { return };
    let mixed = Mixed::new(&bench);
    let clean = mixed.clean.replace("weight=2", "weight=1");
    let reflector = bench.guest("reflector_rules");
    let more = ["--reflector", &reflector, "--layer", "harness", "--budget", "600", "--seed", "5", "-q"];
    let words = mixed.words("learn", &more);
    let words: Vec<&str> =
        words.into_iter().map(|word| if word == mixed.clean { clean.as_str() } else { word }).collect();
    let plan = bench.json(&[&words[..], &["--dry-run"]].concat());
    assert_eq!((&plan["playbook"], &plan["mixture"][0]["part"]), (&"env-shop-clean".into(), &"env-shop".into()));
    let learned = bench.json(&words);
    let lifts = learned["learn"]["evaluation"]["parts"].as_array().unwrap();
    assert_eq!(lifts.iter().map(|part| part["part"].as_str().unwrap()).collect::<Vec<_>>(), ["env-shop", "clean"]);
    for part in lifts {
        assert_eq!(part["pairs"], 100);
        assert!(part["lift"]["low"].as_f64().unwrap() > 0.0, "{part}");
    }
    let first = &learned["learn"]["iterations"][0];
    assert_eq!(first["parts"].as_array().unwrap().len(), 2, "{first}");
    assert!(first["metrics"]["train.reward.clean"].is_number());
    let exported = bench.data.path().join("both.json");
    bench.out(&["playbook", "export", "env-shop-clean", &exported.display().to_string()]);
    let told = std::fs::read_to_string(&exported).unwrap();
    assert!(told.contains("part:clean") && told.contains("part:env-shop"), "entries name their part: {told}");
    let listed = bench.json(&["runs", "list", "--environment", "clean"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    bench.out(&["replay", "--run", "last"]);
}

#[test]
fn mixtures_that_cannot_be_judged_or_shared_are_refused_before_anything_is_played() {
    let Some(bench) = Bench::new("mixtures_that_cannot_be_judged") else { return };
    let mixed = Mixed::new(&bench);
    let (shop, clean) = (mixed.shop.as_str(), mixed.clean.as_str());
    let (for_shop, for_clean) = (mixed.shop_reward.as_str(), mixed.clean_reward.as_str());
    let run = ["run", shop, "--mix", clean, "--episodes", "60"];
    let check = |more: &[&str], says: &[&str]| bench.refused(&[&run[..], more].concat(), says);
    check(&["--reward", for_shop], &["no reward judges the part `clean`", "#for=clean"]);
    check(
        &["--reward", for_shop, "--reward", &for_clean.replace("for=clean", "for=clear")],
        &["judges the part `clear`", "the parts are env-shop, clean"],
    );
    check(
        &["--mix", clean, "--reward", for_shop, "--reward", for_clean],
        &["--mix", "two parts have the name `clean`"],
    );
    let rare = format!("{}#weight=0.02", bench.guest("env_math"));
    check(&["--mix", &rare], &["the part `env-math` would have 0.4 of the 60 groups, and needs 2"]);
    let other = format!("{}?size=2#name=other", bench.guest("env_clean"));
    check(&["--mix", &other], &["env-clean has no option `size`"]);
    let same = format!("{}?house=9", bench.guest("env_shop"));
    check(&["--mix", &same], &["two of its parts have the name `env-shop`"]);
    check(&["--tasks", "nothing"], &["--tasks", "env-shop+clean has no split `nothing`"]);
    bench.refused(&["run", shop, "--reward", for_shop], &["--reward", "judges the part `env-shop`", "--mix"]);
    bench.refused(&["run", &format!("{}#weight=2", bench.guest("env_shop"))], &["#weight=W&name=PART"]);
    let none = bench.json(&["runs", "list"]);
    assert_eq!(none, serde_json::json!([]), "nothing was played");

    // What is enough for a run may be too little for an iteration or for the gate.
    let (reflector, light) = (bench.guest("reflector_rules"), clean.replace("weight=2", "weight=0.02"));
    let words = ["learn", shop, "--mix", &light, "--reward", for_shop, "--reward", for_clean, "--layer", "harness"];
    let starved = "the part `clean` would have 0.6 of the 33 groups of an iteration, and needs 1";
    bench.refused(&[&words[..], &["--reflector", &reflector, "--budget", "300"]].concat(), &[starved]);

    // A reward that scores no episode of a part stops the run after its first iteration.
    let state = bench.guest("reward_state");
    let words = ["learn", shop, "--mix", clean, "--reward", &state, "--reflector", &reflector, "--layer", "harness"];
    let stopped = bench.run(&[&words[..], &["--budget", "300", "-q"]].concat());
    assert_ne!(stopped.status.code(), Some(0));
    let said = stdout(&stopped) + &stderr(&stopped);
    assert!(said.contains("no episode of the part clean: reward-state has nothing to say"), "{said}");
    assert!(said.contains("of part clean have any of it: is it a reward for this environment?"), "{said}");
}
