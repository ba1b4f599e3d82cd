//! Online difficulty filter: which tasks are neither always nor never solved.
//!
//! A task whose last groups all succeeded or all failed gives no gradient. It is skipped, but revisited periodically,
//! because the policy changes.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;

/// When a task is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difficulty {
    /// Number of consecutive groups that all succeeded or all failed.
    pub groups: NonZeroU32,
    /// A skipped task is played once per this many offers, so that it is never excluded for good.
    pub revisit: NonZeroU32,
}

impl Default for Difficulty {
    /// Two groups of 8 without variance make a success rate below 0.04 or above 0.96 likely; every eighth offer is accepted.
    fn default() -> Self {
        let number = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        Self { groups: number(2), revisit: number(8) }
    }
}

/// The recent results of each task. Equal histories give equal choices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifficultyFilter {
    rule: Difficulty,
    tasks: BTreeMap<String, Known>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// Successes and members of the last groups.
    last: VecDeque<(u64, u64)>,
    /// Offers since the task was last played.
    passed_over: u32,
}

impl DifficultyFilter {
    /// A filter without history: every task is played.
    pub fn new(rule: Difficulty) -> Self {
        Self { rule, tasks: BTreeMap::new() }
    }

    /// Records a played group: how many of its scored members succeeded. A group without members is ignored.
    pub fn note(&mut self, task: &str, successes: u64, members: u64) {
        if members == 0 {
            return;
        }
        let known = self.tasks.entry(task.to_owned()).or_default();
        known.last.push_back((successes.min(members), members));
        while known.last.len() as u64 > u64::from(self.rule.groups.get()) {
            known.last.pop_front();
        }
    }

    /// Whether to play an offered task; counts the offer.
    pub fn offer(&mut self, task: &str) -> bool {
        let Some(known) = self.tasks.get_mut(task) else { return true };
        let is_due = known.passed_over + 1 >= self.rule.revisit.get();
        let plays = is_due || !known.has_no_variance(self.rule.groups.get());
        known.passed_over = if plays { 0 } else { known.passed_over + 1 };
        plays
    }

    /// Success rate over the last groups of a task; `None` if it was not played.
    pub fn success(&self, task: &str) -> Option<f64> {
        let last = &self.tasks.get(task)?.last;
        let (successes, members) = last.iter().fold((0, 0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
        Some(successes as f64 / members as f64)
    }

    /// Tasks that would be skipped now.
    pub fn passed_over(&self) -> impl Iterator<Item = &str> {
        let groups = self.rule.groups.get();
        self.tasks.iter().filter(move |(_, known)| known.has_no_variance(groups)).map(|(task, _)| task.as_str())
    }
}

impl Known {
    fn has_no_variance(&self, groups: u32) -> bool {
        let all_right = self.last.iter().all(|(successes, members)| successes == members);
        let all_wrong = self.last.iter().all(|(successes, _)| *successes == 0);
        self.last.len() as u64 >= u64::from(groups) && (all_right || all_wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(groups: &[u64]) -> DifficultyFilter {
        let number = |count| NonZeroU32::new(count).unwrap();
        let mut filter = DifficultyFilter::new(Difficulty { groups: number(3), revisit: number(4) });
        groups.iter().for_each(|successes| filter.note("a", *successes, 4));
        filter
    }

    #[test]
    fn a_task_is_skipped_after_groups_that_all_succeeded_or_all_failed() {
        let check = |groups: &[u64], expect: bool| assert_eq!(after(groups).offer("a"), expect, "{groups:?}");
        check(&[], true);
        check(&[4, 4], true);
        check(&[4, 4, 4], false);
        check(&[0, 0, 0], false);
        check(&[4, 4, 3], true);
        check(&[0, 4, 0], true);
        check(&[2, 0, 0, 0], false);
        check(&[0, 0, 0, 1], true);
    }

    #[test]
    fn skipped_tasks_are_revisited() {
        let mut filter = after(&[0, 0, 0]);
        let played: Vec<bool> = (0..8).map(|_| filter.offer("a")).collect();
        assert_eq!(played, [false, false, false, true, false, false, false, true]);
        filter.note("a", 1, 4);
        assert!(filter.offer("a") && filter.offer("a"), "a task with variance is played again");
    }

    #[test]
    fn the_success_rate_covers_the_last_groups_and_ignores_empty_ones() {
        let mut filter = after(&[0, 4, 2, 2]);
        assert_eq!(filter.success("a"), Some(8.0 / 12.0));
        filter.note("b", 0, 0);
        assert_eq!(filter.success("b"), None);
        assert_eq!(after(&[4, 4, 4]).passed_over().collect::<Vec<_>>(), ["a"]);
        assert_eq!(filter.passed_over().count(), 0);
    }
}
