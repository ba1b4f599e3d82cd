//! The model card of an export, with a proof beside it.

use super::adapter::{adapter_learned, learned};
use super::*;
use std::path::Path;

/// The folder that the newest run wrote last.
fn last(bench: &Bench) -> String {
    let run = bench.json(&["runs", "show", "last"])["run"]["id"].as_str().unwrap().to_owned();
    bench.data.path().join("learned").join(run).join("last").display().to_string()
}

#[test]
fn a_proof_travels_with_the_weights_that_it_is_about_and_with_no_others() {
    let Some(bench) = Bench::new("a_proof_travels_with_the_weights") else { return };
    let (model, file) = adapter_learned(&bench, "1", "4");
    let path = |name: &str| bench.data.path().join(name).display().to_string();
    let (last, out, proof) = (last(&bench), path("out"), file.display().to_string());
    bench.json(&["model", "export", &last, &out, "--merge", "--dtype", "bf16", "--proof", &proof]);
    let card = std::fs::read_to_string(Path::new(&out).join("README.md")).unwrap();
    let (_, report) = bench.verified(&file, &[]);
    for part in [
        report["bundle"].as_str().unwrap(),
        "library_name: transformers",
        "| numbers | bfloat16 |",
        "| digest before the adapter was merged |",
        "| run | ",
        "pairs of",
        "| verdict | ",
        "This export was written from them: with the adapter merged, or in other numbers",
        "clawhost verify proof.bundle",
    ] {
        assert!(card.contains(part), "{part}: {card}");
    }
    let copied = Path::new(&out).join("proof.bundle");
    assert_eq!(std::fs::read(&copied).unwrap(), std::fs::read(&file).unwrap());
    assert_eq!(bench.verified(&copied, &["--model", &model]).0, 0);

    let beside = path("beside");
    bench.json(&["model", "export", &last, &beside, "--proof", &proof]);
    let card = std::fs::read_to_string(Path::new(&beside).join("README.md")).unwrap();
    for part in ["library_name: peft", "| adapter | LoRA of rank 2 ", "they are those of this export"] {
        assert!(card.contains(part), "{part}: {card}");
    }

    bench.refused(&["model", "export", &model, &path("other"), "--proof", &proof], &["the proof is about the weights"]);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path("damaged"), bytes).unwrap();
    bench.refused(
        &["model", "export", &last, &path("x"), "--proof", &path("damaged")],
        &["of the bundle cannot be read"],
    );
    assert!(!Path::new(&path("other")).exists() && !Path::new(&path("x")).exists());
}

#[test]
fn a_card_says_that_a_proof_does_not_name_the_weights() {
    let Some(bench) = Bench::new("a_card_says_that_a_proof") else { return };
    let (_, file) = learned(&bench, &["--seed", "1", "--test-pairs", "4"]);
    let out = bench.data.path().join("out").display().to_string();
    bench.json(&["model", "export", &last(&bench), &out, "--proof", &file.display().to_string()]);
    let card = std::fs::read_to_string(Path::new(&out).join("README.md")).unwrap();
    assert!(card.contains("does not name the weights after learning: nothing shows that they are these"), "{card}");
}
