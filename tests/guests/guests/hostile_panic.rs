//! Panics, with terminal escapes in its message.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-panic";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        panic!("\u{1b}[2Jthe guest gives up");
    }
}

export_environment!(Guest);
