//! Experience: the episodes of one iteration.

use clawhost_core::{Episode, RewardDescription, RunId, StateId};
use clawhost_learn::Batch;
use clawhost_play::ScoringRule;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rewards of a group that differ by less are treated as equal: standardised advantages would amplify the rest.
const EQUAL: f64 = 1e-6;

/// Groups of episodes by position.
pub type Groups = BTreeMap<u64, Vec<Arc<Episode>>>;

/// The episodes of one iteration.
pub struct Experience {
    /// The run that stores the episodes.
    pub id: RunId,
    /// Number of iterations before this one.
    pub number: u64,
    /// Identity of the configuration that played.
    pub state_id: StateId,
    /// All groups as they were played. Reports use these, and layers that a selection would bias (the harness) learn from
    /// them.
    pub played: Groups,
    /// The groups that the weights learn from: where possible, groups without variance are replaced.
    pub selected: Groups,
    /// Number of groups that were played as replacements.
    pub refilled: u64,
}

impl Experience {
    /// All episodes as they were played.
    pub fn episodes(&self) -> Vec<Arc<Episode>> {
        self.played.values().flatten().cloned().collect()
    }

    /// The batch of some of its groups. Failed and unscored episodes are removed and counted.
    pub fn batch(&self, groups: &Groups) -> Batch {
        crate::batch::batch(self.number, self.state_id, groups)
    }
}

/// The episodes of a phase by group, in order.
pub(crate) fn by_group(episodes: &[Arc<Episode>]) -> Groups {
    let mut groups = Groups::new();
    for episode in episodes {
        groups.entry(episode.group()).or_default().push(episode.clone());
    }
    groups
}

/// Rewards of the scored members.
pub(crate) fn rewards(group: &[Arc<Episode>]) -> Vec<f64> {
    group.iter().filter_map(|episode| episode.reward).collect()
}

/// Mean reward of the scored episodes; `None` if there are none.
pub(crate) fn mean_reward(episodes: &[Arc<Episode>]) -> Option<f64> {
    let rewards = rewards(episodes);
    (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64)
}

/// Whether the rewards of the scored members differ.
pub(crate) fn varies(group: &[Arc<Episode>]) -> bool {
    let rewards = rewards(group);
    let most = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = rewards.iter().copied().fold(f64::INFINITY, f64::min);
    rewards.len() >= 2 && most - least >= EQUAL
}

/// The number of members with the best possible reward, and of scored members.
pub(crate) fn successes(group: &[Arc<Episode>], best: f64) -> (u64, u64) {
    let rewards = rewards(group);
    (rewards.iter().filter(|reward| **reward >= best - EQUAL).count() as u64, rewards.len() as u64)
}

/// The smallest and the largest reward of these rules; -1 to 1 without rules.
pub(crate) fn reward_bounds(rules: &[ScoringRule]) -> (f64, f64) {
    let bound = |pick: fn(f64, f64) -> f64, of: fn(&RewardDescription) -> f64| {
        rules.iter().map(|rule| of(rule.reward.description())).reduce(pick)
    };
    let worst = bound(f64::min, |reward| reward.minimum).unwrap_or(-1.0);
    (worst, bound(f64::max, |reward| reward.maximum).unwrap_or(1.0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A group with these rewards.
    pub(crate) fn group(rewards: &[Option<f64>]) -> Vec<Arc<Episode>> {
        let golden = include_str!("../../../tests/golden/episode-2.json");
        let episode: Episode = serde_json::from_str(golden).unwrap();
        rewards.iter().map(|reward| Arc::new(Episode { reward: *reward, ..episode.clone() })).collect()
    }

    #[test]
    fn groups_vary_by_their_scored_members() {
        let check = |rewards: &[Option<f64>], expect: bool| assert_eq!(varies(&group(rewards)), expect, "{rewards:?}");
        check(&[Some(0.0), Some(1.0)], true);
        check(&[Some(0.5), Some(0.5), None], false);
        check(&[Some(0.5), Some(0.5 + 1e-7)], false);
        check(&[Some(1.0), None], false);
        check(&[], false);
    }
}
