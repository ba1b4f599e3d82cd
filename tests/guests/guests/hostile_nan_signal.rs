//! Reports a distance that is not a number.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-nan-signal";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        _signals.set("distance", f64::NAN);
        Ok(Next::Continue("on".into()))
    }
}

export_environment!(Guest);
