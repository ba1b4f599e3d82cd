//! `cargo xtask fuzz`: runs every fuzz target for some seconds, starting from the seeds of the tests.

use crate::{root, run, say, target};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// Seconds per target: a short run, but long enough to get beyond the seeds.
const SECONDS: u64 = 60;

/// Largest size of an input. Larger ones make each execution slower and find nothing more.
const SEED_BYTES: u64 = 70_000;

/// The names of the targets in `tests/fuzz`.
const TARGETS: [&str; 9] = [
    "component",
    "episode",
    "snapshot",
    "message",
    "reply",
    "client_request",
    "answer_stream",
    "exchange",
    "placement",
];

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    let mut seconds = SECONDS;
    let mut wanted = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--seconds" => {
                let text = rest.next().context("--seconds needs a number")?;
                seconds = text.parse().with_context(|| format!("`{text}` is no number of seconds"))?;
            }
            name if TARGETS.contains(&name) => wanted.push(name),
            other => bail!("`{other}` is no fuzz target; there are {}", TARGETS.join(", ")),
        }
    }
    if wanted.is_empty() {
        wanted = TARGETS.to_vec();
    }
    let has = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    if !has("cargo", &["fuzz", "--version"]) || !has("cargo", &["+nightly", "--version"]) {
        bail!(
            "fuzzing needs a nightly compiler and cargo-fuzz: `rustup toolchain install nightly --profile minimal`, then \
             `cargo install cargo-fuzz`"
        );
    }
    let work = target()?.join("fuzz");
    for name in wanted {
        let corpus = work.join("corpus").join(name);
        seed(&corpus)?;
        say(&format!("{name}: {seconds} s"));
        // The tested parsers are safe Rust: the address sanitizer would find nothing and halve the speed.
        let mut command = Command::new("cargo");
        command.current_dir(root()).args(["+nightly", "fuzz", "run", "--sanitizer", "none", "--fuzz-dir"]);
        command.args(["tests/fuzz/libfuzzer", "--target-dir"]).arg(work.join("build")).arg(name).arg(&corpus);
        run(command
            .args(["--", "-timeout=10", "-rss_limit_mb=2048", "-max_len=131072"])
            .arg(format!("-max_total_time={seconds}")))?;
    }
    Ok(())
}

/// Copies the seeds into the corpus of earlier runs.
fn seed(corpus: &Path) -> Result<()> {
    std::fs::create_dir_all(corpus)?;
    let folders = ["tests/golden", "tests/golden/wire", "tests/fuzz/seeds"].map(|folder| root().join(folder));
    for folder in folders.iter().chain([&target()?.join("guests")]) {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let small = path.metadata().is_ok_and(|file| file.is_file() && file.len() < SEED_BYTES);
            if let Some(name) = path.file_name().filter(|_| small) {
                std::fs::copy(&path, corpus.join(name)).with_context(|| path.display().to_string())?;
            }
        }
    }
    Ok(())
}
