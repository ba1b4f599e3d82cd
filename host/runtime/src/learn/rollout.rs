//! What an iteration plays: groups of training tasks. Where weights learn, groups whose members all earned the same teach
//! nothing: others are played in their place, a few times (dynamic sampling, DAPO: Yu et al. 2025).

use super::batch::by_group;
use super::conductor::{LearningLoop, Stopped};
use super::guide::UniformPlaybook;
use crate::RuntimeError;
use crate::plan::Plan;
use clawhost_core::{Episode, RunId};
use clawhost_learn::policy::{REFILLS, pass_at_k};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rewards of a group that are closer teach nothing: a difference is divided by what is left of it.
const EQUAL: f64 = 1e-6;

/// Groups of episodes by their place.
pub(crate) type Groups = BTreeMap<u64, Vec<Arc<Episode>>>;

/// What was played.
pub(crate) struct Rollout {
    /// The run of its first phase.
    pub(crate) id: RunId,
    /// As the tasks came: what rewards are reported over.
    pub(crate) played: Groups,
    /// What is learned from: some of the groups without variance were replaced.
    pub(crate) taught: Groups,
    /// Groups that were played in the place of others.
    pub(crate) refilled: u64,
}

fn rewards(group: &[Arc<Episode>]) -> Vec<f64> {
    group.iter().filter_map(|episode| episode.reward).collect()
}

/// Whether its scored members can be told apart.
pub(crate) fn varies(group: &[Arc<Episode>]) -> bool {
    let rewards = rewards(group);
    let most = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = rewards.iter().copied().fold(f64::INFINITY, f64::min);
    rewards.len() >= 2 && most - least >= EQUAL
}

/// Members that earned the best there is, and members that were scored.
fn successes(group: &[Arc<Episode>], best: f64) -> (u64, u64) {
    let rewards = rewards(group);
    (rewards.iter().filter(|reward| **reward >= best - EQUAL).count() as u64, rewards.len() as u64)
}

/// By the names that people look for: the chance that one of k tries earns the best there is, for one try and for as many as a
/// group has; the share of groups without variance.
pub(crate) fn measures(groups: &Groups, size: u32, best: f64) -> BTreeMap<String, f64> {
    let mut named = BTreeMap::new();
    let mut mean = |name: String, values: Vec<f64>| {
        if !values.is_empty() {
            named.insert(name, values.iter().sum::<f64>() / values.len() as f64);
        }
    };
    let counts: Vec<(u64, u64)> = groups.values().map(|group| successes(group, best)).collect();
    for k in [1, u64::from(size)].into_iter().take(if size > 1 { 2 } else { 1 }) {
        let values = counts.iter().filter_map(|(successes, members)| pass_at_k(*members, *successes, k));
        mean(format!("train.pass@{k}"), values.collect());
    }
    let compared = groups.values().filter(|group| rewards(group).len() >= 2);
    mean("train.zero_variance_share".into(), compared.map(|group| f64::from(u8::from(!varies(group)))).collect());
    named
}

impl LearningLoop<'_> {
    /// Plays what the next iteration learns from.
    pub(crate) async fn rollout(&mut self, guidance: Arc<UniformPlaybook>) -> Result<Result<Rollout, Stopped>, RuntimeError> {
        let number = self.state.iteration;
        let plan = &self.plan.play;
        let groups = plan.episodes.div_ceil(u64::from(plan.group.max(1)));
        let plan = Plan {
            split: Some(self.splits.train.clone()),
            first_group: number.saturating_mul(groups),
            paired: false,
            branch_at: None,
            ..plan.clone()
        };
        let (refills, chooses) = match &self.plan.weights {
            Some(weights) => (weights.refills.min(REFILLS), weights.refills > 0 || weights.difficulty.is_some()),
            None => (0, false),
        };
        let train = self.train.clone();
        let positions = chooses.then(|| self.state.choice.positions(groups, &train));
        let first = Plan { positions, ..plan.clone() };
        let name = format!("i{:05}-train", number + 1);
        let phase = match self.phase(&name, first, guidance.clone(), train.clone()).await? {
            Ok(phase) => phase,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let played = by_group(&phase.episodes);
        self.note_difficulty(&played);
        let mut rollout = Rollout { id: phase.id, taught: played.clone(), played, refilled: 0 };
        for round in 1..=refills {
            let flat = rollout.taught.iter().filter(|(_, group)| !varies(group));
            let flat: Vec<u64> = flat.map(|(place, _)| *place).collect();
            if flat.is_empty() {
                break;
            }
            let positions = self.state.choice.positions(flat.len() as u64, &train);
            let episodes = (flat.len() as u64).saturating_mul(u64::from(plan.group));
            let again = Plan { positions: Some(positions), episodes, ..plan.clone() };
            let name = format!("i{:05}-refill-{round}", number + 1);
            let phase = match self.phase(&name, again, guidance.clone(), train.clone()).await? {
                Ok(phase) => phase,
                Err(stopped) => return Ok(Err(stopped)),
            };
            let more = by_group(&phase.episodes);
            self.note_difficulty(&more);
            rollout.refilled += more.len() as u64;
            for (place, group) in flat.into_iter().zip(more.into_values()) {
                if varies(&group) {
                    rollout.taught.insert(place, group);
                }
            }
        }
        Ok(Ok(rollout))
    }

    fn note_difficulty(&mut self, groups: &Groups) {
        for group in groups.values() {
            let (successes, members) = successes(group, self.best);
            if let Some(first) = group.first() {
                self.state.choice.note(&first.task.id, successes, members);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(rewards: &[Option<f64>]) -> Vec<Arc<Episode>> {
        let golden = include_str!("../../../../tests/golden/episode-2.json");
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

    #[test]
    fn what_people_look_for_is_measured_over_groups() {
        let groups = Groups::from([
            (0, group(&[Some(1.0), Some(0.0), Some(0.0), Some(0.0)])),
            (1, group(&[Some(0.5), Some(0.5), Some(0.5), Some(0.5)])),
            (2, group(&[None, None, None, Some(1.0)])),
        ]);
        let named = measures(&groups, 4, 1.0);
        assert_eq!(named["train.pass@1"], (0.25 + 0.0 + 1.0) / 3.0);
        assert_eq!(named["train.pass@4"], 0.5, "one group had fewer tries");
        assert_eq!(named["train.zero_variance_share"], 0.5, "one group cannot vary");
        assert_eq!(measures(&groups, 1, 1.0).len(), 2, "one try is one try");
    }
}
