//! Weights that learn, end to end: a folder with a model, and a component as environment. Interrupted learning is in
//! the suite `crash`.

use super::*;
use clawhost_model::{ModelFolder, TinyModel, digest};

/// A run of a few seconds: the tiny model learns from demonstrations, then from rewards.
pub(crate) struct Game {
    pub(crate) bench: Bench,
    pub(crate) words: Vec<String>,
}

impl Game {
    pub(crate) fn new(test: &str, more: &[&str]) -> Option<Self> {
        let bench = Bench::new(test)?;
        let model = bench.data.path().join("tiny");
        TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap().write(&model).unwrap();
        let plugin = format!("{}?size=10&guesses=4&talk=terse", bench.guest("env_guess"));
        let words = ["learn", &plugin, "--layer", "weights", "--model", &model.display().to_string(), "--seed", "7"];
        let few = ["--iterations", "4", "--episodes", "32", "--max-tokens", "3", "--test-pairs", "20", "-q"];
        let looks = ["--evaluate-every", "2", "--evaluate-episodes", "20"];
        let shown = ["--demonstrations", "demonstrate=clumsy", "--demonstrations-steps", "20"];
        let all = words.iter().chain(&few).chain(&looks).chain(&shown).chain(more);
        Some(Self { bench, words: all.map(|word| (*word).to_owned()).collect() })
    }

    pub(crate) fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.words.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }

    /// The result of the run without timing, and its output folder.
    pub(crate) fn learned(&self, bench: &Bench, more: &[&str]) -> (Value, PathBuf) {
        let (document, timing) = without_timing(bench.json(&self.words(more)));
        (document, PathBuf::from(timing["out"].as_str().unwrap()))
    }
}

