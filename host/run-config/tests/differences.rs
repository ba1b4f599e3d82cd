//! Messages about the differences of two runs, and the published document of a run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

use clawhost_core::{Digest, LlmIdentity, PluginIdentity};
use clawhost_run_config::{Key, PlaybookSpec, RunSpec, RunSpecPatch, Verb};

const HARNESS: &str = "[[learn]]\nlayer = \"harness\"\nreflectors = [\"reflector_rules.wasm?facts=2\"]\n";
const WEIGHTS: &str = "[[learn]]\nlayer = \"weights\"\n";

fn run(verb: Verb, top: &str, tables: &str) -> RunSpec {
    let plugin = if top.contains("plugin =") { "" } else { "plugin = \"env.wasm?size=10\"\n" };
    let rewards = if top.contains("rewards =") { "" } else { "rewards = [\"exact.wasm\"]\n" };
    let text = format!("{plugin}{rewards}{top}\n{tables}");
    let patch = RunSpecPatch::from_toml(&text, "").unwrap_or_else(|problems| panic!("{problems}"));
    patch.resolve(verb).unwrap_or_else(|problems| panic!("{problems}"))
}

fn play(top: &str) -> RunSpec {
    run(Verb::Play, top, "")
}

fn weights(top: &str, options: &str) -> RunSpec {
    run(Verb::Learn, &format!("model = \"tiny\"\n{top}"), &format!("{WEIGHTS}{options}"))
}

fn harness(top: &str, options: &str) -> RunSpec {
    run(Verb::Learn, &format!("iterations = 20\n{top}"), &format!("{HARNESS}{options}"))
}

fn told(then: &RunSpec, now: &RunSpec) -> Vec<String> {
    then.diff(now).iter().map(ToString::to_string).collect()
}

fn check(then: &RunSpec, now: &RunSpec, expected: &[&str]) {
    assert_eq!(told(then, now), expected);
}

fn plugin(name: &str, bytes: &str) -> Option<PluginIdentity> {
    Some(PluginIdentity { name: name.into(), version: "0.1.0".into(), digest: Digest::of(bytes.as_bytes()) })
}

fn model(name: &str, version: &str) -> Option<LlmIdentity> {
    Some(LlmIdentity { provider: "local".into(), model: name.into(), version: version.into() })
}

#[test]
fn a_difference_shows_its_place_and_both_values() {
    let rate = |rate: &str| weights("", &format!("rate = {rate}"));
    check(&rate("0.002"), &rate("0.002"), &[]);
    check(&rate("0.002"), &rate("0.001"), &["learn.weights.rate was 0.002 and is 0.001"]);
    check(&play(""), &play("playbook = \"shop\""), &["playbook was none and is shop"]);
    check(
        &play("seed = 1700000000000"),
        &play("seed = 1700000000001"),
        &["seed was 1700000000000 and is 1700000000001"],
    );
    let talk = |talk: &str| play(&format!("plugin = \"env.wasm?size=10&talk={talk}\""));
    check(&talk("terse"), &talk("words"), &["environment.options.talk was terse and is words"]);
    let rewards = |weight: &str| play(&format!("rewards = [\"exact.wasm#weight={weight}\"]"));
    check(&rewards("1"), &rewards("0.5"), &["reward.exact.weight was 1.0 and is 0.5"]);
    let sampled = |temperature: &str| play(&format!("temperature = {temperature}"));
    check(&sampled("1.0"), &sampled("0.9"), &["temperature was 1.0 and is 0.9"]);
    check(&sampled("1.0"), &play(""), &["temperature was 1.0 and is none"]);
    check(&harness("", ""), &harness("", "gate_every = 5"), &["learn.harness.gate_every was 10 and is 5"]);
    let grants = |grants: &str| play(&format!("grants = [{grants}]"));
    check(&grants("\"kv\""), &grants(""), &["grants.kv was granted and is none"]);
    check(&play("max_turns = 3"), &play(""), &["max_turns was 3 and is 64"]);
}

#[test]
fn numbers_that_differ_by_rounding_are_equal() {
    let mut then = weights("", "");
    let now = then.clone();
    then.weights_mut().unwrap().rate = 0.002 * (1.0 + 1e-15);
    assert_ne!(then, now);
    check(&then, &now, &[]);
}

