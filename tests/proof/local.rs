//! Answers of local models, which are generated again where that is possible.

use super::forging::{Opened, episode};
use super::*;
use clawhost_bundle::EntryName;
use clawhost_model::TinyModel;

/// A model with random weights, and a run of it that is packed.
fn played(bench: &Bench) -> (String, PathBuf) {
    let folder = model(bench, "model", 3);
    let (plugin, policy) = (format!("{}?talk=terse", bench.guest("env_guess")), format!("local:{folder}"));
    bench.json(&["run", &plugin, "--policy", &policy, "--episodes", "6", "--max-tokens", "3", "--seed", "1", "-q"]);
    (folder, bench.proved("proof", &[]))
}

pub(crate) fn model(bench: &Bench, name: &str, seed: u64) -> String {
    let folder = bench.data.path().join(name);
    TinyModel { seed, context: 64, ..TinyModel::default() }.make().unwrap().write(&folder).unwrap();
    folder.display().to_string()
}

#[test]
fn answers_of_a_local_model_are_generated_again_and_a_forged_one_is_found() {
    let Some(bench) = Bench::new("answers_of_a_local_model_are_generated_again") else { return };
    let (folder, file) = played(&bench);
    let (exit, report) = bench.verified(&file, &[]);
    let answers = count(&report, "recorded_only", "answers of local model (");
    assert!(exit == 0 && answers > Some(5), "{report:#}");
    // A copy in a folder of another name.
    let copied = model(&bench, "copied", 3);
    let (exit, report) = bench.verified(&file, &["--model", &copied]);
    assert_eq!((exit, count(&report, "recorded_only", "answers of local")), (0, None), "{report:#}");
    assert_eq!(count(&report, "recomputed", "answers of the policy, generated again by local model ("), answers);
    assert!(report["conclusion"].as_str().unwrap().contains("with answers that were computed again"), "{report:#}");

    // Other weights answer nothing.
    let other = model(&bench, "other", 4);
    let (exit, report) = bench.verified(&file, &["--model", &other]);
    assert_eq!((exit, count(&report, "recorded_only", "answers of local model (")), (0, answers), "{report:#}");
    assert!(report["recorded_only"].to_string().contains("the model that was given, local model ("), "{report:#}");

    // A log-prob that the model did not give: the environment never sees it, so that playing again shows nothing else.
    let mut forged = Opened::read(&file);
    forged.lines(|lines| {
        let turn = &mut episode(&mut lines[0])["turns"][0];
        let logprob = &mut turn["tokens"]["logprob_model"][0];
        assert!(logprob.is_number(), "{turn:#}");
        *logprob = serde_json::json!(-0.5);
    });
    let path = bench.data.path().join("forged");
    forged.write(&path);
    let differs = |more: &[&str]| {
        let (exit, report) = bench.verified(&path, more);
        assert_eq!(exit, CHANGED, "{report:#}");
        report["differences"].to_string()
    };
    let (recorded, generated) = (differs(&[]), differs(&["--model", &folder]));
    assert!(!recorded.contains("in turn 0") && generated.contains("in turn 0"), "{recorded}\n{generated}");
}

#[test]
fn answers_are_generated_again_on_processors_of_the_same_class_alone() {
    let Some(bench) = Bench::new("answers_are_generated_again_on_processors_of_the_same_class") else { return };
    let (folder, file) = played(&bench);
    let path = bench.data.path().join("changed");
    let refused = |change: &dyn Fn(&mut Value), says: &str| {
        let mut opened = Opened::read(&file);
        opened.document(EntryName::Runs, change);
        opened.write(&path);
        bench.refused(&["verify", &path.display().to_string(), "--model", &folder, "-q"], &[says]);
        // Without the model it is verified as before.
        assert_eq!(bench.verified(&path, &[]).0, 0);
    };
    refused(
        &|claim| claim["local"]["processor"] = "other".into(),
        "its local model answered on a processor of class other, and this one is ",
    );
    refused(&|claim| claim["local"] = Value::Null, "has no answers of a local model that can be generated again");
}
