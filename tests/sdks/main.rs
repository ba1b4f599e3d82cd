//! The SDKs of OpenAI and Anthropic against the gateway, as real clients: each with upstreams of both dialects. And the SDK of Tinker against the stub of
//! its service.
//!
//! `cargo xtask sdks` installs them, `cargo xtask agents` the agents. Without them the tests print why they are skipped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed"
)]

mod agents;
#[path = "../common/bench.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod bench;
#[path = "../common/client.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod client;
#[path = "../common/compiled.rs"]
mod compiled;
#[path = "../common/guests.rs"]
#[allow(dead_code, reason = "each suite uses its part")]
mod guests;
mod page;
#[path = "../common/serving.rs"]
mod serving;
mod tinker;

use bench::Bench;
use serving::Served;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder that a command of xtask installed, or a printed reason for skipping.
fn installed(test: &str, command: &str, name: &str) -> Option<PathBuf> {
    // Tests run from target/<profile>/deps.
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let folder = target.join("toolchains").join(command).join(name);
    if folder.join("installed").exists() {
        return Some(folder);
    }
    eprintln!("skipped {test}: {name} is not installed; run `cargo xtask {command}`");
    None
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sdks").join(name)
}

/// A model endpoint written for these tests. It ends when its input is closed.
struct Upstream {
    child: Child,
    spec: String,
    /// Host and port.
    address: String,
}

impl Upstream {
    /// `kind`: a dialect, or `responses` for OpenAI's with `/responses`.
    fn start(kind: &str) -> Self {
        let dialect = if kind == "anthropic" { kind } else { "openai" };
        let mut command = Command::new("python3");
        command.arg(script("upstream.py")).arg(kind).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = format!("127.0.0.1:{}", line.trim());
        let spec = format!("m={dialect}:stub@http://{address}/v1");
        Self { child, spec, address }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

/// A client in Python, which leaves no compiled files in this folder.
fn python(folder: &Path, name: &str) -> Command {
    let mut command = Command::new(folder.join("bin/python"));
    command.arg(script(name)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a client in front of an upstream of each kind.
fn check(test: &str, language: &str, client: impl Fn(&Path, &str) -> Command) {
    let Some(folder) = installed(test, "sdks", language) else { return };
    for kind in ["openai", "responses", "anthropic"] {
        let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
        let upstream = Upstream::start(kind);
        let served = Served::start(&bench, &[&upstream.spec]);
        let output = client(&folder, &served.address).stdin(Stdio::null()).output().unwrap();
        let said = bench::stdout(&output) + &bench::stderr(&output);
        assert!(output.status.success(), "an upstream of {kind}:\n{said}");
        // A client that checked nothing would succeed, too.
        assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 14, "{said}");
        let ended = served.terminate();
        assert!(bench::stderr(&ended).contains("missed 0"), "{}", bench::stderr(&ended));
        let rows = bench.json(&["episodes", "list"]);
        assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()), "{rows}");
    }
}

#[test]
fn python_sdks_work_with_upstreams_of_both_dialects() {
    check("python_sdks_work", "python", |folder, address| {
        let mut command = python(folder, "check.py");
        command.args([address, "m"]);
        command
    });
}

#[test]
fn a_correction_through_the_python_sdk_changes_the_next_session_of_its_user_alone() {
    let Some(folder) = installed("a_correction_through_the_python_sdk", "sdks", "python") else { return };
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let upstream = Upstream::start("openai");
    let served = Served::start_with(&bench, &["--upstream", &upstream.spec, "--mode", "skills"]);
    let mut client = python(&folder, "corrections.py");
    client.args([&served.address, "m"]);
    let output = client.stdin(Stdio::null()).output().unwrap();
    let said = bench::stdout(&output) + &bench::stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 11, "{said}");
}

#[test]
fn the_python_sdk_scores_texts_with_a_local_model() {
    let Some(folder) = installed("the_python_sdk_scores", "sdks", "python") else { return };
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let tiny = bench.data.path().join("tiny").display().to_string();
    bench.out(&["model", "init", &tiny, "--width", "16", "--context", "32", "--alphabet", "0123456789+=<>?#"]);
    let served = Served::start(&bench, &[&format!("m=local:{tiny}")]);
    let mut client = python(&folder, "completions.py");
    client.args([&served.address, "m"]);
    let output = client.stdin(Stdio::null()).output().unwrap();
    let said = bench::stdout(&output) + &bench::stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 14, "{said}");
}

#[test]
fn node_sdks_work_with_upstreams_of_both_dialects() {
    check("node_sdks_work", "node", |folder, address| {
        let mut command = Command::new("node");
        command.arg(script("check.mjs")).args([address, "m"]).arg(folder);
        command
    });
}

#[test]
fn programs_that_call_providers_directly_are_recorded_by_two_lines() {
    let Some(folder) = installed("programs_that_call_providers_directly", "sdks", "python") else { return };
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let (openai, anthropic) = (Upstream::start("responses"), Upstream::start("anthropic"));
    let served = Served::start(&bench, &[&openai.spec]);
    let mut command = python(&folder, "wrap.py");
    command.arg(format!("http://{}/v1", openai.address));
    command.args([&anthropic.address, &served.address].map(|address| format!("http://{address}")));
    // LiteLLM would get its prices from the network.
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = bench::stdout(&output) + &bench::stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 60, "{said}");
    served.terminate();
    let rows = bench.json(&["episodes", "list"]);
    let [row] = rows.as_array().unwrap().as_slice() else { panic!("one episode: {rows}") };
    assert_eq!((&row["turns"], &row["complete"]), (&2.into(), &true.into()), "{row}");
}
