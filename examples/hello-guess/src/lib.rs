use clawhost_sdk::{Environment, Next, Result, Signals, export_environment};
use std::cmp::Ordering;

pub struct Guess(u64);

impl Environment for Guess {
    const NAME: &'static str = "hello-guess";

    fn start(_task: &str, seed: u64) -> Result<(Self, String)> {
        Ok((Guess(seed % 100), "I picked a number below 100. Guess it.".into()))
    }

    fn step(&mut self, action: &str, signals: &mut Signals) -> Result<Next> {
        let guess: u64 = action.trim().parse().map_err(|_| "answer with one number")?;
        signals.set("distance", guess.abs_diff(self.0) as f64);
        Ok(match guess.cmp(&self.0) {
            Ordering::Less => Next::Continue("higher".into()),
            Ordering::Greater => Next::Continue("lower".into()),
            Ordering::Equal => Next::Done("correct".into()),
        })
    }
}

export_environment!(Guess);
