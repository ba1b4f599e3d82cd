//! Computes for a while, then continues.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

impl Environment for Guest {
    const NAME: &'static str = "odd-thinking";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        let mut number = 1u64;
        for _ in 0..20_000_000 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        Ok(Next::Continue(number.to_string()))
    }
}

export_environment!(Guest);
