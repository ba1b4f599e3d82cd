//! Ignores the seed: every episode is the same.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "weak-seeds";

    fn start(_: &str, _: u64) -> Result<(Self, String)> {
        Ok((Guest, "Say yes or no.".into()))
    }

    fn step(&mut self, action: &str, signals: &mut Signals) -> Result<Next> {
        signals.set("right", f64::from(u8::from(action.trim() == "yes")));
        Ok(Next::Done("Thank you.".into()))
    }
}

export_environment!(Guest);
