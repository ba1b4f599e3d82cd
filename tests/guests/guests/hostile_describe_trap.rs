//! Traps in `describe`.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Split, Step, export_environment};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "hostile-describe-trap";

    fn splits() -> Vec<Split> {
        panic!("I would rather not say");
    }

    fn start(_: &Params) -> Result<(Self, Opening)> {
        Ok((Guest, Opening::text("act")))
    }

    fn step(&mut self, _: &Action, _: &mut Signals) -> Result<Step> {
        Ok(Step::done("done"))
    }
}

export_environment!(Guest);
