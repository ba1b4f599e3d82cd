//! What a gateway costs: its processor time and memory, the latency that it adds, and the streams that it carries.
//!
//! The model, the load and the gateway are processes of their own. Where the machine has two cores, the gateway has one for itself.
//! Direct requests and requests through a gateway alternate, and only ratios and differences of one run are compared.
//!
//! A bare proxy on the same HTTP library shows what any gateway costs at least on this machine.
//!
//! `cargo bench -p clawhost-gateway --bench gateway -- [PART ...]` measures this crate's gateway; parts: `single`, `busy`, `rates`,
//! `streams`, `translation`, `memory`, `training`. `--program PATH` measures `PATH serve` instead, and beside it
//! `PATH serve --mode skills` with a playbook of 1,000 entries; `training` needs it. `--litellm PATH` and `--portkey SCRIPT` add peers,
//! which capture nothing. Nothing here asserts a time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "a benchmark that cannot go on has failed"
)]

#[path = "gateway/bare.rs"]
mod bare;
#[path = "gateway/load.rs"]
mod load;
#[path = "gateway/mock.rs"]
mod mock;
#[path = "gateway/own.rs"]
mod own;
#[path = "gateway/parts.rs"]
mod parts;
#[path = "gateway/process.rs"]
mod process;
#[path = "gateway/training.rs"]
mod training;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let rest = arguments.get(1..).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some("mock") => mock::main(),
        Some("load") => load::main(rest),
        Some("bare") => bare::main(rest),
        Some("own") => own::main(rest),
        _ => parts::main(&arguments),
    }
}

/// A runtime on the cores that the process may use.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}
