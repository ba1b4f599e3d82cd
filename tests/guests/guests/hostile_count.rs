//! Returns one verdict too few.

use clawhost_sdk::{Context, Episode, Group, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "hostile-count";

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored(0.5))
    }

    fn score_group(group: &Group, _: &Context) -> Result<Vec<Verdict>> {
        Ok(group.episodes().iter().skip(1).map(|_| Verdict::scored(0.5)).collect())
    }
}

export_reward!(Guest);