#[test]
fn decisive_differences_come_first_and_others_prevent_no_resuming() {
    let then = play("concurrency = 1\nseed = 1\nfailure_budget = 0.5\nmax_tokens_total = 5");
    let now = play("concurrency = 2\nseed = 2\nfailure_budget = 0.25\nprice = \"1,2\"");
    let all = [
        "seed was 1 and is 2",
        "price was none and is 1,2",
        "concurrency was 1 and is 2",
        "failure_budget was 0.5 and is 0.25",
        "max_tokens_total was 5 and is none",
    ];
    check(&then, &now, &all);
    let decisive = then.decisive_diff(&now);
    assert_eq!(
        decisive.iter().map(|one| (one.key, one.decides)).collect::<Vec<_>>(),
        [(Some(Key::Seed), true), (Some(Key::Price), true)]
    );
}

#[test]
fn a_changed_plugin_is_shown_by_digest_and_its_path_is_ignored() {
    let (mut then, mut now) = (harness("", ""), harness("plugin = \"else/where.wasm?size=10\"", ""));
    then.environment.plugin = plugin("env-shop", "old");
    now.environment.plugin = plugin("env-shop", "old");
    check(&then, &now, &[]);
    now.environment.plugin = plugin("env-shop", "new");
    let short = |bytes: &str| Digest::of(bytes.as_bytes()).short();
    let expected = format!("environment env-shop was {} and is {}", short("old"), short("new"));
    check(&then, &now, &[&expected]);
    now.environment.plugin = plugin("env-guess", "new");
    check(&then, &now, &["environment was env-shop and is env-guess"]);
    now.environment.plugin = None;
    check(&then, &now, &["environment was env.wasm and is else/where.wasm"]);
}

#[test]
fn changed_rewards_and_reflectors_are_shown_too() {
    let (mut then, mut now) = (harness("", ""), harness("", ""));
    for (spec, bytes) in [(&mut then, "old"), (&mut now, "new")] {
        spec.rewards[0].plugin.plugin = plugin("reward-state", bytes);
        spec.harness_mut().unwrap().reflectors[0].plugin = plugin("reflector-rules", bytes);
    }
    let places: Vec<_> = then.diff(&now).into_iter().map(|one| one.place).collect();
    assert_eq!(places, ["reward reward-state", "reflector reflector-rules"]);
    let more = play("rewards = [\"exact.wasm\", \"judge.wasm?a=1#weight=2\"]");
    check(&play(""), &more, &["rewards was exact and is exact, judge"]);
    check(&play("rewards = []"), &play(""), &["rewards was none and is exact"]);
    let twice = |size| play(&format!("rewards = [\"exact.wasm\", \"exact.wasm?size={size}\"]"));
    check(&twice(1), &twice(2), &["reward.exact.2.options.size was 1 and is 2"]);
}

#[test]
fn a_model_is_compared_by_identity_and_not_by_path() {
    let (mut then, mut now) = (play("model = \"tiny\""), play("model = \"copy/of/tiny\""));
    check(&then, &now, &["policy was local:tiny and is local:copy/of/tiny"]);
    then.policy.identity = model("tiny", "sha256:1");
    now.policy.identity = model("tiny", "sha256:1");
    check(&then, &now, &[]);
    now.policy.identity = model("small", "sha256:2");
    let expected =
        ["the model's name was tiny and is small", "the model (weights or chat format) was sha256:1 and is sha256:2"];
    check(&then, &now, &expected);
    let (mut then, mut now) = (weights("", ""), weights("", ""));
    for (spec, bytes) in [(&mut then, "a"), (&mut now, "b")] {
        spec.weights_mut().unwrap().before = Some(Digest::of(bytes.as_bytes()));
    }
    assert_eq!(then.diff(&now)[0].place, "the digest of the model's weights");
}

#[test]
fn long_values_are_shown_from_their_first_difference_and_escaped() {
    let model = |words: &str| {
        let mut spec = play("");
        spec.policy.identity = model("m", &format!("sha256:{}+{words}", "0".repeat(64)));
        spec
    };
    let expected = "the model (weights or chat format) was …000000000+abc and is …000000000+def";
    check(&model("abc"), &model("def"), &[expected]);
    let then = play("system_prompt = \"\\u001b[31mred\"");
    check(&then, &play(""), &["system_prompt was \\u{1b}[31mred and is none"]);
    assert!(then.entries().iter().all(|(_, _, shown)| !shown.contains('\u{1b}')));
}

