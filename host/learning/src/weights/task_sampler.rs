//! Which training tasks are played next, where weights learn: one after the other, without those that teach nothing.

use clawhost_learn::policy::{Difficulty, DifficultyFilter};
use clawhost_play::Tasks;
use serde::{Deserialize, Serialize};

/// A walk through the training tasks, again and again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskSampler {
    /// Position behind the last that was offered.
    next: u64,
    /// None: every task is played.
    filter: Option<DifficultyFilter>,
}

impl TaskSampler {
    pub(crate) fn new(rule: Option<Difficulty>) -> Self {
        Self { next: 0, filter: rule.map(DifficultyFilter::new) }
    }

    /// The next so many positions worth playing. Every task is due now and then, so the walk ends.
    pub(crate) fn positions(&mut self, count: u64, tasks: &Tasks) -> Vec<u64> {
        let mut positions = Vec::new();
        while (positions.len() as u64) < count {
            let position = self.next;
            self.next = self.next.saturating_add(1);
            let place = usize::try_from(position % (tasks.len() as u64).max(1)).unwrap_or(0);
            let plays = match (&mut self.filter, tasks.get(place)) {
                (Some(filter), Some((task, _))) => filter.offer(&task.id),
                _ => true,
            };
            if plays {
                positions.push(position);
            }
        }
        positions
    }

    /// Notes how a group did: so many of its members succeeded.
    pub(crate) fn note(&mut self, task: &str, successes: u64, members: u64) {
        if let Some(filter) = &mut self.filter {
            filter.note(task, successes, members);
        }
    }

    /// Tasks that would be passed over now; none: nobody passes any over.
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
    fn tasks_come_one_after_the_other_and_again() {
        let (tasks, mut choice) = (tasks(3), TaskSampler::new(None));
        assert_eq!(choice.positions(4, &tasks), [0, 1, 2, 3]);
        choice.note("t1", 0, 8);
        choice.note("t1", 0, 8);
        assert_eq!((choice.positions(3, &tasks), choice.passed_over()), (vec![4, 5, 6], None));
    }

    #[test]
    fn what_teaches_nothing_is_passed_over_and_comes_back() {
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

    #[test]
    fn where_nothing_teaches_the_walk_still_ends() {
        let (tasks, mut choice) = (tasks(2), TaskSampler::new(Some(Difficulty::default())));
        for task in ["t0", "t1"] {
            choice.note(task, 0, 4);
            choice.note(task, 0, 4);
        }
        assert_eq!(choice.positions(5, &tasks).len(), 5);
    }
}
