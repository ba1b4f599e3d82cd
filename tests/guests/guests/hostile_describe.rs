//! Never returns from `describe`.

use clawhost_sdk::{Action, MessageEnvironment, Opening, Params, Result, Signals, Split, Step, export_environment};

struct Guest;

impl MessageEnvironment for Guest {
    const NAME: &'static str = "hostile-describe";

    fn splits() -> Vec<Split> {
        let mut number = 1u64;
        while std::hint::black_box(number) > 0 {
            number = number.wrapping_mul(3);
        }
        Vec::new()
    }

    fn start(_: &Params) -> Result<(Self, Opening)> {
        Ok((Guest, Opening::text("act")))
    }

    fn step(&mut self, _: &Action, _: &mut Signals) -> Result<Step> {
        Ok(Step::done("done"))
    }
}

export_environment!(Guest);
