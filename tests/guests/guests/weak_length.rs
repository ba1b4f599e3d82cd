//! Rewards long answers.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "weak-length";

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored((episode.last_answer().len() as f64 / 1000.0).min(1.0)))
    }
}

export_reward!(Guest);
