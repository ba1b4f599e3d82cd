//! Which training tasks are worth playing, where weights learn, and how often groups without variance are replaced.

use super::task_sampler::TaskSampler;
use crate::experience::{Groups, successes};
use clawhost_learn::policy::{Difficulty, REFILLS};
use clawhost_play::Tasks;
use serde::{Deserialize, Serialize};

/// Chooses training tasks by what was earned in them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curriculum {
    sampler: TaskSampler,
    refills: u32,
    /// The best reward there is.
    best: f64,
    filters: bool,
}

impl Curriculum {
    /// Replaces groups without variance at most `refills` times an iteration, and passes over tasks by a rule, if there is one.
    /// `best` is the greatest reward.
    pub fn new(refills: u32, difficulty: Option<Difficulty>, best: f64) -> Self {
        Self {
            sampler: TaskSampler::new(difficulty),
            refills: refills.min(REFILLS),
            best,
            filters: difficulty.is_some(),
        }
    }

    /// How often groups are replaced in an iteration.
    pub fn refills(&self) -> u32 {
        self.refills
    }

    /// The next positions worth playing; none: all tasks are, one after the other.
    pub(crate) fn positions(&mut self, count: u64, tasks: &Tasks) -> Option<Vec<u64>> {
        (self.refills > 0 || self.filters).then(|| self.sampler.positions(count, tasks))
    }

    /// Takes note of what groups earned.
    pub(crate) fn note(&mut self, groups: &Groups) {
        for group in groups.values() {
            let (successes, members) = successes(group, self.best);
            if let Some(first) = group.first() {
                self.sampler.note(&first.task.id, successes, members);
            }
        }
    }

    /// Tasks that would be passed over now; none: no task is ever passed over.
    pub(crate) fn passed_over(&self) -> Option<usize> {
        self.sampler.passed_over()
    }
}
