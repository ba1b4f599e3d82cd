//! Recurses without end.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest;

#[allow(unconditional_recursion)]
fn deeper(number: u64) -> u64 {
    std::hint::black_box(deeper(std::hint::black_box(number + 1)) + 1)
}

impl Environment for Guest {
    const NAME: &'static str = "hostile-recursion";

    fn start(_task: &str, _seed: u64) -> Result<(Self, String)> {
        Ok((Guest, "act".into()))
    }

    fn step(&mut self, _action: &str, _signals: &mut Signals) -> Result<Next> {
        Ok(Next::Continue(deeper(1).to_string()))
    }
}

export_environment!(Guest);
