//! Reads every turn of every episode of its group, and scores each by its amount of text: the benchmark's reward.

use clawhost_sdk::{Context, Episode, Group, Result, Reward, Scope, Verdict, export_reward};

struct Guest;

/// Bytes of text in all turns.
fn said(episode: &Episode) -> usize {
    let turns = episode.turns();
    let of_turn = |turn: &clawhost_sdk::Turn| {
        let seen: usize = turn.observation.iter().map(|message| message.plain_text().len()).sum();
        seen + turn.action.plain_text().len()
    };
    turns.iter().map(of_turn).sum()
}

impl Reward for Guest {
    const NAME: &'static str = "odd-group-reward";
    const SCOPE: Scope = Scope::Group;

    fn score(episode: &Episode, _: &Context) -> Result<Verdict> {
        Ok(Verdict::scored(if said(episode) > 0 { 1.0 } else { 0.0 }))
    }

    fn score_group(group: &Group, _: &Context) -> Result<Vec<Verdict>> {
        let said: Vec<usize> = group.episodes().iter().map(said).collect();
        let most = said.iter().copied().max().unwrap_or(0).max(1);
        Ok(said.iter().map(|said| Verdict::scored(*said as f64 / most as f64)).collect())
    }
}

export_reward!(Guest);
