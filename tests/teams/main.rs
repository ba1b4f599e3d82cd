//! Teams that share modules, end to end with the program: one publishes, another one adds, updates and runs; what was forged is refused.
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
#[path = "../common/registry_server.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod registry_server;

mod credentials;
mod names;
mod path;
mod proofs;
mod trust;
mod versions;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A team with a data folder and a project of its own.
struct Team {
    place: tempfile::TempDir,
}

impl Drop for Team {
    fn drop(&mut self) {
        compiled::take_back(&self.data());
    }
}

impl Team {
    fn new() -> Self {
        let team = Self { place: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(team.data()).unwrap();
        compiled::lend(&team.data());
        team
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.place.path().join(inside)
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clawhost"));
        command.args(arguments).current_dir(self.place.path()).env("CLAWHOST_HOME", self.data());
        // No credentials of this machine.
        command.env("HF_HUB_CACHE", self.path("hub"));
        command.env("DOCKER_CONFIG", self.path("docker")).env_remove("CLAWHOST_REGISTRY").stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The JSON of a command that succeeds.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The message of a command that ends with this exit code.
    fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// The folder of a plugin of this name and version, around a component that is built already.
    fn plugin(&self, guest: &str, kind: &str, name: &str, version: &str) -> String {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(guests::folder().unwrap().join(format!("{guest}.wasm")), folder.join("made.wasm")).unwrap();
        let manifest = format!(
            "[plugin]\nname = \"{name}\"\nversion = \"{version}\"\nkind = \"{kind}\"\ntrack = \"0.1\"\nlicense = \"MIT\"\n\
             summary = \"a {kind} to share\"\n[build]\ncomponent = \"made.wasm\"\n"
        );
        std::fs::write(folder.join("claw.toml"), manifest).unwrap();
        std::fs::write(folder.join("README.md"), format!("# {name}\n")).unwrap();
        self.json(&["build", name]);
        name.to_owned()
    }

    /// Publishes a reward, and returns the report. `--despite-checks`: its name in claw.toml is not that of the guest.
    fn publishes(&self, target: &str, version: &str, more: &[&str]) -> Value {
        let folder = self.plugin("reward_exact", "reward", "exact", version);
        let arguments = ["publish", target, &folder, "--as", "shop/exact", "--despite-checks"];
        self.json(&[&arguments, more].concat())["published"].take()
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The files in a folder, all the way down, without those of the compile cache and the database.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => waiting.push(path),
                path => found.push(path),
            }
        }
    }
    found.sort();
    found
}
