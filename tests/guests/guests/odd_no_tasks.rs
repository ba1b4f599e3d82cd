//! Has a split without tasks.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Split, Step, export_environment};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "odd-no-tasks";

    fn splits() -> Vec<Split> {
        vec![Split::new("train", 0)]
    }

    fn start(_: &Params) -> Result<(Self, Opening)> {
        Ok((Guest, Opening::text("act")))
    }

    fn step(&mut self, _: &Action, _: &mut Signals) -> Result<Step> {
        Ok(Step::done("done"))
    }
}

export_environment!(Guest);
