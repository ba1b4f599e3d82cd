//! From recorded episodes to a batch: groups, rewards, draws. What failed or was not scored is removed and counted.

use clawhost_core::{Episode, Proposal, StateId};
use clawhost_learn::{Batch, EntryId, Group, Member, Removed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The episodes of a phase by group, in order.
pub(crate) fn by_group(episodes: &[Arc<Episode>]) -> BTreeMap<u64, Vec<Arc<Episode>>> {
    let mut groups: BTreeMap<u64, Vec<Arc<Episode>>> = BTreeMap::new();
    for episode in episodes {
        groups.entry(episode.group).or_default().push(episode.clone());
    }
    groups
}

/// The scored members of one group; none: nothing is left.
fn group(episodes: &[Arc<Episode>], removed: &mut Removed) -> Option<Group> {
    let scored: Vec<(&Arc<Episode>, f64)> = episodes
        .iter()
        .filter_map(|episode| match episode.reward {
            Some(reward) => Some((episode, reward)),
            None if episode.ending.is_complete() => {
                removed.unscored += 1;
                None
            }
            None => {
                removed.failed += 1;
                None
            }
        })
        .collect();
    let (first, _) = scored.first()?;
    let playbook = |episode: &Episode| episode.policy.playbook.clone();
    // What was drawn for follows from the task, so it is the same for every member; where an environment showed one of them
    // something else, an entry counts only if it was drawn for in all.
    let drawn_in = |episode: &Episode, entry: &str| {
        episode.policy.playbook.as_ref().is_some_and(|told| told.drawn.iter().any(|drawn| drawn.entry == entry))
    };
    let drawn: Vec<String> = playbook(first)
        .map(|told| told.drawn.into_iter().map(|drawn| drawn.entry).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| scored.iter().all(|(episode, _)| drawn_in(episode, entry)))
        .take(clawhost_learn::DRAWN_ENTRIES)
        .collect();
    let mask = |episode: &Episode| {
        let told = episode.policy.playbook.as_ref();
        let shown = |entry: &String| {
            told.is_some_and(|told| told.drawn.iter().any(|drawn| drawn.entry == *entry && drawn.shown))
        };
        (0u32..).zip(&drawn).filter(|(_, entry)| shown(entry)).fold(0u64, |mask, (bit, _)| mask | (1 << bit))
    };
    let members = scored
        .iter()
        .map(|(episode, reward)| Member { episode: episode.id.clone(), reward: *reward, shown: mask(episode) })
        .collect();
    Some(Group {
        task: first.task.id.clone(),
        seed: first.seed,
        propensity: playbook(first).map_or(1.0, |told| told.propensity),
        members,
        drawn: drawn.into_iter().map(EntryId).collect(),
    })
}

/// What a phase teaches.
pub(crate) fn batch(
    number: u64,
    state_id: StateId,
    groups: &BTreeMap<u64, Vec<Arc<Episode>>>,
    proposals: Vec<(String, Proposal)>,
) -> Batch {
    let mut removed = Removed::default();
    let groups = groups.values().filter_map(|episodes| group(episodes, &mut removed)).collect();
    Batch { number, state_id, groups, proposals, removed }
}
