//! Selection of training tasks if weights learn, and the number of replacements for groups without variance.

use super::routed::played_by;
use super::task_sampler::TaskSampler;
use crate::experience::{Groups, successes, varies};
use clawhost_core::Episode;
use clawhost_learn::policy::{Difficulty, REFILLS};
use clawhost_play::Tasks;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// Selects training tasks by their recent results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curriculum {
    sampler: TaskSampler,
    refills: u32,
    /// The best possible reward.
    best: f64,
    filters: bool,
    /// The name of the model in the table of a router. Answers of other models neither solve a task nor teach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
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
            model: None,
        }
    }

    /// The same for the model of this name among those of a router.
    pub(crate) fn of_model(self, model: Option<String>) -> Self {
        Self { model, ..self }
    }

    /// The members of a group that count.
    fn own<'a>(&self, group: &'a [Arc<Episode>]) -> Cow<'a, [Arc<Episode>]> {
        self.model.as_ref().map_or(Cow::Borrowed(group), |model| Cow::Owned(played_by(model, group)))
    }

    /// Whether the weights learn something from a group: its rewards differ.
    pub(crate) fn teaches(&self, group: &[Arc<Episode>]) -> bool {
        varies(&self.own(group))
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
            let own = self.own(group);
            let (successes, members) = successes(&own, self.best);
            if let Some(first) = own.first() {
                self.sampler.note(&first.task.key(), successes, members);
            }
        }
    }

    /// Number of tasks that would be skipped now; `None` without a filter.
    pub(crate) fn passed_over(&self) -> Option<usize> {
        self.sampler.passed_over()
    }
}
