//! Requests more random bytes than one call returns.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "odd-random";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        Ok(Next::Continue(wasip2::random::random::get_random_bytes(1 << 20).len().to_string()))
    }
}

export_environment!(Guest);
