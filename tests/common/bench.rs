//! The program with a data folder per test.

use crate::{compiled, guests};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A data folder in which plugins that other tests have used are compiled already.
fn with_compiled() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    compiled::lend(data.path());
    data
}

/// A data folder, and the guests.
pub(crate) struct Bench {
    pub(crate) guests: PathBuf,
    pub(crate) data: tempfile::TempDir,
}

impl Drop for Bench {
    fn drop(&mut self) {
        compiled::take_back(self.data.path());
    }
}

impl Bench {
    /// A bench with what other tests have compiled, or `None` to skip.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let guests = guests::folder_or_skip(test)?;
        Some(Self { guests, data: with_compiled() })
    }

    /// A bench with an empty data folder, or `None` to skip.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn empty(test: &str) -> Option<Self> {
        let guests = guests::folder_or_skip(test)?;
        Some(Self { guests, data: tempfile::tempdir().unwrap() })
    }

    /// Another data folder without records.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn fresh(&self) -> Self {
        Self { guests: self.guests.clone(), data: with_compiled() }
    }

    /// Another data folder in which the plugins of this one are compiled, so that runs begin at once.
    pub(crate) fn warm(&self) -> Self {
        compiled::take_back(self.data.path());
        self.fresh()
    }

    pub(crate) fn guest(&self, name: &str) -> String {
        self.guests.join(format!("{name}.wasm")).display().to_string()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clawhost"));
        command.args(arguments).env_clear().env("CLAWHOST_HOME", self.data.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that succeeds, and parses its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command that succeeds, and parses its JSON, without values that differ between equal runs.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn outside_timing(&self, arguments: &[&str]) -> Value {
        without_timing(self.json(arguments)).0
    }

    /// Runs a command that succeeds, and returns its output.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Says what an episode of a gateway is worth. The gateway records an episode, and its end, a moment after it has answered; until then it is asked again.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn judge(&self, episode: &str, score: &str) {
        loop {
            let output = self.run(&["feedback", episode, "--score", score]);
            if output.status.success() {
                return;
            }
            let said = stderr(&output);
            assert!(["no episode", "no run", "has not ended"].iter().any(|early| said.contains(early)), "{said}");
        }
    }

    /// Checks that a command is refused as a usage error with these texts.
    #[allow(dead_code, reason = "each suite uses its part")]
    pub(crate) fn refused(&self, arguments: &[&str], says: &[&str]) {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        says.iter().for_each(|part| assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output)));
    }
}

/// A document, and its values that differ between equal runs.
pub(crate) fn without_timing(mut document: Value) -> (Value, Value) {
    let timing = document.as_object_mut().unwrap().remove("timing").unwrap();
    (document, timing)
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes of all files in a folder.
#[allow(dead_code, reason = "each suite uses its part")]
pub(crate) fn contents(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        all.extend(if path.is_dir() { contents(&path) } else { std::fs::read(&path).unwrap() });
    }
    all
}
