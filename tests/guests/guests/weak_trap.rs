//! A reward that panics if an answer has no word.

use clawhost_sdk::{Context, Episode, Result, Reward, Verdict, export_reward};

struct Guest;

impl Reward for Guest {
    const NAME: &'static str = "weak-trap";

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        let answer = episode.last_answer();
        let word = answer.split_whitespace().next().expect("a word");
        Ok(Verdict::scored(if word == "42" { 1.0 } else { 0.0 }))
    }
}

export_reward!(Guest);
