//! The folder of built guests. `cargo xtask test` builds them and requires them. A plain `cargo test` without them
//! skips the tests that need one, with a message.

use std::path::{Path, PathBuf};

/// The folder of built guests, if there is one.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("CLAWHOST_GUESTS") {
        Some(folder) => PathBuf::from(folder),
        // Tests run from target/<profile>/deps.
        None => std::env::current_exe().ok()?.ancestors().nth(3)?.join("guests"),
    };
    folder.join("env_guess.wasm").exists().then_some(folder)
}

/// The folder, or a printed reason for skipping.
pub(crate) fn folder_or_skip(test: &str) -> Option<PathBuf> {
    let found = folder();
    if found.is_none() {
        assert!(
            std::env::var_os("CLAWHOST_REQUIRE_GUESTS").is_none(),
            "{test}: guests are required, but not built: run `cargo xtask guests`"
        );
        eprintln!("skipped {test}: no guests are built; run `cargo xtask test`");
    }
    found
}

/// The bytes of a guest.
#[allow(dead_code, reason = "not every suite reads bytes")]
pub(crate) fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    let path = folder.join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
