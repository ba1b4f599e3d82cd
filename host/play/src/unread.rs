//! Finds rewards that had nothing to read: no episode that they judged has any of the parts that they declare to read.
//!
//! Such a reward gives the same value to every episode, often a 0 that looks like a result, or no value. It is for another
//! environment, or for other options.

use crate::run::ScoringRule;
use clawhost_core::{Episode, PluginIdentity, Reads};
use serde::Serialize;

/// A reward that found nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The reward.
    pub reward: PluginIdentity,
    /// The parts that it reads, as text: ``artefact `state.json` and a reference with `state` ``.
    pub reads: String,
    /// Number of judged episodes. None of them has any of these parts.
    pub episodes: u64,
}

/// The state of the search for one reward.
struct Tally {
    reward: PluginIdentity,
    reads: Reads,
    judged: u64,
    is_found: bool,
}

/// Searches episodes for the declared parts of every reward that declares some.
pub struct Readings(Vec<Tally>);

impl Readings {
    /// The state before the first episode.
    pub fn of(rules: &[ScoringRule]) -> Self {
        let tally = |rule: &ScoringRule| {
            let reads = Reads::declared(&rule.reward.description().about, &rule.options)?;
            Some(Tally { reward: rule.reward.identity().clone(), reads, judged: 0, is_found: false })
        };
        Self(rules.iter().filter_map(tally).collect())
    }

    /// Adds an episode. Failed episodes are ignored, because no reward judges them.
    pub fn add(&mut self, episode: &Episode) {
        if !episode.ending.is_complete() {
            return;
        }
        for tally in &mut self.0 {
            tally.judged += 1;
            tally.is_found = tally.is_found || tally.reads.any_in(episode);
        }
    }

    /// Rewards that judged episodes and found nothing.
    pub fn unread(self) -> Vec<Unread> {
        let without = self.0.into_iter().filter(|tally| tally.judged > 0 && !tally.is_found);
        let told = |Tally { reward, reads, judged, .. }| Unread { reward, reads: reads.to_string(), episodes: judged };
        without.map(told).collect()
    }
}
