//! The path of somebody who writes plugins, end to end: new, build, test, check, dev, play; with real toolchains and components.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/guests.rs"]
mod guests;

mod cases;
mod checks;
mod dev;
mod hand;
mod languages;
mod manifest;
mod templates;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder in which plugins are written, with a data folder.
struct Desk {
    place: tempfile::TempDir,
}

impl Drop for Desk {
    fn drop(&mut self) {
        compiled::take_back(&self.data());
    }
}

impl Desk {
    fn new() -> Self {
        let desk = Self { place: tempfile::tempdir().unwrap() };
        // What plugins share while they are built is kept for the next run of the tests.
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin-builds");
        std::fs::create_dir_all(&shared).unwrap();
        std::fs::create_dir_all(desk.data()).unwrap();
        std::os::unix::fs::symlink(shared, desk.data().join("build")).unwrap();
        compiled::lend(&desk.data());
        desk
    }

    /// A desk, or `None` without a toolchain for plugins, with a printed reason.
    fn with_toolchain(test: &str) -> Option<Self> {
        let libraries =
            Command::new("rustc").args(["--print", "target-libdir", "--target", "wasm32-unknown-unknown"]).output();
        let folder =
            libraries.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
        if !Path::new(&folder).is_dir() {
            eprintln!("skipped {test}: it needs `rustup target add wasm32-unknown-unknown`");
            return None;
        }
        Some(Self::new())
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.place.path().join(inside)
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A command in a folder of the desk.
    fn command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clawhost"));
        command.args(arguments).current_dir(self.path(folder)).env("CLAWHOST_HOME", self.data());
        // The packages that the workspace has fetched are sufficient.
        command.env("CARGO_NET_OFFLINE", "true").env("CARGO_TERM_COLOR", "never");
        for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO", "CARGO_INCREMENTAL", "CARGO_PROFILE_DEV_DEBUG"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, folder: &str, arguments: &[&str]) -> Output {
        self.command(folder, arguments).output().unwrap()
    }

    /// Standard output of a command that ends with this exit code.
    fn out(&self, folder: &str, arguments: &[&str], code: i32) -> String {
        let output = self.run(folder, arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}\n{}", stderr(&output));
        said
    }

    /// The JSON of a command that ends with this exit code.
    fn json(&self, folder: &str, arguments: &[&str], code: i32) -> Value {
        serde_json::from_str(&self.out(folder, &[arguments, &["--json"]].concat(), code)).unwrap()
    }

    /// Writes a file of the desk.
    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// A folder with a plugin that is built already: a guest with a manifest beside it.
    fn packed(&self, guests: &Path, guest: &str, manifest: &str) {
        self.write(&format!("{guest}/claw.toml"), &format!("{manifest}\n[build]\ncomponent = \"made.wasm\"\n"));
        std::fs::copy(guests.join(format!("{guest}.wasm")), self.path(&format!("{guest}/made.wasm"))).unwrap();
        self.out(guest, &["build", "--quiet"], 0);
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The manifest of a guest.
fn manifest(name: &str, kind: &str, more: &str) -> String {
    format!("[plugin]\nname = \"{name}\"\nversion = \"0.1.0\"\nkind = \"{kind}\"\ntrack = \"0.1\"\n{more}")
}
