//! Repeats its input: the benchmark's guest.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "odd-echo";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "speak".into()))
    }

    fn step(&mut self, action: &str, _signals: &mut Signals) -> Result<Next> {
        Ok(Next::Continue(action.to_owned()))
    }
}

export_environment!(Guest);
