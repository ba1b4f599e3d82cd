//! Logs twenty thousand errors.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-log-errors";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        for _ in 0..20_000 {
            clawhost_sdk::log::error("the same line again");
        }
        Ok(Next::Done("logged".into()))
    }
}

export_environment!(Guest);
