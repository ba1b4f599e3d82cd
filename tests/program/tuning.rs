//! `clawhost model tune` on the command line.

use super::*;
use clawhost_model::TinyModel;

#[test]
fn a_model_is_tuned_on_a_file_and_wrong_options_and_lines_are_named() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let path = |name: &str| bench.data.path().join(name).display().to_string();
    let [model, data, out] = ["tiny", "pairs.jsonl", "out"].map(path);
    TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap().write(Path::new(&model)).unwrap();
    let line = |sum: u32| format!(r#"{{"prompt":"{sum}+0=","chosen":"{sum}","rejected":"{sum}9"}}"#);
    let lines: Vec<String> = (0..8).map(line).collect();
    std::fs::write(&data, lines.join("\n")).unwrap();
    let words = ["model", "tune", &model, "--data", &data, "--out", &out, "-q"];
    let with = |more: &[&'static str]| [&words[..], more].concat();
    let dpo = ["--objective", "dpo", "--epochs", "2", "--batch", "4"];
    let document = bench.json(&with(&dpo));
    assert_eq!(
        (&document["format"], &document["objective"], &document["steps"]),
        (&1.into(), &"dpo".into(), &4.into())
    );
    assert_eq!((&document["examples"]["train"], &document["examples"]["held_out"]), (&7.into(), &1.into()));
    let best = document["last_folder"].as_str().unwrap();
    assert_eq!(bench.json(&["model", "info", best])["weights"], document["after"]);
    bench.refused(&with(&dpo), &["is not empty; name a new folder"]);

    let other = path("other");
    let refused = |more: &[&str], says: &str| {
        let words = ["model", "tune", &model, "--out", &other, "-q"];
        bench.refused(&[&words[..], more].concat(), &[says]);
    };
    refused(&["--objective", "sft"], "--data <FILE>");
    refused(&["--objective", "sft", "--data", &data], "pairs.jsonl:1: `messages` is missing");
    refused(&["--objective", "sft", "--data", &data, "--beta", "0.2"], "--beta: belongs to dpo and kto");
    refused(&["--objective", "dpo", "--data", &data, "--desirable-weight", "2"], "--desirable-weight: belongs to kto");
    refused(&["--objective", "dpo", "--data", &data, "--held-out", "0.6"], "expected a number from 0 to 0.5");
    refused(&["--objective", "dpo", "--data", &data, "--rate", "0"], "expected a number above 0 and at most 1");
    assert!(!Path::new(&other).exists(), "nothing is written");
}
