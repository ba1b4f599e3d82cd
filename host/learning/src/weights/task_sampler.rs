//! The order of training tasks if weights learn: in sequence, without tasks that have no variance.

use clawhost_learn::policy::{Difficulty, DifficultyFilter};
use clawhost_play::Tasks;
use serde::{Deserialize, Serialize};

/// Iterates over the training tasks in a cycle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskSampler {
    /// The next position to offer.
    next: u64,
    /// `None`: every task is played.
    filter: Option<DifficultyFilter>,
}

impl TaskSampler {
    pub(crate) fn new(rule: Option<Difficulty>) -> Self {
        Self { next: 0, filter: rule.map(DifficultyFilter::new) }
    }

    /// The next `count` positions to play. Skipped tasks are revisited periodically, so this terminates.
    pub(crate) fn positions(&mut self, count: u64, tasks: &Tasks) -> Vec<u64> {
        let mut positions = Vec::new();
        while (positions.len() as u64) < count {
            let position = self.next;
            self.next = self.next.saturating_add(1);
            let place = usize::try_from(position % (tasks.len() as u64).max(1)).unwrap_or(0);
            let plays = match (&mut self.filter, tasks.get(place)) {
                (Some(filter), Some((task, _))) => filter.offer(&task.key()),
                _ => true,
            };
            if plays {
                positions.push(position);
            }
        }
        positions
    }

    /// Records a group: how many of its members succeeded.
    pub(crate) fn note(&mut self, task: &str, successes: u64, members: u64) {
        if let Some(filter) = &mut self.filter {
            filter.note(task, successes, members);
        }
    }

    /// Number of tasks that would be skipped now; `None` without a filter.
    pub(crate) fn passed_over(&self) -> Option<usize> {
        self.filter.as_ref().map(|filter| filter.passed_over().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Digest, Task};
    use std::sync::Arc;

    fn tasks(count: usize) -> Tasks {
        let task = |number| (Arc::new(Task::new("train", format!("t{number}"))), Digest::of(b"task"));
        (0..count).map(task).collect()
    }

    #[test]
    fn tasks_are_played_in_a_cycle() {
        let (tasks, mut choice) = (tasks(3), TaskSampler::new(None));
        assert_eq!(choice.positions(4, &tasks), [0, 1, 2, 3]);
        choice.note("t1", 0, 8);
        choice.note("t1", 0, 8);
        assert_eq!((choice.positions(3, &tasks), choice.passed_over()), (vec![4, 5, 6], None));
    }

    #[test]
    fn tasks_without_variance_are_skipped_and_revisited() {
        let (tasks, mut choice) = (tasks(3), TaskSampler::new(Some(Difficulty::default())));
        for task in ["t0", "t1", "t2"] {
            let successes = if task == "t1" { 8 } else { 3 };
            choice.note(task, successes, 8);
            choice.note(task, successes, 8);
        }
        assert_eq!(choice.passed_over(), Some(1));
        let first = choice.positions(14, &tasks);
        assert!(first.iter().all(|position| position % 3 != 1), "{first:?}");
        assert!(choice.positions(6, &tasks).iter().any(|position| position % 3 == 1), "every eighth offer is taken");
    }

    /// Tasks of two parts with the same ids: `a/t0`, `b/t0`, `a/t1`, `b/t1`.
    fn mixed() -> Tasks {
        let task = |number: usize| {
            let part = Some(if number.is_multiple_of(2) { "a" } else { "b" }.to_owned());
            let task = Task { part, ..Task::new("train", format!("t{}", number / 2)) };
            (Arc::new(task), Digest::of(b"task"))
        };
        (0..4).map(task).collect()
    }

    #[test]
    fn a_part_that_is_mastered_makes_room_for_the_others_and_is_never_left_out() {
        let (tasks, mut choice) = (mixed(), TaskSampler::new(Some(Difficulty::default())));
        for task in ["a/t0", "a/t1"] {
            choice.note(task, 8, 8);
            choice.note(task, 8, 8);
        }
        assert_eq!(choice.passed_over(), Some(2), "tasks of another part with the same ids are played");
        let played = choice.positions(90, &tasks);
        let of_a = played.iter().filter(|position| *position % 2 == 0).count();
        assert_eq!((played.len(), of_a), (90, 10), "one of eight offers of a mastered part is taken");
    }

    #[test]
    fn sampling_terminates_if_all_tasks_are_skipped() {
        let (tasks, mut choice) = (tasks(2), TaskSampler::new(Some(Difficulty::default())));
        for task in ["t0", "t1"] {
            choice.note(task, 0, 4);
            choice.note(task, 0, 4);
        }
        assert_eq!(choice.positions(5, &tasks).len(), 5);
    }
}
