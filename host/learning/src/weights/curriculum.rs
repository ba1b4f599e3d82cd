//! Selection of training tasks if weights learn, and the number of replacements for groups without variance.

use super::task_sampler::TaskSampler;
use crate::experience::{Groups, successes};
use clawhost_learn::policy::{Difficulty, REFILLS};
use clawhost_play::Tasks;
use serde::{Deserialize, Serialize};

/// Selects training tasks by their recent results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curriculum {
    sampler: TaskSampler,
    refills: u32,
    /// The best possible reward.
    best: f64,
    filters: bool,
}

impl Curriculum {
    /// Replaces groups without variance at most `refills` times per iteration, and skips tasks by `difficulty` if it is
    /// given. `best` is the best possible reward.
    pub fn new(refills: u32, difficulty: Option<Difficulty>, best: f64) -> Self {
        Self {
            sampler: TaskSampler::new(difficulty),
            refills: refills.min(REFILLS),
            best,
            filters: difficulty.is_some(),
        }
    }

    /// Most replacements of a group per iteration.
    pub fn refills(&self) -> u32 {
        self.refills
    }

    /// The next positions to play; `None`: all tasks in order.
    pub(crate) fn positions(&mut self, count: u64, tasks: &Tasks) -> Option<Vec<u64>> {
        (self.refills > 0 || self.filters).then(|| self.sampler.positions(count, tasks))
    }

    /// Records the results of groups.
    pub(crate) fn note(&mut self, groups: &Groups) {
        for group in groups.values() {
            let (successes, members) = successes(group, self.best);
            if let Some(first) = group.first() {
                self.sampler.note(&first.task.key(), successes, members);
            }
        }
    }

    /// Number of tasks that would be skipped now; `None` without a filter.
    pub(crate) fn passed_over(&self) -> Option<usize> {
        self.sampler.passed_over()
    }
}
