//! Files and their results, in `cases`: `NAME.toml`, and beside it `NAME.expected` with the resolved run or all its
//! problems. A file with `[[learn]]` learns, and one whose first line is `# evaluate` is evaluated. `UPDATE_GOLDEN=1
//! cargo test -p clawhost-run-config` writes the expected files; review the difference before you commit it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use clawhost_run_config::{RunSpecPatch, Verb};
use std::path::Path;

fn understood(text: &str) -> String {
    let patch = match RunSpecPatch::from_toml(text, "") {
        Ok(patch) => patch,
        Err(problems) => return format!("{problems}\n"),
    };
    let verb = match patch.layers() {
        _ if text.starts_with("# evaluate") => Verb::Evaluate,
        _ if text.starts_with("# play") => Verb::Play,
        Some(_) => Verb::Learn,
        None => Verb::Play,
    };
    match patch.resolve(verb) {
        Ok(spec) => spec.to_patch().to_toml(),
        Err(problems) => format!("{problems}\n"),
    }
}

#[test]
fn every_case_reads_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let cases: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let got = understood(&std::fs::read_to_string(&case).unwrap());
        let golden = case.with_extension("expected");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &got).unwrap();
        }
        assert_eq!(got, std::fs::read_to_string(&golden).unwrap_or_default(), "{}", case.display());
    }
}
