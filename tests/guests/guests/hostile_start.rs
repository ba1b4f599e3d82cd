//! Refuses every task.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-start";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Err("no such task".into())
    }

    fn step(&mut self, _: &str, _: &mut Signals) -> Result<Next> {
        Ok(Next::Done("done".into()))
    }
}

export_environment!(Guest);
