//! Calls exit as a program would.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-exit";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        wasip2::cli::exit::exit(Ok(()));
        Ok(Next::Continue("still here".into()))
    }
}

export_environment!(Guest);
