//! `clawhost sweep`: many variants of one run within a budget of episodes.

use super::*;

impl Bench {
    /// Writes a file of a sweep, beside its plugins. Returns its path.
    fn sweep_file(&self, text: &str) -> String {
        let folder = self.data.path().join("sweeps");
        std::fs::create_dir_all(&folder).unwrap();
        for guest in ["env_math", "reward_exact", "env_shop", "reward_state", "reflector_rules"] {
            std::fs::copy(self.guest(guest), folder.join(format!("{guest}.wasm"))).unwrap();
        }
        let file = folder.join("sweep.toml");
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }
}

/// Two policies, each with two numbers of turns.
const GRID: &str = "version = 1\nbudget = 80\n[run]\nplugin = \"env_math.wasm\"\nrewards = [\"reward_exact.wasm\"]\nepisodes = 20\nseed = 3\n\
    [vary]\npolicy = [\"random\", \"follower\"]\nmax_turns = [4, 8]\n";

fn swept(document: &Value) -> Vec<(String, bool)> {
    let runs = document["sweep"]["runs"].as_array().unwrap().iter();
    runs.map(|run| (run["run"].as_str().unwrap().to_owned(), run["found"].as_bool().unwrap())).collect()
}

#[test]
fn a_grid_plays_every_combination_once_and_compares_them() {
    let Some(bench) = Bench::new("a_grid_plays_every_combination") else { return };
    let file = bench.sweep_file(GRID);
    let plan = &bench.json(&["sweep", &file, "--dry-run"])["plan"];
    assert_eq!(
        (&plan["episodes"], &plan["budget"], plan["points"].as_array().unwrap().len()),
        (&80.into(), &80.into(), 4)
    );
    assert_eq!(plan["points"][1], serde_json::json!([["policy", "\"random\""], ["max_turns", "8"]]));
    let told = bench.out(&["sweep", &file, "--dry-run"]);
    assert!(
        told.contains("run         policy = \"follower\", max_turns = 8") && told.contains("nothing was played"),
        "{told}"
    );
    assert_eq!(bench.runs(), 0);

    let document = bench.json(&["sweep", &file]);
    let runs = swept(&document);
    assert!(runs.len() == 4 && runs.iter().all(|(_, found)| !found), "{runs:?}");
    assert_eq!(bench.runs(), 4);
    // The best is first, and what differs from it is what `compare` says.
    let named: Vec<&str> =
        document["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(
        named,
        [&runs[2].0, &runs[3].0, &runs[0].0, &runs[1].0],
        "followers are better, and equal ones keep their order"
    );
    let compared = bench.json(&[&["compare"], &named[..]].concat());
    assert_eq!((&document["runs"], &document["differences"]), (&compared["runs"], &compared["differences"]));
    assert_eq!(document["sweep"]["runs"][2]["values"][0], serde_json::json!(["policy", "\"follower\""]));

    // The same sweep finds all its runs. A changed one plays what is new.
    let again = bench.json(&["sweep", &file]);
    assert_eq!(swept(&again), runs.iter().map(|(run, _)| (run.clone(), true)).collect::<Vec<_>>());
    let more = bench.sweep_file(&GRID.replace("[4, 8]", "[8, 9]").replace("budget = 80", "budget = 90"));
    let found: Vec<bool> = swept(&bench.json(&["sweep", &more])).into_iter().map(|(_, found)| found).collect();
    assert_eq!(found, [true, false, true, false]);
    let text = bench.out(&["sweep", &more]);
    for part in ["finished before", "differences from", "best        run-", "confirm it with another seed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_sweep_that_costs_more_than_its_budget_plays_nothing() {
    let Some(bench) = Bench::new("a_sweep_that_costs_more") else { return };
    let refused = |text: &str, says: &[&str]| bench.refused(&["sweep", &bench.sweep_file(text)], says);
    refused(&GRID.replace("budget = 80", "budget = 79"), &["may play 80 episodes together, and the budget is 79"]);
    refused(&GRID.replace("[4, 8]", "[4, 0]"), &["sweep.toml, line 10: max_turns: found 0"]);
    refused(
        &GRID.replace("\"env_math.wasm\"", "\"../env_math.wasm\""),
        &["line 4: plugin: ", "lies outside", "--trust-run-file"],
    );
    refused("version = 1\n", &["3 problems:", "budget: missing", "[run]: missing", "[vary]: missing"]);
    assert_eq!(bench.runs(), 0);
}

#[test]
fn halving_gives_twice_the_episodes_to_the_better_half() {
    let Some(bench) = Bench::new("halving_gives_twice") else { return };
    let text =
        GRID.replace("budget = 80", "budget = 80\nmethod = \"halving\"").replace("episodes = 20", "episodes = 40");
    let file = bench.sweep_file(&text.replace("budget = 80", "budget = 120"));
    let plan = bench.json(&["sweep", &file, "--dry-run"])["plan"].clone();
    let rounds: Vec<(u64, u64)> = plan["rounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|round| (round["runs"].as_u64().unwrap(), round["episodes"].as_u64().unwrap()))
        .collect();
    assert_eq!(rounds, [(4, 40), (2, 40), (1, 40)]);
    let document = bench.json(&["sweep", &file]);
    let runs = document["sweep"]["runs"].as_array().unwrap();
    let shown: Vec<(u64, &str)> =
        runs.iter().map(|run| (run["round"].as_u64().unwrap(), run["values"][0][1].as_str().unwrap())).collect();
    let (random, follower) = ("\"random\"", "\"follower\"");
    assert_eq!(
        shown,
        [(1, random), (1, random), (1, follower), (1, follower), (2, follower), (2, follower), (3, follower)]
    );
    let planned = |run: &Value| bench.json(&["runs", "show", run["run"].as_str().unwrap()])["run"]["planned"].clone();
    assert_eq!([planned(&runs[0]), planned(&runs[4]), planned(&runs[6])], [10, 20, 40].map(Value::from));
    // The last round has one run, so the round before is compared.
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn learning_runs_of_a_sweep_learn_playbooks_of_their_own_and_are_found_again() {
    let Some(bench) = Bench::new("learning_runs_of_a_sweep") else { return };
    let file = bench.sweep_file(
        "version = 1\ncommand = \"learn\"\nbudget = 320\n[run]\nplugin = \"env_shop.wasm?house=502\"\n\
        rewards = [\"reward_state.wasm\"]\nseed = 502\ntest_pairs = 30\n[[run.learn]]\nlayer = \"harness\"\n\
        reflectors = [\"reflector_rules.wasm?mode=rules\"]\nbudget = 100\n[vary]\nseed = [502, 503]\n",
    );
    let document = bench.json(&["sweep", &file]);
    let playbooks = bench.json(&["playbook", "list"]);
    assert_eq!(playbooks.to_string().matches("sweep-").count(), 2, "{playbooks}");
    let runs = document["runs"].as_array().unwrap();
    assert!(runs.len() == 2 && runs.iter().all(|run| run["lift"]["mean"].is_f64()), "{document}");
    assert!(document["sweep"]["runs"][0]["score"].is_f64());
    let again = bench.json(&["sweep", &file]);
    assert!(swept(&again).iter().all(|(_, found)| *found), "what it learned changes no identity: {again}");
    assert_eq!(again["runs"], document["runs"]);
}

#[test]
fn a_sweep_takes_no_budget_in_tokens() {
    let Some(bench) = Bench::new("a_sweep_takes_no_budget_in_tokens") else { return };
    let file = bench.sweep_file(
        "version = 1\ncommand = \"learn\"\nbudget = 320\nmethod = \"halving\"\n[run]\nplugin = \"env_shop.wasm?house=502\"\n\
        rewards = [\"reward_state.wasm\"]\n[[run.learn]]\nlayer = \"harness\"\nreflectors = [\"reflector_rules.wasm\"]\n\
        budget_tokens = 100000\n[vary]\nseed = [502, 503]\n",
    );
    bench.refused(&["sweep", &file], &["a sweep counts episodes", "budget"]);
}

#[test]
fn the_example_of_the_help_is_a_sweep_and_a_budget_that_is_halved_too_often_is_told_so() {
    let Some(bench) = Bench::new("the_example_of_the_help") else { return };
    let help = bench.out(&["sweep", "--help"]);
    let example: Vec<&str> =
        help.lines().skip_while(|line| line.trim() != "version = 1").take_while(|line| !line.is_empty()).collect();
    assert!(example.len() > 10, "{help}");
    let example = example.join("\n");
    let file = bench.sweep_file(&example);
    bench.out(&["sweep", &file, "--dry-run"]);
    let file = bench.sweep_file(&example.replace("budget = 300", "budget = 100"));
    let says = "round 1 of the halving divides the budget of 100 episodes by 4; the smallest budget is 48";
    bench.refused(&["sweep", &file, "--dry-run"], &[says]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_loses_nothing_and_continues() {
    let Some(bench) = Bench::new("an_interrupted_sweep") else { return };
    let gate = std::sync::Arc::new(gate::Gate::new(20));
    let held = gate.clone();
    let stub = stub::Stub::start(move |number, _| {
        held.pass(number);
        stub::chat("50")
    });
    let text = format!(
        "version = 1\nbudget = 800\n[run]\nplugin = \"env_math.wasm\"\nrewards = [\"reward_exact.wasm\"]\n\
        policy = \"openai:stub@{}\"\nepisodes = 400\nconcurrency = 4\n[vary]\nseed = [1, 2]\n",
        stub.base_url()
    );
    let file = bench.sweep_file(&text);
    let child =
        bench.command(&["sweep", &file, "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    gate.reached();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&document["sweep"]["interrupted"], document["sweep"]["runs"].as_array().unwrap().len()),
        (&true.into(), 1)
    );
    let first = document["sweep"]["runs"][0]["run"].clone();
    assert_eq!(document["sweep"]["runs"][0]["stopped"], "cancelled");
    gate.open();
    let continued = bench.json(&["sweep", &file]);
    assert_eq!(
        (continued["sweep"]["runs"][0]["run"].clone(), bench.runs()),
        (first, 2),
        "it was resumed, and no other began"
    );
    assert!(
        continued["runs"]
            .as_array()
            .unwrap()
            .iter()
            .all(|run| run["episodes"]["episodes"] == 400 && run["state"] == "finished")
    );
}
