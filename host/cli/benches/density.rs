//! How dense and how fast: calls, live episodes, scoring, durable episodes, neighbours, fuel, and the same environment
//! elsewhere.
//!
//! `cargo xtask guests && cargo bench -p clawhost-cli --bench density` prints markdown tables; names of parts behind `--`
//! choose among them. It asserts no time: machines differ. What is compared runs in one process, one after the other.
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
#[path = "density/figures.rs"]
mod figures;
#[path = "density/live.rs"]
mod live;
#[path = "density/plugins.rs"]
mod plugins;

/// Parts in the order in which they are printed.
const PARTS: [&str; 2] = ["calls", "live"];

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{}; median of {} rounds", figures::machine(), figures::ROUNDS);
    for part in PARTS.iter().filter(|part| named.is_empty() || named.iter().any(|name| name == *part)) {
        // One thread for everything but SQLite's writer and the ticker: figures per core.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match *part {
            "calls" => runtime.block_on(calls::measure()),
            _ => runtime.block_on(live::measure()),
        }
    }
}
