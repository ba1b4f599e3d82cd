//! Finds rewards that had nothing to read: no episode that they judged has any of the parts that they declare to read.
//!
//! Such a reward gives the same value to every episode, often a 0 that looks like a result, or no value. It is for another
//! environment, or for other options.

use crate::run::ScoringRule;
use clawhost_core::{Episode, PluginIdentity, Reads};
use serde::Serialize;
use std::collections::BTreeMap;

/// A reward that found nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The reward.
    pub reward: PluginIdentity,
    /// The parts that it reads, as text: ``artefact `state.json` and a reference with `state` ``.
    pub reads: String,
    /// The part of a mixture whose episodes it judged; `None`: there is one environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Number of judged episodes. None of them has any of these parts.
    pub episodes: u64,
}

/// The state of the search for one reward.
struct Tally {
    rule: ScoringRule,
    reads: Reads,
    /// By part of a mixture: judged episodes, and whether one of them has something to read.
    found: BTreeMap<Option<String>, (u64, bool)>,
}

/// Searches episodes for the declared parts of every reward that declares some.
pub struct Readings(Vec<Tally>);

impl Readings {
    /// The state before the first episode.
    pub fn of(rules: &[ScoringRule]) -> Self {
        let tally = |rule: &ScoringRule| {
            let reads = Reads::declared(&rule.reward.description().about, &rule.options)?;
            Some(Tally { rule: rule.clone(), reads, found: BTreeMap::new() })
        };
        Self(rules.iter().filter_map(tally).collect())
    }

    /// Adds an episode. Failed episodes are ignored, because no reward judges them.
    pub fn add(&mut self, episode: &Episode) {
        let part = &episode.task.part;
        let judges = |tally: &&mut Tally| episode.ending.is_complete() && tally.rule.applies_to(part.as_deref());
        for tally in self.0.iter_mut().filter(judges) {
            let (judged, is_found) = tally.found.entry(part.clone()).or_default();
            *judged += 1;
            *is_found = *is_found || tally.reads.any_in(episode);
        }
    }

    /// Rewards that judged episodes and found nothing, for each part of a mixture.
    pub fn unread(self) -> Vec<Unread> {
        let of_rule = |Tally { rule, reads, found }: Tally| {
            let (reward, reads) = (rule.reward.identity().clone(), reads.to_string());
            let without = found.into_iter().filter(|(_, (_, is_found))| !is_found);
            let told =
                move |(part, (episodes, _))| Unread { reward: reward.clone(), reads: reads.clone(), part, episodes };
            without.map(told).collect::<Vec<_>>()
        };
        self.0.into_iter().flat_map(of_rule).collect()
    }
}
