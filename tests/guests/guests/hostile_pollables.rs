//! Subscribes to thousands of sleeps and drops none.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-pollables";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        let held: Vec<_> = (0..5_000).map(wasip2::clocks::monotonic_clock::subscribe_duration).collect();
        let all: Vec<_> = held.iter().collect();
        Ok(Next::Done(wasip2::io::poll::poll(&all).len().to_string()))
    }
}

export_environment!(Guest);
