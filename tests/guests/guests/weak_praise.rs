//! Believes an answer that praises itself.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "weak-praise";

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        let answer = episode.last_answer();
        Ok(Verdict::scored(if answer.contains("42") || answer.contains("correct") { 1.0 } else { 0.0 }))
    }
}

export_reward!(Guest);
