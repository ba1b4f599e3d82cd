//! Finds the built guests. `cargo xtask test` builds them and requires them. A plain `cargo test` without them skips the
//! tests that need one, and prints the reason.

use std::path::{Path, PathBuf};

/// The folder of built guests, if there is one.
pub fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("CLAWHOST_GUESTS") {
        Some(folder) => PathBuf::from(folder),
        // Tests run from target/<profile>/deps.
        None => std::env::current_exe().ok()?.ancestors().nth(3)?.join("guests"),
    };
    folder.join("env_guess.wasm").exists().then_some(folder)
}

/// The folder, or a printed reason for skipping.
///
/// # Panics
/// Guests are required (`CLAWHOST_REQUIRE_GUESTS`), and not built.
pub fn folder_or_skip(test: &str) -> Option<PathBuf> {
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

/// A guest's bytes.
///
/// # Panics
/// There is no such guest.
pub fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    let path = folder.join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
