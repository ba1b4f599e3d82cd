//! What reflectors are shown next: one by one the groups in which some member missed the best reward; or all episodes of the last batches at
//! once, of many tasks, successes too. A run with a budget shows all at once. Any other run begins one by one, and changes to the other view
//! with every attempt: what one task does not show, many may.

use crate::experience::{Groups, by_group};
use clawhost_core::{Episode, LearningStore, RunId, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most groups that wait for reflectors. The oldest beyond it are dropped and counted.
const WAITING: usize = 256;
/// Most episodes of many tasks in one call: a thousand tasks are enough to count rules, and a plugin reads them within its limits.
const TOGETHER: usize = 1024;
/// Batches that a call with many tasks looks back over. Batches of 64 episodes fill [`TOGETHER`].
const BATCHES: usize = 16;

/// A group of a phase.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct GroupName {
    phase: RunId,
    group: u64,
}

/// The groups of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct BatchOfGroups {
    phase: RunId,
    groups: Vec<u64>,
}

/// Groups for the next call of reflectors: those that they have not seen, or all groups so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Waiting {
    names: Vec<GroupName>,
    /// Whether every call gets all groups so far together, successes too.
    #[serde(default)]
    together: bool,
    /// The groups of the last batches, for calls with many tasks in a run that begins one by one.
    #[serde(default)]
    recent: Vec<BatchOfGroups>,
    /// Episodes of this process; after an interruption they are read from the store.
    #[serde(skip)]
    at_hand: BTreeMap<GroupName, Vec<Arc<Episode>>>,
}

/// Whether an attempt shows many tasks at once: every second one, and not the first.
fn is_of_many_tasks(attempt: u32) -> bool {
    attempt % 2 == 1
}

fn is_played(episode: &Arc<Episode>) -> bool {
    episode.ending.is_complete() && episode.reward.is_some()
}

impl Waiting {
    /// All groups so far are shown together in every call.
    pub(crate) fn together() -> Self {
        Self { together: true, ..Self::default() }
    }

    /// Adds the groups of a phase: all, or those in which a member missed the best reward.
    pub(crate) fn add(&mut self, phase: &RunId, groups: &Groups, best: f64) {
        for (group, episodes) in groups {
            let missed =
                |episode: &Arc<Episode>| is_played(episode) && episode.reward.is_some_and(|reward| reward < best);
            let name = GroupName { phase: phase.clone(), group: *group };
            if episodes.iter().any(missed) || (self.together && episodes.iter().any(is_played)) {
                self.names.push(name.clone());
            }
            self.at_hand.insert(name, episodes.clone());
        }
        if !self.together {
            self.recent.push(BatchOfGroups { phase: phase.clone(), groups: groups.keys().copied().collect() });
            self.recent.drain(..self.recent.len().saturating_sub(BATCHES));
        }
        self.forget();
    }

    /// The groups of the last batches, in order.
    fn recent(&self) -> Vec<GroupName> {
        let names = |batch: &BatchOfGroups| -> Vec<GroupName> {
            batch.groups.iter().map(|group| GroupName { phase: batch.phase.clone(), group: *group }).collect()
        };
        self.recent.iter().flat_map(names).collect()
    }

    /// Forgets episodes that no call will show.
    fn forget(&mut self) {
        let mut needed: BTreeSet<GroupName> = self.names.iter().cloned().collect();
        needed.extend(self.recent());
        self.at_hand.retain(|name, _| needed.contains(name));
    }

    /// Drops the oldest groups if too many wait; returns their number.
    pub(crate) fn shorten(&mut self) -> u64 {
        let most = if self.together { TOGETHER } else { WAITING };
        let given_up = self.names.len().saturating_sub(most);
        self.names.drain(..given_up);
        self.forget();
        // Old groups that leave a call with all others were seen.
        if self.together { 0 } else { given_up as u64 }
    }

    pub(crate) fn len(&self) -> u64 {
        if self.together { 0 } else { self.names.len() as u64 }
    }

    /// The episodes of each next call, in order; also returns the number of groups that the store does not have. Groups that are shown one by
    /// one are taken out.
    pub(crate) async fn take(
        &mut self,
        attempt: u32,
        learning: &dyn LearningStore,
    ) -> Result<(Vec<Vec<Arc<Episode>>>, u64), StoreError> {
        let is_of_many = self.together || (is_of_many_tasks(attempt) && !self.names.is_empty());
        let mut wanted = self.names.clone();
        if is_of_many {
            wanted.extend(self.recent());
        }
        let missing: BTreeSet<RunId> =
            wanted.into_iter().filter(|name| !self.at_hand.contains_key(name)).map(|name| name.phase).collect();
        for phase in missing {
            for (group, episodes) in by_group(&learning.episodes(&phase).await?) {
                self.at_hand.entry(GroupName { phase: phase.clone(), group }).or_insert(episodes);
            }
        }
        if is_of_many {
            return Ok((self.take_together(), 0));
        }
        let waited = self.names.len();
        let groups: Vec<_> = self.names.drain(..).filter_map(|name| self.at_hand.get(&name).cloned()).collect();
        let gone = waited.saturating_sub(groups.len()) as u64;
        self.forget();
        Ok((groups, gone))
    }

    /// One call for each part of a mixture, because facts, tools and actions differ between parts.
    fn take_together(&mut self) -> Vec<Vec<Arc<Episode>>> {
        let names = if self.together { self.names.clone() } else { self.recent() };
        let mut episodes: Vec<Arc<Episode>> =
            names.iter().filter_map(|name| self.at_hand.get(name)).flatten().cloned().collect();
        episodes.retain(is_played);
        let old = episodes.len().saturating_sub(TOGETHER);
        let mut calls: BTreeMap<Option<String>, Vec<Arc<Episode>>> = BTreeMap::new();
        for episode in episodes.split_off(old) {
            calls.entry(episode.task.part.clone()).or_default().push(episode);
        }
        if !self.together {
            self.names.clear();
            self.forget();
        }
        calls.into_values().collect()
    }
}
