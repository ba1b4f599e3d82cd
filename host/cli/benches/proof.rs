//! How fast a proof is made and verified: episodes of the shop per second and processor, after compiling.
//!
//! `cargo xtask guests && cargo bench -p clawhost-cli --bench proof [-- EPISODES]`. Verifying runs on one thread, so that the figure is per
//! processor; then with all processors. Nothing asserts a time: machines differ.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark that fails has failed"
)]

use clawhost_app::{HostSettings, Silent, VerifyRequest, verify};
use clawhost_play::Cancel;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const EPISODES: u64 = 8_000;
const ROUNDS: usize = 3;

fn guest(name: &str) -> String {
    let folder = std::env::var_os("CLAWHOST_GUESTS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests"), PathBuf::from);
    folder.join(format!("{name}.wasm")).display().to_string()
}

fn program(data: &Path, words: &[&str]) -> Duration {
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_clawhost")).args(words).env("CLAWHOST_HOME", data).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    begun.elapsed()
}

/// The time of a verification, from reading to the report. What compiling takes is measured with one episode and taken off.
fn verified(file: &Path, sample: Option<u64>, threads: usize) -> Duration {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
    let request = VerifyRequest { sample, seed: Some(1), host: HostSettings::default(), ..VerifyRequest::new(file) };
    let begun = Instant::now();
    let report = runtime.block_on(verify(&request, &Cancel::default(), &Silent)).unwrap();
    assert!(report.differences.is_empty(), "{:?}", report.differences);
    begun.elapsed()
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let episodes = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(EPISODES);
    let data = tempfile::tempdir().unwrap();
    let (shop, reward, count) = (guest("env_shop"), guest("reward_state"), episodes.to_string());
    let played = program(data.path(), &["run", &shop, "--reward", &reward, "--episodes", &count, "-q"]);
    let (small, large) = (data.path().join("small"), data.path().join("large"));
    let out = large.display().to_string();
    let packed = program(data.path(), &["prove", "last", "--out", &out, "-q"]);
    program(data.path(), &["run", &shop, "--reward", &reward, "--episodes", "1", "-q"]);
    program(data.path(), &["prove", "last", "--out", &small.display().to_string(), "-q"]);
    let bytes = std::fs::metadata(&large).unwrap().len();
    println!("{episodes} episodes of the shop with one reward; median of {ROUNDS} rounds");
    println!(
        "played in {:.2} s, packed in {:.2} s, {:.0} bytes per episode",
        played.as_secs_f64(),
        packed.as_secs_f64(),
        bytes as f64 / episodes as f64
    );
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("\n| processors | episodes per second | per processor |\n|---|---|---|");
    for threads in [1, processors] {
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| verified(&large, None, threads).saturating_sub(verified(&small, None, threads)).as_secs_f64())
            .collect();
        times.sort_by(f64::total_cmp);
        let rate = episodes as f64 / times[ROUNDS / 2];
        println!("| {threads} | {rate:.0} | {:.0} |", rate / threads as f64);
    }
}
