//! Benchmarks of density and speed: calls, live episodes, scoring, durable episodes, neighbours, fuel, and the same
//! environment in other systems.
//!
//! `cargo xtask guests && cargo bench -p clawhost-cli --bench density` prints markdown tables. Names of parts after
//! `--` select parts. Nothing asserts a time: machines differ. Compared systems run in one process, one after the
//! other.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark that fails has failed"
)]

#[path = "density/calls.rs"]
mod calls;
#[path = "density/elsewhere.rs"]
mod elsewhere;
#[path = "density/figures.rs"]
mod figures;
#[path = "density/fuel.rs"]
mod fuel;
#[path = "density/live.rs"]
mod live;
#[path = "density/neighbours.rs"]
mod neighbours;
#[path = "density/plugins.rs"]
mod plugins;
#[path = "density/recorded.rs"]
mod recorded;
#[path = "density/scoring.rs"]
mod scoring;

/// Parts in the order in which they are printed. Live episodes come first: memory that other parts leave in the process
/// would be counted as theirs.
const PARTS: [&str; 7] = ["live", "calls", "scoring", "recorded", "neighbours", "fuel", "elsewhere"];

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    // This part runs in its own process.
    if let [part, guest] = named.as_slice()
        && part == live::HOLD
    {
        return one_thread().block_on(live::hold(guest));
    }
    println!("{}; median of {} rounds", figures::machine(), figures::ROUNDS);
    for part in PARTS.iter().filter(|part| named.is_empty() || named.iter().any(|name| name == *part)) {
        match *part {
            "live" => one_thread().block_on(live::measure()),
            "calls" => one_thread().block_on(calls::measure()),
            "scoring" => one_thread().block_on(scoring::measure()),
            "recorded" => recorded::measure(),
            "neighbours" => neighbours::measure(),
            "fuel" => one_thread().block_on(fuel::measure()),
            _ => one_thread().block_on(elsewhere::measure()),
        }
    }
}

/// One thread for everything except SQLite's writer and the ticker, for figures per core.
fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
