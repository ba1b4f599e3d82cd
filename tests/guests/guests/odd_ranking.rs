//! Judges a group together: the episode with the fewest turns is best. Asks a model about the group, if granted.

use clawhost_sdk::{Context, Episode, Group, Result, Reward, Scope, Verdict, export_reward};

struct Ranking;

impl Reward for Ranking {
    const NAME: &'static str = "odd-ranking";
    const SCOPE: Scope = Scope::Group;

    fn score(_: &Episode, _: &Context) -> Result<Verdict> {
        Err("a ranking needs the group".into())
    }

    fn score_group(group: &Group, _: &Context) -> Result<Vec<Verdict>> {
        let turns: Vec<u32> = group.episodes().iter().map(|episode| episode.turn_count()).collect();
        let judge = clawhost_sdk::llm::ask("judge", &format!("Calculate {} + 1.", turns.len())).ok();
        let rank = |own: u32| turns.iter().filter(|other| **other > own).count() as f64 / turns.len() as f64;
        clawhost_sdk::log::info(&format!("{} episodes", turns.len()));
        let scored = |own: &u32| Verdict::scored(rank(*own)).because(format!("{own} turns; {judge:?}"));
        Ok(turns.iter().map(scored).collect())
    }
}

export_reward!(Ranking);
