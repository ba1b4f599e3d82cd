//! Files and what is made of them, in `cases`: `NAME.toml`, and beside it `NAME.expected` with the complete file as it was
//! understood, or all that is wrong with it. `UPDATE_GOLDEN=1 cargo test -p clawhost-package` writes them anew; read the
//! difference before you commit it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use clawhost_package::RunFile;
use std::path::Path;

#[test]
fn every_case_reads_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let cases: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let got = match RunFile::parse(&std::fs::read_to_string(&case).unwrap()) {
            Ok(file) => file.to_toml(),
            Err(diagnostics) => format!("{diagnostics}\n"),
        };
        let golden = case.with_extension("expected");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &got).unwrap();
        }
        assert_eq!(got, std::fs::read_to_string(&golden).unwrap_or_default(), "{}", case.display());
    }
}
