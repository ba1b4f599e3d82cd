//! Sleeps for an hour of virtual time.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "hostile-sleep";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        let before = wasip2::clocks::monotonic_clock::now();
        wasip2::clocks::monotonic_clock::subscribe_duration(3_600_000_000_000).block();
        let slept = wasip2::clocks::monotonic_clock::now() - before;
        Ok(Next::Done(format!("slept {} s", slept / 1_000_000_000)))
    }
}

export_environment!(Guest);
