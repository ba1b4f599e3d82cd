//! Judges a group by its order: the first episode is the best.

use clawhost_sdk::{Context, Episode, Group, Result, Reward, Scope, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "weak-order";
    const SCOPE: Scope = Scope::Group;

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Err("it needs the group".into())
    }

    fn score_group(group: &Group, _: &Context) -> Result<Vec<Verdict>> {
        let value = |(position, _)| Verdict::scored(if position == 0 { 1.0 } else { 0.0 });
        Ok(group.episodes().iter().enumerate().map(value).collect())
    }
}

export_reward!(Guest);
