//! Fails in nine of ten episodes.

use clawhost_sdk::{Environment, Next, Random, Result, Signals, export_environment};

struct Guest(bool);

impl Environment for Guest {
    const NAME: &'static str = "odd-failing";

    fn start(_task: &str, seed: u64) -> Result<(Self, String)> {
        Ok((Guest(Random::new(seed).below(10) > 0), "act".into()))
    }

    fn step(&mut self, _: &str, _: &mut Signals) -> Result<Next> {
        if self.0 {
            panic!("unlucky");
        }
        Ok(Next::Done("done".into()))
    }
}

export_environment!(Guest);
