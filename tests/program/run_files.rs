//! `run.toml`: a file describes the same run as flags, flags override it, and every mistake is reported with its line.

use super::*;

/// A short learning run of the shop.
const SHOP: &str = "version = 1\nplugin = \"env_shop.wasm\"\nrewards = [\"reward_state.wasm\"]\nseed = 4\niterations = 3\n\
                    test_pairs = 10\n\n[[learn]]\nlayer = \"harness\"\nreflectors = [\"reflector_rules.wasm\"]\n\
                    gate_every = 3\ngate_pairs = 16\n";

impl Bench {
    /// A folder with a run file and its plugins, so that relative paths are needed.
    fn with_file(&self, text: &str) -> String {
        let folder = self.data.path().join("written");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["env_shop", "env_guess", "reward_state", "reflector_rules"] {
            std::fs::copy(self.guest(name), folder.join(format!("{name}.wasm"))).unwrap();
        }
        let file = folder.join("run.toml");
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// The same as flags.
    fn typed(&self, more: &[&str]) -> Vec<String> {
        let (shop, reward, reflector) =
            (self.guest("env_shop"), self.guest("reward_state"), self.guest("reflector_rules"));
        let words =
            ["learn", &shop, "--reward", &reward, "--layer", "harness", "--reflector", &reflector, "--seed", "4"];
        let numbers = ["--iterations", "3", "--gate-every", "3", "--gate-pairs", "16", "--test-pairs", "10", "-q"];
        words.iter().chain(&numbers).chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn learned_by(&self, words: &[String]) -> Value {
        self.outside_timing(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

#[test]
fn a_run_file_describes_the_same_run_as_flags() {
    let Some(bench) = Bench::new("a_run_that_is_written_down") else { return };
    let file = bench.with_file(SHOP);
    let written = bench.outside_timing(&["learn", &file, "-q"]);
    let elsewhere = bench.fresh();
    assert_eq!(elsewhere.learned_by(&elsewhere.typed(&[])), written, "from two empty data folders");
    // Flags override the file.
    let third = bench.fresh();
    let beside = third.outside_timing(&["learn", &file, "-q", "--iterations", "2", "--seed", "5"]);
    assert_eq!((&beside["config"]["play"]["seed"], &beside["config"]["work"]["iterations"]), (&5.into(), &2.into()));
    assert_eq!(beside["config"]["work"]["layers"], written["config"]["work"]["layers"], "other options are unchanged");
    // A file that only plays belongs to the other command.
    let plays = bench.with_file("version = 1\nplugin = \"env_guess.wasm\"\nepisodes = 3\nseed = 2\n");
    let played = bench.outside_timing(&["run", &plays]);
    assert_eq!(played, bench.outside_timing(&["run", &bench.guest("env_guess"), "--episodes", "3", "--seed", "2"]));
}

#[test]
fn a_run_file_describes_weights_too() {
    let Some(game) = weights::Game::new("weights_are_written_down", &["--iterations", "1"]) else { return };
    let without = |name: &str, words: &[String]| {
        let place = words.iter().position(|word| word == name).unwrap();
        [&words[..place], &words[place + 2..]].concat()
    };
    // The file sets 4 iterations, and an option occurs once.
    let typed = without("--iterations", &game.words);
    let file = game.bench.data.path().join("run.toml");
    let text = format!(
        "version = 1\nplugin = {:?}\nmodel = {:?}\nseed = 7\niterations = 1\nepisodes = 32\nmax_tokens = 3\ntest_pairs = 20\n\
         [[learn]]\nlayer = \"weights\"\nevaluate_every = 2\nevaluate_episodes = 20\n\
         demonstrations = [\"demonstrate=clumsy\"]\ndemonstrations_steps = 20\n",
        game.words[1], game.words[5]
    );
    std::fs::write(&file, text).unwrap();
    let written = game.bench.outside_timing(&["learn", file.to_str().unwrap(), "-q", "--trust-run-file"]);
    assert_eq!(game.bench.fresh().learned_by(&typed), written);
}

#[test]
fn every_mistake_of_a_file_is_reported_with_its_line() {
    let Some(bench) = Bench::new("every_mistake_of_a_file") else { return };
    let refused = |text: &str, says: &[&str]| {
        let file = bench.with_file(text);
        bench.refused(&["learn", &file], says);
        bench.refused(&["learn", &file, "--dry-run"], says);
    };
    let wrong = SHOP.replace("iterations", "iteratoins").replace("gate_pairs = 16", "gate_pairs = -1");
    refused(
        &wrong,
        &["run.toml, line 5: iteratoins: unknown key; did you mean `iterations`?", "line 12", "gate_pairs"],
    );
    let newer = SHOP.replace("version = 1", "version = 2").replace("seed", "seeed");
    refused(&newer, &["run.toml, line 1: version: found 2; this program reads version 1"]);
    let output = bench.run(&["learn", &bench.with_file(&newer)]);
    assert!(!stderr(&output).contains("seeed"), "keys of another version are not interpreted: {}", stderr(&output));
    refused("plugin = ", &["run.toml, line 1: not TOML"]);
    refused(&SHOP.replace("[[learn]]", "[harness]"), &["[harness]", "[[learn]]"]);
    refused(&SHOP.replace("\"harness\"", "\"tools\""), &["line 9", "tools", "harness, weights, router"]);
    refused(&SHOP.replace("rewards = [\"reward_state.wasm\"]", "group = 3"), &["line 3: group: found 3", "rewards"]);
    bench.refused(&["learn", "missing.toml"], &["missing.toml: "]);
    let file = bench.with_file(SHOP);
    let quoted = "and `clawhost run` plays alone; learn with `clawhost learn ";
    bench.refused(&["run", &file], &["names layers that learn", quoted, "run.toml"]);
    bench.refused(&["learn", &file, "--gate-pairs", "1"], &["--gate-pairs: found 1; expected a whole number from 8"]);
    assert!(!bench.data.path().join("clawhost.sqlite").exists(), "nothing was begun");
}

#[test]
fn a_sample_of_a_file_describes_a_run() {
    let Some(bench) = Bench::new("a_sample_of_a_file") else { return };
    let sample = bench.out(&["learn", "--sample"]);
    let plan = bench.json(&["learn", &bench.with_file(&sample), "--dry-run"]);
    assert_eq!(
        (&plan["config"]["play"]["seed"], &plan["at_most"]["training_episodes"]),
        (&7.into(), &198.into()),
        "{plan}"
    );
    for part in ["# adapter_rank = 16", "# evolve = 1000", "[[learn]]"] {
        assert!(sample.contains(part), "{part}: {sample}");
    }
}

#[test]
fn a_run_file_names_only_files_of_its_folder_unless_it_is_trusted() {
    let Some(bench) = Bench::new("a_run_file_names_only_files_of_its_folder") else { return };
    let secret = bench.data.path().join("secret.txt");
    std::fs::write(&secret, "a text that no model may see").unwrap();
    let stub = stub::Stub::start(|_, _| stub::chat("1"));
    let text = format!(
        "version = 1\nplugin = \"env_guess.wasm\"\nepisodes = 1\npolicy = \"openai:m@{}\"\nsystem_prompt_file = \"../secret.txt\"\n",
        stub.base_url()
    );
    let file = bench.with_file(&text);
    let why = "line 5: system_prompt_file: `";
    bench.refused(&["run", &file], &[why, "lies outside of the folder of this file", "--trust-run-file"]);
    assert!(stub.requests().is_empty(), "nothing is sent");
    bench.out(&["run", &file, "--trust-run-file", "--max-turns", "1"]);
    assert!(stub.requests()[0].body.to_string().contains("a text that no model may see"));
    // What the operator names on the command line is not the file's.
    let secret = secret.display().to_string();
    let named = bench.with_file(&text.replace("system_prompt_file = \"../secret.txt\"\n", ""));
    bench.out(&["run", &named, "--system-prompt-file", &secret, "--max-turns", "1"]);
}
