//! Reports everything that it can see of the outside.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "odd-wasi";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        let now = wasip2::clocks::wall_clock::now();
        let (one, two) = wasip2::random::insecure_seed::insecure_seed();
        Ok(Next::Continue(format!(
            "time {}.{} random {:?} seed {one} {two} arguments {:?} environment {:?} folders {}",
            now.seconds,
            now.nanoseconds,
            wasip2::random::random::get_random_bytes(8),
            wasip2::cli::environment::get_arguments(),
            wasip2::cli::environment::get_environment(),
            wasip2::filesystem::preopens::get_directories().len(),
        )))
    }
}

export_environment!(Guest);
