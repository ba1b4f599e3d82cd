//! Scores outside the range that it declares.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "hostile-range";

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored(1.5))
    }
}

export_reward!(Guest);
