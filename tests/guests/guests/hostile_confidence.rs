//! Returns a confidence above 1.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "hostile-confidence";

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored(0.5).with_confidence(1.5))
    }
}

export_reward!(Guest);
