//! Reports 300 signals, a few more than a turn may have.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-signals-300";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        for number in 0..300 {
            _signals.set(&format!("signal-{number}"), 0.0);
        }
        Ok(Next::Continue("on".into()))
    }
}

export_environment!(Guest);
