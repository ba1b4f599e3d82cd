//! Rewards that found nothing to read: of what a reward says that it reads, nothing was in any episode that it judged.
//!
//! Such a reward gives the same value everywhere, or none, and often a 0 that looks like a result. It belongs to another
//! environment, or to other options.

use crate::run::ScoringRule;
use clawhost_core::{Episode, PluginIdentity, Reads};
use serde::Serialize;

/// A reward that found nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The reward.
    pub reward: PluginIdentity,
    /// What it reads, for people: ``artefact `state.json` and a reference with `state` ``.
    pub reads: String,
    /// Episodes that it judged; none of them had any of it.
    pub episodes: u64,
}

/// What was found for one reward.
struct Tally {
    reward: PluginIdentity,
    reads: Reads,
    judged: u64,
    is_found: bool,
}

/// Counts what was there to read, for every reward that says what it reads.
pub struct Readings(Vec<Tally>);

impl Readings {
    /// Nothing is counted yet.
    pub fn of(rules: &[ScoringRule]) -> Self {
        let tally = |rule: &ScoringRule| {
            let reads = Reads::declared(&rule.reward.description().about, &rule.options)?;
            Some(Tally { reward: rule.reward.identity().clone(), reads, judged: 0, is_found: false })
        };
        Self(rules.iter().filter_map(tally).collect())
    }

    /// Counts an episode. One that failed is judged by nobody.
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
