//! Logs one line of 40 MiB, which fits into its memory.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-log-line";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        clawhost_sdk::log::info(&"x".repeat(40 << 20));
        Ok(Next::Done("logged".into()))
    }
}

export_environment!(Guest);
