//! Panics if an answer is no number, as an environment does that was tried with one agent only.

use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};

struct Guest(u64);

impl Environment for Guest {
    const NAME: &'static str = "weak-brittle";

    fn start(_: &str, seed: u64) -> Result<(Self, String)> {
        Ok((Guest(seed % 10), format!("Say {}.", seed % 10)))
    }

    fn step(&mut self, action: &str, signals: &mut Signals) -> Result<Next> {
        let digit = action.chars().next().and_then(|first| first.to_digit(10));
        signals.set("right", f64::from(u8::from(u64::from(digit.expect("a digit")) == self.0)));
        Ok(Next::Done("Thank you.".into()))
    }
}

export_environment!(Guest);
