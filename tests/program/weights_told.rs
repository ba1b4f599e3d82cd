//! Warnings and messages of runs whose weights learn: settings without effect, changes since the run began, next steps.

use super::weights::Game;
use super::*;
use clawhost_model::{AdapterSettings, ModelFolder, Targets, TinyModel};

#[test]
fn prompts_that_the_template_omits_are_refused() {
    let Some(game) = Game::new("what_the_model_would_never_see", &[]) else { return };
    let bench = &game.bench;
    bench.refused(
        &game.words(&["--system-prompt", "2"]),
        &["a system prompt would have no effect: the chat template of this model"],
    );
    bench.refused(
        &game.words(&["--playbook", "p"]),
        &["a playbook would have no effect: the chat template of this model"],
    );
    let (plugin, model) = (game.words[1].as_str(), game.words[5].as_str());
    let local = format!("local:{model}");
    bench.refused(
        &["run", plugin, "--policy", &local, "--system-prompt", "2"],
        &["a system prompt would have no effect"],
    );
    bench.refused(
        &["eval", plugin, "--policy", &local, "--reward", &bench.guest("reward_exact")],
        &["a playbook would"],
    );
    // Models with a template for system prompts get it: this one fails for another reason.
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transformers/reference/qwen3");
    let words = ["run", plugin, "--model", &reference.display().to_string(), "--playbook", "nobody"];
    bench.refused(&words, &["playbook nobody has no version yet"]);
}

#[test]
fn changes_since_the_beginning_of_a_run_are_listed() {
    let Some(bench) = Bench::new("what_changed_since_a_run_was_begun") else { return };
    let folder = bench.data.path().join("tiny");
    let make = |seed| TinyModel { seed, ..TinyModel::default() }.make().unwrap().write(&folder).unwrap();
    make(1);
    // Its context has 64 tokens, and the first question is longer: the run stops at once.
    let (guess, model) = (bench.guest("env_guess"), folder.display().to_string());
    let words = ["learn", &guess, "--layer", "weights", "--model", &model, "--iterations", "2", "--test-pairs", "0"];
    let with = |more: &[&'static str]| [&words[..], more].concat();
    assert_eq!(bench.run(&with(&[])).status.code(), Some(4));
    let other = bench.data.path().join("other").display().to_string();
    bench.refused(
        &[&with(&["--resume", "--out"])[..], &[&other]].concat(),
        &["this run has no files here; name the folder with which it began", "--out names it"],
    );
    bench.refused(
        &with(&["--rate", "0.001", "--resume"]),
        &["no run of this configuration was interrupted here. run-", "--rate was 0.002 and is 0.001"],
    );
    let resumed = bench.run(&with(&["--resume", "--failure-budget", "1"]));
    assert!(stderr(&resumed).contains("is resumed"), "{}", stderr(&resumed));
    // The same weights with another chat format give other answers.
    let template = folder.join("chat_template.jinja");
    let words = std::fs::read_to_string(&template).unwrap();
    std::fs::write(&template, format!("{words}1")).unwrap();
    bench.refused(&with(&["--resume"]), &["but the model (weights or chat format) was …"]);
    let generation = folder.join("generation_config.json");
    let sampling = std::fs::read_to_string(&generation).unwrap();
    std::fs::write(&template, words).unwrap();
    // Learning uses the sampling of the command; playing uses that of the folder.
    std::fs::write(&generation, sampling.replace("1.0", "0.5")).unwrap();
    assert_eq!(bench.run(&with(&["--resume"])).status.code(), Some(4));
    let state = || {
        bench.json(&["run", &format!("{guess}?talk=terse"), "--model", &model, "--episodes", "1"])["state_id"].clone()
    };
    let cooler = state();
    std::fs::write(&generation, sampling).unwrap();
    assert_ne!(cooler, state());
    make(2);
    bench.refused(
        &with(&["--resume"]),
        &["the digest of the model's weights was sha256:", "or begin a new run without --resume"],
    );
}

#[test]
fn truncated_answers_without_learning_signal_are_reported() {
    let Some(game) = Game::new("answers_that_are_cut_off", &["--truncated", "mask", "--max-tokens", "1"]) else {
        return;
    };
    let mut words = game.words.clone();
    // The file sets 3 tokens, and an option occurs once.
    let place = words.iter().position(|word| word == "--max-tokens").unwrap();
    words.drain(place..place + 2);
    words.retain(|word| word != "-q");
    let told = game.bench.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let (out, err) = (stdout(&told), stderr(&told));
    let why = "truncated episodes were left out and no other group has reward variance, so the weights did not change";
    assert!(out.contains(why) && out.contains("allow longer answers"), "{out}{err}");
    assert!(err.contains("cut off "), "{err}");
}

#[test]
fn a_finished_run_shows_how_to_play_and_what_learned() {
    let more = ["--adapter-rank", "4", "--rate", "0.01", "--temperature", "0.9", "--grant", "kv"];
    let Some(game) = Game::new("a_finished_run_says_how", &more) else { return };
    let out = game.bench.out(&game.words(&[]));
    assert!(out.contains("the adapter alone changed"), "{out}");
    assert!(out.contains("shown       20 steps of 128 demonstrations, out of 4,096 that were played"), "{out}");
    let play = out.lines().find_map(|line| line.strip_prefix("play it     ")).unwrap();
    let words: Vec<&str> = play.split_whitespace().skip(1).map(|word| word.trim_matches('\'')).collect();
    let played = game.bench.json(&[&words[..], &["--episodes", "4"]].concat());
    assert_eq!(played["endings"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>(), 4, "{played}");
    assert!(play.contains(" --grant kv --temperature 0.9 --max-tokens 3 --max-turns "), "{play}");
    let document = game.bench.json(&game.words(&[]));
    assert!(document["learn"]["iterations"][0].get("reflections").is_none(), "{}", document["learn"]["iterations"][0]);
}

#[test]
fn a_merged_adapter_is_reported() {
    let Some(game) = Game::new("an_adapter_that_is_added", &["--iterations", "1"]) else { return };
    let folder = Path::new(&game.words[5]);
    let mut model = ModelFolder::read(folder, &clawhost_model::tokens::TextHost::InProcess).unwrap();
    let settings = AdapterSettings { rank: 2, alpha: 4.0, targets: Targets::ALL, seed: 1 };
    model.weights = settings.attach(&model.weights).unwrap();
    model.write(folder).unwrap();
    let mut words = game.words.clone();
    let place = words.iter().position(|word| word == "--iterations").unwrap();
    words.drain(place..place + 2);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let told = stderr(&game.bench.run(&[&words[..], &["--dry-run"]].concat()));
    assert!(told.contains("it is added to the weights, and all of them learn; --adapter-rank goes on with"), "{told}");
    let told = stderr(&game.bench.run(&[&words[..], &["--dry-run", "--adapter-rank", "2"]].concat()));
    assert!(!told.contains("it is added to the weights"), "{told}");
}
