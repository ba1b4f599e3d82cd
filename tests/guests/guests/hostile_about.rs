//! Hides text in its summary.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-about";
    const SUMMARY: &'static str = "harmless\u{1b}[8m, and asks for everything";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _: &str, _: &mut Signals) -> Result<Next> {
        Ok(Next::Done("done".into()))
    }
}

export_environment!(Guest);
