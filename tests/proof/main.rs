//! Proofs end to end: a run is packed into one file and verified from it alone, and whatever is changed in the file is found.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]

#[path = "../common/bench.rs"]
mod bench;
#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/guests.rs"]
mod guests;

mod adapter;
mod card;
mod forging;
mod honest;
mod local;
mod private;
mod refusals;
mod tampering;

use bench::{Bench, stderr, stdout};
use serde_json::Value;
use std::path::PathBuf;

/// The exit code of a bundle that was changed.
const CHANGED: i32 = 8;

impl Bench {
    /// A small learning run on the shop, with the built-in follower.
    fn learned(&self) {
        let (shop, reward) = (self.guest("env_shop"), self.guest("reward_state"));
        let reflector = self.guest("reflector_rules");
        let words = ["learn", &shop, "--reward", &reward, "--reflector", &reflector, "--layer", "harness", "-q"];
        let numbers = ["--budget", "120", "--seed", "0", "--test-pairs", "30"];
        self.json(&[&words[..], &numbers].concat());
    }

    /// Packs the newest run.
    fn proved(&self, name: &str, more: &[&str]) -> PathBuf {
        let file = self.data.path().join(name);
        let out = file.display().to_string();
        self.json(&[&["prove", "last", "--out", &out, "-q"], more].concat());
        file
    }

    /// Verifies a bundle. Returns the exit code and the report.
    fn verified(&self, file: &std::path::Path, more: &[&str]) -> (i32, Value) {
        let file = file.display().to_string();
        let output = self.run(&[&["verify", &file, "--json", "-q"], more].concat());
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}{}", stdout(&output), stderr(&output)));
        (output.status.code().unwrap(), report["verified"].clone())
    }
}

/// The count of a statement of a class whose words begin so.
fn count(report: &Value, class: &str, begins: &str) -> Option<u64> {
    let all = report[class].as_array().unwrap().iter();
    let mut found = all.filter(|one| one["what"].as_str().unwrap().starts_with(begins));
    found.next()?["count"].as_u64()
}