#[test]
fn the_text_of_a_system_prompt_counts_and_not_its_file() {
    let (mut then, mut now) = (play("system_prompt_file = \"a.txt\""), play("system_prompt_file = \"b.txt\""));
    check(&then, &now, &["system_prompt was the file a.txt and is the file b.txt"]);
    then.policy.system_prompt = Some("Be brief.".into());
    now.policy.system_prompt = Some("Be brief.".into());
    check(&then, &now, &[]);
    now.policy.system_prompt = Some("Be kind.".into());
    check(&then, &now, &["system_prompt was Be brief. and is Be kind."]);
}

#[test]
fn a_playbook_of_another_version_differs() {
    let (mut then, mut now) = (play("playbook = \"shop\""), play("playbook = \"shop\""));
    for (spec, number) in [(&mut then, 3), (&mut now, 4)] {
        *spec.playbook.as_mut().unwrap() = PlaybookSpec { name: "shop".into(), number: Some(number), digest: None };
    }
    check(&then, &now, &["playbook.number was 3 and is 4"]);
    check(&play(""), &now, &["playbook was none and is shop"]);
}

#[test]
fn consequences_of_a_difference_are_not_listed() {
    let both = run(Verb::Learn, "model = \"tiny\"\ngroup = 4\nconcurrency = 64", &format!("{HARNESS}{WEIGHTS}"));
    let one = weights("group = 4\nconcurrency = 64", "");
    check(&one, &both, &["layers was weights and is harness, weights"]);
    check(&harness("", ""), &harness("", "evolve = 10"), &["learn.harness.evolve was 0 and is 10"]);
    check(
        &weights("", "rate = 0.5\noptimizer = \"muon\""),
        &weights("", "rate = 0.5\noptimizer = \"muon\"\nadapter_rank = 4"),
        &["learn.weights.adapter_rank was none and is 4"],
    );
    let started = told(&play("episodes = 64\ngroup = 2"), &harness("", ""));
    assert_eq!(started, ["verb was play and is learn"]);
}

#[test]
fn every_value_of_a_run_has_a_unique_place() {
    let spec = run(Verb::Learn, "model = \"tiny\"\ngrants = [\"kv\"]", &format!("{HARNESS}evolve = 3\n{WEIGHTS}"));
    let entries = spec.entries();
    let mut places: Vec<_> = entries.iter().map(|(place, ..)| place.as_str()).collect();
    for place in ["environment.options.size", "learn.weights.rate", "reward.exact.weight", "grants.kv", "seed"] {
        assert!(places.contains(&place), "{place} in {places:?}");
    }
    places.sort_unstable();
    let count = places.len();
    places.dedup();
    assert_eq!(places.len(), count);
}

#[test]
fn equal_runs_from_different_folders_publish_equal_documents() {
    let text = format!(
        "plugin = \"env.wasm\"\nrewards = [\"r.wasm\"]\nmodel = \"tiny\"\nsystem_prompt_file = \"p.txt\"\n\
         grants = [\"kv\", \"llm:judge=local:judge\"]\n{HARNESS}evolve = 5\n{WEIGHTS}out = \"here\"\n"
    );
    let at = |folder: &str, concurrency: u64| {
        let mut patch = RunSpecPatch::from_toml(&text, folder).unwrap();
        let source = clawhost_run_config::Source::Flag;
        patch.set(Key::Concurrency, clawhost_run_config::Value::Whole(concurrency), source);
        let mut spec = patch.resolve(Verb::Learn).unwrap();
        spec.environment.plugin = plugin("env", "env");
        spec.policy.identity = model("tiny", "sha256:1");
        spec
    };
    let (one, other) = (at("", 4), at("runs/a", 8));
    assert_ne!(one, other);
    assert_eq!(one.published(), other.published());
    let published = one.published().to_string();
    for place in [".wasm", "tiny\",\"identity", "p.txt", "here", "local:", "concurrency"] {
        assert!(!published.contains(place), "{place} in {published}");
    }
    assert!(published.contains("llm:judge=local") && published.contains("\"identity\""), "{published}");
    let mut seeded = one.clone();
    seeded.play.seed = 1;
    assert_ne!(seeded.published(), other.published());
}

#[test]
fn a_damaged_document_is_refused_with_the_reason() {
    let mut document = play("").to_document();
    document["play"]["seed"] = "seven".into();
    let error = RunSpec::from_document(document).unwrap_err().to_string();
    assert!(error.starts_with("the run's document is damaged: ") && error.contains("seven"), "{error}");
    let mut document = play("").to_document();
    document["unheard_of"] = 1.into();
    assert!(RunSpec::from_document(document).unwrap_err().to_string().contains("unheard_of"));
}
