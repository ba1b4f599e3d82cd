//! Experience: what one iteration learns from.

use clawhost_core::{Episode, RewardDescription, RunId, StateId};
use clawhost_learn::Batch;
use clawhost_play::ScoringRule;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rewards of a group that are closer than this teach nothing: advantages divide by what is left of the difference.
const EQUAL: f64 = 1e-6;

/// Groups of episodes by their place.
pub type Groups = BTreeMap<u64, Vec<Arc<Episode>>>;

/// What one iteration learns from.
pub struct Experience {
    /// The run that holds the episodes as they came.
    pub id: RunId,
    /// Iterations before it.
    pub number: u64,
    /// The configuration that acted.
    pub state_id: StateId,
    /// Everything as the tasks came: rewards are reported over it, and layers that must not see a selection learn from it.
    pub played: Groups,
    /// What teaches: groups without variance were replaced where that was possible.
    pub taught: Groups,
    /// Groups that were played in the place of others.
    pub refilled: u64,
}

impl Experience {
    /// All episodes as they came.
    pub fn episodes(&self) -> Vec<Arc<Episode>> {
        self.played.values().flatten().cloned().collect()
    }

    /// The batch that some of its groups make: episodes that failed or were not scored are removed and counted.
    pub fn batch(&self, groups: &Groups) -> Batch {
        crate::batch::batch(self.number, self.state_id, groups, Vec::new())
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

/// Mean reward of scored episodes; none: nothing was scored.
pub(crate) fn mean_reward(episodes: &[Arc<Episode>]) -> Option<f64> {
    let rewards = rewards(episodes);
    (!rewards.is_empty()).then(|| rewards.iter().sum::<f64>() / rewards.len() as f64)
}

/// Whether the scored members of a group differ by their reward.
pub(crate) fn varies(group: &[Arc<Episode>]) -> bool {
    let rewards = rewards(group);
    let most = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = rewards.iter().copied().fold(f64::INFINITY, f64::min);
    rewards.len() >= 2 && most - least >= EQUAL
}

/// Members that earned the best reward there is, and members that were scored.
pub(crate) fn successes(group: &[Arc<Episode>], best: f64) -> (u64, u64) {
    let rewards = rewards(group);
    (rewards.iter().filter(|reward| **reward >= best - EQUAL).count() as u64, rewards.len() as u64)
}

/// The worst and the best reward that these rules can give; -1 to 1 without rules.
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
