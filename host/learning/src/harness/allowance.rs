//! What lessons may cost: training ends early where the rest of the allowance is needed for the gate.
//!
//! The number of episodes of an allowance follows from what episodes cost before there were lessons. Lessons lengthen prompts and add look-ups,
//! so later episodes cost more. Only recorded episodes count, so a resumed run decides as an uninterrupted one.

use clawhost_core::Episode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How much dearer an episode with lessons is expected to be, as long as none was played. With the lessons of the shop it uses two to three
/// times as many tokens.
const GROWTH: f64 = 2.5;

/// What training and gate may cost together, in any unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Allowance {
    /// The amount.
    pub most: f64,
    /// The cost of a token that the policy reads.
    pub read: f64,
    /// The cost of a token that it writes.
    pub written: f64,
}

impl Allowance {
    /// The cost of episodes.
    fn cost(&self, episodes: &[Arc<Episode>]) -> f64 {
        let turns = episodes.iter().flat_map(|episode| &episode.turns);
        let costs = turns.map(|turn| {
            self.read * turn.usage.prompt_tokens as f64 + self.written * turn.usage.completion_tokens as f64
        });
        costs.sum()
    }
}

/// What training and gate of a run have cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spent {
    /// In the unit of the allowance.
    pub(super) all: f64,
    /// Batches of training.
    batches: u64,
    /// The mean of an episode in the latest batch.
    latest: f64,
}

impl Spent {
    /// Counts a batch of training.
    pub(super) fn train(&mut self, allowance: &Allowance, episodes: &[Arc<Episode>]) {
        let cost = allowance.cost(episodes);
        self.all += cost;
        self.batches += 1;
        self.latest = cost / episodes.len().max(1) as f64;
    }

    /// Counts pairs of the gate.
    pub(super) fn judge(&mut self, allowance: &Allowance, episodes: &[Arc<Episode>]) {
        self.all += allowance.cost(episodes);
    }

    /// Whether another batch would leave too little for the gate: for one half of its pairs, after which it decides about most candidates.
    /// `serves`: whether the run began with lessons.
    pub(super) fn ends_training(&self, allowance: &Allowance, (batch, pairs): (u64, u64), serves: bool) -> bool {
        let mean = if self.batches < 2 && !serves { GROWTH * self.latest } else { self.latest };
        self.all + mean * (batch + pairs) as f64 > allowance.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Episodes of one turn, each of so many tokens read and one written.
    fn episodes(count: usize, read: u64) -> Vec<Arc<Episode>> {
        let golden = include_str!("../../../../tests/golden/episode-2.json");
        let mut episode: Episode = serde_json::from_str(golden).unwrap();
        episode.turns.truncate(1);
        (episode.turns[0].usage.prompt_tokens, episode.turns[0].usage.completion_tokens) = (read, 1);
        (0..count).map(|_| Arc::new(episode.clone())).collect()
    }

    #[test]
    fn training_ends_where_the_next_batch_would_take_what_the_gate_needs() {
        let check_with = |serves: bool, most: f64, batches: &[u64], expect: bool| {
            let allowance = Allowance { most, read: 1.0, written: 10.0 };
            let mut spent = Spent::default();
            batches.iter().for_each(|read| spent.train(&allowance, &episodes(4, *read)));
            assert_eq!(spent.ends_training(&allowance, (4, 6), serves), expect, "{most} {batches:?}");
        };
        let check = |most: f64, batches: &[u64], expect: bool| check_with(false, most, batches, expect);
        check_with(true, 1_400.0, &[90], false);
        check_with(true, 1_399.0, &[90], true);
        // 4 episodes of 100; then ten episodes, of which each may cost 250.
        check(2_900.0, &[90], false);
        check(2_899.0, &[90], true);
        // What was measured takes the place of the guess: 400, 800, and ten episodes of 200.
        check(3_200.0, &[90, 190], false);
        check(3_199.0, &[90, 190], true);
    }
}
