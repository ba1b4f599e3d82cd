//! Declares a range beyond -1 to 1.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "hostile-scale";
    const RANGE: (f64, f64) = (0.0, 10.0);

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored(7.0))
    }
}

export_reward!(Guest);
