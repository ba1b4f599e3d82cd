//! Scores with infinity.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "hostile-infinite";

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored(f64::INFINITY))
    }
}

export_reward!(Guest);
