//! What authors wait for: from `clawhost new` to a scored episode, from an edit to the next trial, `inspect`, `check`.
//!
//! `cargo bench -p clawhost-cli --bench author`, after `cargo xtask guests`. It needs the target wasm32-unknown-unknown and, for the first build of
//! libraries, a network or a filled registry cache of cargo. Prints a table.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a measurement that cannot continue has failed"
)]

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Repetitions of what is quick.
const ROUNDS: usize = 21;
/// Edits of `dev`.
const EDITS: usize = 7;
/// Plugins that ship whose check is timed.
const CHECKED: [&str; 4] = ["env_shop", "env_math", "env_guess", "reward_exact"];

fn clawhost(folder: &Path, data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clawhost"));
    command.args(arguments).current_dir(folder).env("CLAWHOST_HOME", data).env("CARGO_TERM_COLOR", "never");
    for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_INCREMENTAL"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    let output = command.output().expect("the program");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
    began.elapsed()
}

/// New, build, and one scored episode.
fn to_the_first_episode(place: &Path, data: &Path, template: &str, name: &str) -> Duration {
    let folder = place.join(name);
    let mut all = timed(&mut clawhost(place, data, &["new", template, name]));
    all += timed(&mut clawhost(&folder, data, &["build", "--quiet"]));
    all + timed(&mut clawhost(&folder, data, &["run", ".", "--episodes", "1", "--quiet"]))
}

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |time: &Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    let (least, most, median) = (&times[0], &times[times.len() - 1], &times[times.len() / 2]);
    println!("| {what} | {} | {} to {} | {} |", ms(median), ms(least), ms(most), times.len());
}

/// The time from an edit to the component that replaces the one before.
fn edits(folder: &Path, data: &Path) -> Vec<Duration> {
    let mut child = clawhost(folder, data, &["dev", "--json"]).stdout(Stdio::piped()).spawn().expect("dev");
    let mut events = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut until = |name: &str| loop {
        let line = events.next().expect("it goes on").expect("a line");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        if event["event"] == name {
            return;
        }
    };
    until("waiting");
    let file = folder.join("src/lib.rs");
    let source = std::fs::read_to_string(&file).expect("the source");
    let mut times = Vec::new();
    for edit in 0..EDITS {
        let began = Instant::now();
        std::fs::write(&file, source.replace("\"Right.\"", &format!("\"Right, {edit}.\""))).expect("an edit");
        until("accepted");
        times.push(began.elapsed());
        until("waiting");
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    times
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guests = std::env::var_os("CLAWHOST_GUESTS").map_or_else(|| root.join("target/guests"), Into::into);
    let place = tempfile::tempdir().expect("a folder");
    let data = place.path().join("data");
    println!("| what | median ms | least to greatest | rounds |\n|---|---|---|---|");
    row(
        "`new` to the first scored episode, nothing built before",
        vec![to_the_first_episode(place.path(), &data, "environment", "first")],
    );
    let warm = |round: usize| to_the_first_episode(place.path(), &data, "environment", &format!("tower-{round}"));
    row("the same, with libraries that another plugin had built", (0..EDITS).map(warm).collect());
    row("an edit to the new component in `dev`, tests included", edits(&place.path().join("first"), &data));
    let version = |_| timed(&mut clawhost(place.path(), &data, &["--version"]));
    row("`--version` (what any command costs)", (0..ROUNDS).map(version).collect());
    for plugin in ["env_shop", "reward_exact"] {
        let path = guests.join(format!("{plugin}.wasm")).display().to_string();
        let inspect = |_| timed(&mut clawhost(place.path(), &data, &["inspect", &path]));
        inspect(0);
        row(&format!("`inspect` of {plugin}"), (0..ROUNDS).map(inspect).collect());
    }
    for plugin in CHECKED {
        let path = guests.join(format!("{plugin}.wasm")).display().to_string();
        let check = |_| timed(&mut clawhost(place.path(), &data, &["check", &path]));
        row(&format!("`check` of {plugin}"), (0..3).map(check).collect());
    }
    let first = place.path().join("first");
    let check = |_| timed(&mut clawhost(&first, &data, &["check"]));
    row("`check` of the new environment, oracle and floor included", (0..3).map(check).collect());
}