#[test]
fn a_conversation_beyond_the_context_is_truncated_and_replays() {
    let Some(bench) = Bench::new("a_conversation_that_outgrows") else { return };
    let model = bench.data.path().join("small");
    TinyModel { seed: 3, context: 16, ..TinyModel::default() }.make().unwrap().write(&model).unwrap();
    let (plugin, policy) = (format!("{}?talk=terse", bench.guest("env_guess")), format!("local:{}", model.display()));
    let words = ["run", &plugin, "--policy", &policy, "--episodes", "12", "--max-tokens", "3", "--seed", "1", "-q"];
    let document = bench.json(&words);
    let endings = &document["endings"];
    assert!(endings["truncated"].as_u64() >= Some(10), "{document}");
    let episodes = bench.json(&["episodes", "list", "--limit", "20"]);
    let shown = bench.out(&["episodes", "show", episodes[0]["id"].as_str().unwrap()]);
    assert!(shown.contains("the model's context is full"), "{shown}");
    let replay = bench.run(&["replay"]);
    assert!(replay.status.success(), "{}", stdout(&replay));
    // A prompt that cannot be tokenised gives no episode.
    let words = ["run", &bench.guest("env_guess"), "--policy", &policy, "--episodes", "2", "-q"].map(str::to_owned);
    let refused = bench.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn equal_runs_learn_equal_weights_and_write_metrics() {
    // Several steps per iteration, so that ratios and their bounds act.
    let Some(game) = Game::new("equal_runs_learn_equal_weights", &["--epochs", "2", "--minibatches", "2"]) else {
        return;
    };
    let (document, out) = game.learned(&game.bench, &[]);
    let weights = &document["weights"];
    assert_ne!(weights["before"], weights["after"], "something was learned");
    let learn = &document["learn"];
    assert_eq!(
        (&learn["learned"], &learn["stopped"], &learn["layers"]),
        (&4.into(), &Value::Null, &serde_json::json!(["weights"]))
    );
    assert_eq!(learn["warm_start"]["steps"], 20);
    let config = &document["config"];
    assert_eq!((&config["playbook"], &config["work"]["layers"][0]["objective"]), (&Value::Null, &"dapo".into()));
    assert_eq!(config["work"]["layers"][0]["before"], weights["before"], "the configuration has the initial weights");
    assert!(learn["evaluation"]["lift"]["mean"].is_f64(), "{}", learn["evaluation"]);

    // In another folder, with another concurrency.
    let elsewhere = game.bench.warm();
    let (again, _) = game.learned(&elsewhere, &["--concurrency", "7"]);
    assert_eq!(again, document);

    // The stored model opens, and has the recorded digest.
    let opened = |name: &str| {
        digest(&ModelFolder::read(&out.join(name), &clawhost_model::tokens::TextHost::InProcess).unwrap().weights)
            .to_string()
    };
    assert_eq!(weights["after"], opened("last"));
    let best = learn["best"]["iteration"].as_u64().unwrap();
    assert!([0, 2, 4].contains(&best), "{best}");
    assert_eq!(opened("best") == opened("last"), best == 4);
    assert!(
        learn["start"].is_f64()
            && learn["last"].is_f64()
            && learn["best"]["reward"].as_f64() >= learn["start"].as_f64()
    );
    let metrics = lines(&out.join("metrics.jsonl"));
    assert_eq!(metrics.iter().map(|line| line["iteration"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for name in [
        "weights.loss",
        "weights.entropy",
        "weights.clip_fraction",
        "weights.ratio_max",
        "weights.approx_kl",
        "weights.optimizer_steps",
        "weights.logprob_mismatch_max",
        "weights.length_mean",
        "weights.truncation_share",
        "weights.gradient_norm",
        "weights.learning_rate",
        "train.pass@1",
        "train.pass@8",
        "train.zero_variance_share",
    ] {
        assert!(metrics[0]["metrics"][name].is_f64(), "{name}: {}", metrics[0]["metrics"]);
    }
    let first = |name: &str| metrics[0]["metrics"][name].as_f64().unwrap();
    assert!(first("weights.logprob_mismatch_max") < 1e-4);
    assert!(
        first("weights.optimizer_steps") > 1.0 && (first("weights.ratio_max") - 1.0).abs() > 1e-4,
        "{}",
        metrics[0]
    );
    assert!(metrics[1]["metrics"]["val.reward"].is_f64() && metrics[2]["metrics"]["val.reward"].is_null());
    let said = lines(&out.join("completions.jsonl"));
    assert_eq!(said.len(), 16, "four of each iteration");
    assert!(said[0]["conversation"][0]["text"].as_str().is_some_and(|text| text == "?"), "{}", said[0]);
    let drawing = std::fs::read_to_string(out.join("curve.svg")).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("validation"));
    let events = std::fs::read_dir(&out).unwrap().flatten();
    assert_eq!(events.filter(|one| one.file_name().to_string_lossy().starts_with("events.out.tfevents")).count(), 1);

    // The learned model plays without learning, and its episodes replay.
    let last = format!("local:{}", out.join("last").display());
    let plugin = game.words[1].clone();
    let reward = format!("{}?name=distance&equals=0&absent=0", game.bench.guest("reward_signal"));
    let played = game.bench.json(&[
        "run",
        &plugin,
        "--policy",
        &last,
        "--temperature",
        "1",
        "--max-tokens",
        "3",
        "--episodes",
        "20",
        "--tasks",
        "test",
        "--reward",
        &reward,
    ]);
    assert!(played["reward_mean"].is_f64(), "{played}");
    let replayed = game.bench.json(&["replay"]);
    assert_eq!(replayed["report"]["episodes"]["exact"], 20, "{replayed}");
}

#[test]
fn an_adapter_learns_with_fixed_base_weights_and_is_stored_for_peft() {
    let more = ["--adapter-rank", "4", "--adapter-targets", "q_proj,v_proj", "--rate", "0.01"];
    let Some(game) = Game::new("an_adapter_learns", &more) else { return };
    let (document, out) = game.learned(&game.bench, &[]);
    let weights = &document["weights"];
    assert_ne!(weights["before"], weights["after"], "something was learned");
    let kept = ModelFolder::read(&out.join("last"), &clawhost_model::tokens::TextHost::InProcess).unwrap();
    let begun = ModelFolder::read(Path::new(&game.words[5]), &clawhost_model::tokens::TextHost::InProcess).unwrap();
    assert!(kept.weights.has_adapter() && !begun.weights.has_adapter());
    assert_eq!(digest(&kept.weights.without_adapters()), digest(&begun.weights), "the model stays");
    assert_eq!(weights["after"], digest(&kept.weights).to_string());
    let config = std::fs::read_to_string(out.join("last/adapter/adapter_config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!((&config["peft_type"], &config["r"], &config["lora_alpha"]), (&"LORA".into(), &4.into(), &8.into()));
    let elsewhere = game.bench.warm();
    assert_eq!(game.learned(&elsewhere, &[]).0, document, "equal runs, equal adapters");
    game.bench.refused(
        &game.words(&["--adapter-targets", "nose_proj"]),
        &["--adapter-targets: found the text \"nose_proj\"", "did you mean `o_proj`?"],
    );
}

#[test]
fn impossible_learning_settings_are_refused_with_a_remedy() {
    let Some(game) = Game::new("what_cannot_be_learned", &[]) else { return };
    let plugin = game.words[1].clone();
    let model = game.words[5].clone();
    let base = ["learn", &plugin, "--layer", "weights"];
    let check = |more: &[&str], says: &str| game.bench.refused(&[&base[..], more].concat(), &[says]);
    check(&[], "layer weights needs a local model: name its folder with --model, or write local:DIR for --policy");
    check(&["--model", "nowhere"], "nowhere: there is no config.json, so it is not a model's folder");
    check(
        &["--model", &model, "--group", "1", "--episodes", "8"],
        "--group: found 1; expected at least 2: members of a group are compared with each other",
    );
    check(
        &["--model", &model, "--group", "8", "--episodes", "12"],
        "--episodes: found 12; expected a multiple of the --group of 8, as 8 or 16",
    );
    check(&["--model", &model, "--temperature", "0"], "--temperature: found 0; expected at least 0.05");
    check(&["--model", &model, "--temperature", "0.04"], "a lower one gives almost equal samples");
    check(
        &["--model", &model, "--reflector", "r.wasm"],
        "--reflector: belongs to layer harness, which this run does not name",
    );
    check(&["--model", &model, "--gate-pairs", "64"], "--gate-pairs: belongs to layer harness");
    check(
        &["--model", &model, "--adapter-alpha", "8"],
        "--adapter-alpha: needs --adapter-rank; without it all weights learn",
    );
    check(&["--model", &model, "--demonstrations-steps", "8"], "--demonstrations-steps: needs --demonstrations");
    check(&["--model", &model, "--policy", "follower"], "--model: not together with --policy; remove one of them");
    let plain = |more: &[&str], says: &str| game.bench.refused(&[&["run", &plugin], more].concat(), &[says]);
    plain(&["--model", &model, "--adapter-rank", "8"], "--adapter-rank: belongs to learning; this run is for playing");
    plain(&["--evolve-section", "x"], "--evolve-section: belongs to learning");
    let harness = ["learn", &plugin, "--layer", "harness", "--out", "x"];
    game.bench.refused(&harness, &["--out: belongs to layer weights, which this run does not name"]);
    check(&["--model", &model, "--demonstrations", "clumsy"], "expected OPTION=VALUE, as in demonstrate=clumsy");
    check(&["--model", &model, "--demonstrations", "demonstrat=clumsy"], "env-guess has no option `demonstrat`");
    check(
        &["--model", &model, "--objective", "sft"],
        "expected one of grpo, dapo, dr_grpo, rloo, is, cispo, gspo, opd; it needs no environment: `model tune` trains by it",
    );
    check(
        &["--model", &model, "--objective", "ppo"],
        "expected one of grpo, dapo, dr_grpo, rloo, is, cispo, gspo, opd; ppo needs a critic, and there is none: dapo and grpo",
    );
}

#[test]
fn a_teacher_is_learned_from_and_one_with_other_tokens_is_refused() {
    let Some(game) = Game::new("distillation", &["--objective", "opd", "--rate", "0.005"]) else { return };
    let folder = |name: &str, model: TinyModel| {
        let folder = game.bench.data.path().join(name);
        model.make().unwrap().write(&folder).unwrap();
        folder.display().to_string()
    };
    let teacher = folder("teacher", TinyModel { seed: 9, width: 32, ..TinyModel::default() });
    let (document, out) = game.learned(&game.bench, &["--teacher", &teacher]);
    assert_ne!(document["weights"]["before"], document["weights"]["after"]);
    let iterations = lines(&out.join("metrics.jsonl"));
    let behind = |iteration: &Value| -iteration["metrics"]["weights.distillation_advantage_mean"].as_f64().unwrap();
    // How it falls over more iterations is a test of the layer.
    assert!(iterations.len() == 4 && iterations.iter().all(|iteration| behind(iteration) > 0.0), "{iterations:?}");
    let other = folder("other", TinyModel::for_text());
    game.bench.refused(&game.words(&["--teacher", &other]), &["its tokenizer.json differs"]);
    game.bench.refused(&game.words(&[]), &["--objective: opd needs --teacher"]);
}

#[test]
fn credit_per_turn_changes_what_is_learned() {
    let Some(game) = Game::new("credit_per_turn", &[]) else { return };
    let after = |credit: &str| {
        let (document, _) = game.learned(&game.bench, &["--credit", credit]);
        assert_eq!(document["config"]["work"]["layers"][0]["credit"], *credit);
        document["weights"]["after"].clone()
    };
    assert_ne!(after("turn"), after("episode"));
    let refused = ["--credit", "turn", "--objective", "opd", "--teacher", "x"];
    game.bench.refused(&game.words(&refused), &["--credit: not with opd, which learns from no rewards"]);
}

#[test]
fn a_dry_run_of_weights_shows_the_plan() {
    let Some(game) = Game::new("dry_run_of_weights", &["--dry-run"]) else { return };
    let told = game.bench.out(&game.words(&[]));
    assert!(told.contains("training    4 iterations of 32 episodes in groups of 8: 128, and 384 at most"), "{told}");
    assert!(told.contains("model       99,456 weights, context 64") && told.contains("digest      "), "{told}");
    assert!(
        told.contains("learns      all weights by dapo, Muon and AdamW, rate 0.002\ncredit      of the episode, for all of its turns\njudged by   finished\n"),
        "{told}"
    );
    let adapter = game.bench.out(&game.words(&["--adapter-rank", "8", "--objective", "grpo", "--rate", "0.001"]));
    assert!(adapter.contains("learns      an adapter of rank 8 and alpha 16 by grpo, AdamW, rate 0.001"), "{adapter}");
    let divided = game.bench.out(&game.words(&["--epochs", "2", "--minibatches", "4"]));
    assert!(divided.contains("Muon and AdamW, rate 0.002, at most 8 steps an iteration\n"), "{divided}");
    game.bench.refused(&game.words(&["--resume"]), &["--dry-run", "cannot be used with", "--resume"]);
    let document = game.bench.json(&game.words(&[]));
    assert_eq!((&document["dry_run"], &document["at_most"]["training_episodes"]), (&true.into(), &128.into()));
    assert_eq!(game.bench.json(&["runs", "list"]), serde_json::json!([]));
}

#[test]
fn a_run_that_learns_nothing_reports_the_reason() {
    // An untrained model rarely guesses a number, and there are no demonstrations.
    let Some(bench) = Bench::new("a_model_that_learns_nothing") else { return };
    let model = bench.data.path().join("tiny");
    TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap().write(&model).unwrap();
    let plugin = format!("{}?size=1000000&guesses=1&talk=terse", bench.guest("env_guess"));
    let told = bench.run(&[
        "learn",
        &plugin,
        "--layer",
        "weights",
        "--model",
        &model.display().to_string(),
        "--iterations",
        "6",
        "--episodes",
        "16",
        "--max-tokens",
        "3",
        "--test-pairs",
        "0",
        "--evaluate-every",
        "3",
        "--evaluate-episodes",
        "4",
        "--refills",
        "1",
    ]);
    let (out, err) = (stdout(&told), stderr(&told));
    assert!(
        out.contains(
            "signal      no learning signal: the mean reward of the last 5 iterations is 0.000 of the possible range"
        ),
        "{out}{err}"
    );
    assert!(err.contains("note: no --reward: an episode that the environment brings to its end earns 1"), "{err}");
    assert!(
        err.contains("iteration 5: no learning signal") && err.contains("(2 groups played anew)  no loss"),
        "{err}"
    );
    // Nothing was better than the starting weights.
    assert!(out.contains(", of the starting weights: 0.000 on validation tasks"), "{out}");
    assert!(
        out.contains("validation  0.000 with the starting weights, 0.000 with the last that were measured"),
        "{out}"
    );
    assert!(out.contains("no weight changed") && out.contains("batches     0 learned of 6"), "{out}");
    // The reward by ending is part of the program: its verdicts replay like all others.
    let replayed = bench.run(&["replay"]);
    assert!(replayed.status.success(), "{}{}", stdout(&replayed), stderr(&replayed));
}

#[test]
fn a_run_with_too_many_failures_reports_causes_and_how_to_resume() {
    let Some(bench) = Bench::new("a_run_that_failed_too_often") else { return };
    let model = bench.data.path().join("tiny");
    // Its context has 64 tokens, and the first question is longer.
    TinyModel::default().make().unwrap().write(&model).unwrap();
    let model = model.display().to_string();
    let told =
        bench.run(&["learn", &bench.guest("env_guess"), "--layer", "weights", "--model", &model, "--iterations", "2"]);
    let out = stdout(&told);
    assert_eq!(told.status.code(), Some(4), "{out}");
    for part in [
        "most failed so: ",
        "with --resume and a higher --failure-budget it continues from iteration 1",
        "mend it and begin a new run",
    ] {
        assert!(out.contains(part), "{out}");
    }
    assert!(!out.contains("numbers     "), "no iteration has any: {out}");
}
