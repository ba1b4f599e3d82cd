//! Names a part twice.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "hostile-parts";

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored(0.5).with_part("a", 1.0).with_part("a", 2.0))
    }
}

export_reward!(Guest);
