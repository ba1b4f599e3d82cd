//! Adapters that runs learned: packed, and compared with what answered the test.

use super::forging::Opened;
use super::local::model;
use super::*;
use clawhost_bundle::EntryName;

/// The claim of a run whose adapter learned, and the folder of its model.
pub(super) fn adapter_learned(bench: &Bench, seed: &str, test_pairs: &str) -> (String, PathBuf) {
    learned(bench, &["--adapter-rank", "2", "--seed", seed, "--test-pairs", test_pairs])
}

/// The claim of a run whose weights learned, and the folder of its model.
pub(super) fn learned(bench: &Bench, more: &[&str]) -> (String, PathBuf) {
    let folder = model(bench, "model", 3);
    let plugin = format!("{}?talk=terse", bench.guest("env_guess"));
    let words = ["learn", &plugin, "--layer", "weights", "--model", &folder, "--rate", "0.01", "-q"];
    let numbers = ["--iterations", "1", "--episodes", "16", "--group", "8", "--max-tokens", "3"];
    bench.json(&[&words[..], &numbers, more].concat());
    (folder, bench.proved("proof", &[]))
}

#[test]
fn a_learned_adapter_is_packed_and_gives_the_answers_of_its_test_again() {
    let Some(bench) = Bench::new("a_learned_adapter_is_packed") else { return };
    let (folder, file) = adapter_learned(&bench, "1", "4");
    let has = |report: &Value, class: &str, words: &str| {
        let all = report[class].as_array().unwrap().iter();
        all.filter(|one| one["what"].as_str().unwrap().contains(words)).count()
    };
    let (exit, report) = bench.verified(&file, &[]);
    assert_eq!((exit, has(&report, "recorded_only", "that the adapter in the bundle gives the weights")), (0, 1));
    let (exit, report) = bench.verified(&file, &["--model", &folder]);
    assert_eq!((exit, has(&report, "recomputed", "the learned weights, from the model")), (0, 1), "{report:#}");
    assert_eq!(has(&report, "recorded_only", "that the adapter"), 0, "{report:#}");
    // The model answered in training and before learning, the model with the adapter after it.
    assert_eq!(has(&report, "recomputed", "generated again by local model ("), 2, "{report:#}");
    assert_eq!(has(&report, "recorded_only", "answers of local"), 0, "{report:#}");
    // Another model is none of these.
    let other = model(&bench, "other", 4);
    let (exit, report) = bench.verified(&file, &["--model", &other]);
    assert_eq!((exit, has(&report, "recomputed", "the learned weights")), (0, 0), "{report:#}");
}

#[test]
fn a_run_whose_weights_all_learned_is_generated_again_from_both_folders() {
    let Some(bench) = Bench::new("a_run_whose_weights_all_learned") else { return };
    let (folder, file) = learned(&bench, &["--seed", "1", "--test-pairs", "4"]);
    let run = bench.json(&["runs", "show", "last"])["run"]["id"].as_str().unwrap().to_owned();
    let last = bench.data.path().join("learned").join(run).join("last").display().to_string();
    let (exit, report) = bench.verified(&file, &["--model", &folder]);
    assert_eq!((exit, count(&report, "recorded_only", "answers of local model (").is_some()), (0, true), "{report:#}");
    let (exit, report) = bench.verified(&file, &["--model", &folder, "--model", &last]);
    assert_eq!((exit, count(&report, "recorded_only", "answers of local model (")), (0, None), "{report:#}");
}

#[test]
fn an_adapter_that_did_not_answer_the_test_is_found() {
    let Some(bench) = Bench::new("an_adapter_that_did_not_answer_the_test") else { return };
    let (folder, file) = adapter_learned(&bench, "1", "4");
    let path = bench.data.path().join("forged");
    let differs = |change: &dyn Fn(&mut Opened), more: &[&str]| {
        let mut opened = Opened::read(&file);
        change(&mut opened);
        opened.write(&path);
        let (exit, report) = bench.verified(&path, more);
        assert_eq!(exit, CHANGED, "{report:#}");
        report["differences"].to_string()
    };
    // One number of its weights. Without the model nobody can know what they give.
    let weights = |opened: &mut Opened| {
        let content = opened.entries.get_mut(&EntryName::AdapterWeights(0)).unwrap();
        let last = content.len() - 1;
        content[last] ^= 1;
    };
    let found = differs(&weights, &["--model", &folder]);
    assert!(found.contains("the weights with it"), "{found}");
    // Its scale.
    let scale = |opened: &mut Opened| {
        opened.document(EntryName::AdapterSettings, |settings| settings["lora_alpha"] = 5.into());
    };
    assert!(differs(&scale, &["--model", &folder]).contains("the weights with it"));
    // The digest of the claim: the test was answered by other weights.
    let claimed = |opened: &mut Opened| {
        let other = clawhost_core::Digest::of(b"other").to_string();
        opened.document(EntryName::Learning, |learned| learned["adapter"]["weights"] = other.into());
    };
    assert!(differs(&claimed, &[]).contains("the weights that answered"));
    // The claim without the adapter, and the adapter without the claim.
    let missing = |opened: &mut Opened| {
        opened.entries.remove(&EntryName::AdapterSettings);
        opened.entries.remove(&EntryName::AdapterWeights(0));
    };
    assert!(differs(&missing, &[]).contains("the adapter"));
    // Weights without settings.
    let mut opened = Opened::read(&file);
    opened.entries.remove(&EntryName::AdapterSettings);
    opened.document(EntryName::Learning, |learned| drop(learned.as_object_mut().unwrap().remove("adapter")));
    opened.write(&path);
    bench.refused(&["verify", &path.display().to_string(), "-q"], &["adapter_config.json.zst"]);
    let unclaimed = |opened: &mut Opened| {
        opened.document(EntryName::Learning, |learned| drop(learned.as_object_mut().unwrap().remove("adapter")));
    };
    assert!(differs(&unclaimed, &[]).contains("the adapter"));
    // Bytes that are no adapter.
    let mut opened = Opened::read(&file);
    opened.entries.insert(EntryName::AdapterWeights(0), b"none".to_vec());
    opened.write(&path);
    bench.refused(
        &["verify", &path.display().to_string(), "-q"],
        &["adapter/adapter_config.json.zst of the bundle cannot be read"],
    );
}

#[test]
fn an_adapter_that_is_gone_or_was_not_tested_is_left_out_with_the_reason() {
    let Some(bench) = Bench::new("an_adapter_that_is_gone") else { return };
    let left_out = |says: &str| {
        let out = bench.data.path().join(says.split(' ').next().unwrap()).display().to_string();
        let proved = bench.json(&["prove", "last", "--out", &out, "-q"]);
        let why = proved["proved"]["adapter"]["left_out"]["why"].as_str().unwrap_or_default();
        assert!(why.contains(says), "{proved:#}");
        assert_eq!(bench.verified(std::path::Path::new(&out), &[]).0, 0);
    };
    adapter_learned(&bench, "1", "0");
    left_out("no test was played with it");
    std::fs::remove_file(bench.data.path().join("proof")).unwrap();
    adapter_learned(&bench, "2", "4");
    std::fs::remove_dir_all(bench.data.path().join("learned")).unwrap();
    left_out("is not there any more");
}
