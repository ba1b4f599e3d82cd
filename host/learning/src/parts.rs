//! The parts of a mixture of environments in reports: each has its own training rewards and its own lift, so that the mean of all does
//! not hide a part that gets worse.

use crate::batch::unscored_reason;
use crate::evaluation::Tested;
use crate::experience::mean_reward;
use crate::report::{Mean, Missing};
use clawhost_core::Episode;
use clawhost_play::Part;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The training episodes of one part in one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartReward {
    /// The part.
    pub part: String,
    /// Its episodes, with those that were not scored.
    pub episodes: u64,
    /// Mean reward; `None` if none was scored.
    pub reward: Option<f64>,
}

/// Before and after on the test tasks of one part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartEvaluation {
    /// The part.
    pub part: String,
    /// Number of scored pairs.
    pub pairs: u64,
    /// Number of different tasks among them.
    pub tasks: u64,
    /// Pairs that were not scored.
    pub missing: Missing,
    /// Mean reward before learning.
    pub before: Option<Mean>,
    /// Mean reward after learning.
    pub after: Option<Mean>,
    /// Mean difference, pair by pair.
    pub lift: Option<Mean>,
}

fn by_part(episodes: &[Arc<Episode>]) -> BTreeMap<String, Vec<Arc<Episode>>> {
    let mut parts: BTreeMap<String, Vec<Arc<Episode>>> = BTreeMap::new();
    for episode in episodes {
        if let Some(part) = &episode.task.part {
            parts.entry(part.clone()).or_default().push(episode.clone());
        }
    }
    parts
}

/// The training rewards by part, by name; empty if the episodes are of no mixture.
pub(crate) fn part_rewards(episodes: &[Arc<Episode>]) -> Vec<PartReward> {
    let reward = |(part, episodes): (String, Vec<Arc<Episode>>)| PartReward {
        part,
        episodes: episodes.len() as u64,
        reward: mean_reward(&episodes),
    };
    by_part(episodes).into_iter().map(reward).collect()
}

/// Why nothing can be learned from these episodes: none is scored, or none of a part. `None`: all parts are scored.
pub(crate) fn unscored(episodes: &[Arc<Episode>]) -> Option<String> {
    if mean_reward(episodes).is_none() {
        return Some(unscored_reason(episodes));
    }
    let parts = by_part(episodes).into_iter();
    let mut unscored = parts.filter(|(_, episodes)| mean_reward(episodes).is_none());
    unscored.next().map(|(part, episodes)| format!("no episode of the part {part}: {}", unscored_reason(&episodes)))
}

/// The results of the tasks of one part. Their keys begin with its name and a slash.
pub(crate) fn of_part(part: &Part, tested: &Tested) -> Tested {
    let start = format!("{}/", part.name);
    let of_part = |(_, (task, _)): &(&u64, &(String, Option<f64>))| task.starts_with(&start);
    tested.iter().filter(of_part).map(|(place, tested)| (*place, tested.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(part: Option<&str>, reward: Option<f64>) -> Arc<Episode> {
        let golden = include_str!("../../../tests/golden/episode-2.json");
        let mut episode: Episode = serde_json::from_str(golden).unwrap();
        episode.task.part = part.map(str::to_owned);
        (episode.reward, episode.verdicts) = (reward, Vec::new());
        Arc::new(episode)
    }

    #[test]
    fn every_part_has_its_own_mean() {
        let check = |episodes: &[(Option<&str>, Option<f64>)], expect: &[(&str, u64, Option<f64>)]| {
            let episodes: Vec<_> = episodes.iter().map(|(part, reward)| episode(*part, *reward)).collect();
            let found = part_rewards(&episodes);
            let found: Vec<_> = found.iter().map(|one| (one.part.as_str(), one.episodes, one.reward)).collect();
            assert_eq!(found, expect);
        };
        check(&[(None, Some(1.0))], &[]);
        check(
            &[(Some("b"), Some(1.0)), (Some("a"), Some(0.5)), (Some("b"), Some(0.0)), (Some("b"), None)],
            &[("a", 1, Some(0.5)), ("b", 3, Some(0.5))],
        );
        check(&[(Some("a"), None)], &[("a", 1, None)]);
    }

    #[test]
    fn a_part_without_scores_is_named() {
        let check = |episodes: &[(Option<&str>, Option<f64>)], expect: Option<&str>| {
            let episodes: Vec<_> = episodes.iter().map(|(part, reward)| episode(*part, *reward)).collect();
            assert_eq!(unscored(&episodes).as_deref(), expect);
        };
        check(&[(None, Some(1.0)), (None, None)], None);
        check(&[(None, None)], Some("no reward scored it"));
        check(&[(Some("a"), Some(1.0)), (Some("b"), Some(0.0))], None);
        check(&[(Some("a"), Some(1.0)), (Some("b"), None)], Some("no episode of the part b: no reward scored it"));
    }
}
