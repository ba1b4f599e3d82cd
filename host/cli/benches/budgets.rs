//! Learning with few episodes: the lift on houses of the shop that nobody tuned on, beside placebos.
//!
//! `cargo bench -p clawhost-cli --bench budgets [-- FIRST COUNT BUDGET...]`, after `cargo xtask guests`. A run whose candidate does not pass
//! counts with a lift of 0. Equal arguments print equal figures.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a measurement that cannot continue has failed"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first house: none that a constant was chosen on.
const FIRST: u64 = 101;
const HOUSES: u64 = 20;
const BUDGETS: [u64; 4] = [100, 150, 300, 1_000];
/// Pairs of the test.
const TEST: &str = "200";

struct Learned {
    lift: f64,
    train: u64,
    gate: u64,
    has_passed: bool,
}

fn guest(folder: &Path, name: &str) -> String {
    folder.join(format!("{name}.wasm")).display().to_string()
}

fn learn(folder: &Path, house: u64, budget: u64, mode: &str) -> Learned {
    let data = tempfile::tempdir().expect("a folder");
    let shop = format!("{}?house={house}", guest(folder, "env_shop"));
    let reflector = format!("{}?mode={mode}", guest(folder, "reflector_rules"));
    let (reward, budget, seed) = (guest(folder, "reward_state"), budget.to_string(), house.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_clawhost"));
    command.args(["learn", &shop, "--reward", &reward, "--reflector", &reflector, "--layer", "harness"]);
    command.args(["--budget", &budget, "--seed", &seed, "--test-pairs", TEST, "--json", "-q"]);
    let output = command.env("CLAWHOST_HOME", data.path()).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mean = |name: &str| document[name]["mean"].as_f64().expect("a mean");
    let episodes = |name: &str| document["episodes"][name].as_u64().expect("a number");
    let sessions = document["learn"]["iterations"].as_array().expect("iterations");
    Learned {
        lift: mean("heldout_after") - mean("heldout_before"),
        train: episodes("train"),
        gate: episodes("gate"),
        has_passed: sessions.iter().any(|one| one["gate"]["decision"] == "promote"),
    }
}

/// Mean and standard error.
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (first, count) = (numbers.first().copied().unwrap_or(FIRST), numbers.get(1).copied().unwrap_or(HOUSES));
    let budgets = if numbers.len() > 2 { numbers[2..].to_vec() } else { BUDGETS.to_vec() };
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
    let folder = std::env::var_os("CLAWHOST_GUESTS").map_or(built, PathBuf::from);
    println!("houses {first} to {}", first + count - 1);
    println!("| budget | proposals | lift | standard error | smallest | passed | training | gate |");
    println!("|---|---|---|---|---|---|---|---|");
    for budget in budgets {
        for mode in ["rules", "shuffled", "silent"] {
            let all: Vec<Learned> = (first..first + count).map(|house| learn(&folder, house, budget, mode)).collect();
            let lifts: Vec<f64> = all.iter().map(|one| one.lift).collect();
            let (lift, error) = mean(&lifts);
            let smallest = lifts.iter().copied().fold(f64::INFINITY, f64::min);
            let passed = all.iter().filter(|one| one.has_passed).count();
            let each = |of: fn(&Learned) -> u64| all.iter().map(of).sum::<u64>() as f64 / count as f64;
            println!(
                "| {budget} | {mode} | {lift:+.3} | {error:.3} | {smallest:+.3} | {passed} of {count} | {:.0} | {:.0} |",
                each(|one| one.train),
                each(|one| one.gate)
            );
        }
    }
}
