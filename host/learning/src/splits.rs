//! The three splits: `train` for learning, `val` for decisions, `test` for reports only. No decision uses the test split, so
//! that reported results are unbiased.

use crate::LearningError;
use clawhost_core::{Context, Digest};
use clawhost_play::{Environments, PlayError, Tasks, fetch_shuffled, split_of};

/// A set of tasks that are not used for learning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOut {
    /// Name of the environment's split.
    pub split: String,
    /// Which half of the split, if it serves two purposes. Halves are chosen by the hash of the task id.
    pub half: Option<bool>,
}

/// The purposes of the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splits {
    /// Split for training and credit.
    pub train: String,
    /// Tasks for the gate and for validation.
    pub val: HeldOut,
    /// Tasks for reports only.
    pub test: HeldOut,
}

impl Splits {
    /// Assigns the splits of an environment. If it has only two, the held-out one is halved.
    ///
    /// # Errors
    /// The wanted split is `test` or `val` or does not exist, or there are no held-out tasks.
    pub fn of(environments: &Environments, wanted: Option<&str>) -> Result<Self, LearningError> {
        let name = &environments.identity().name;
        let train = split_of(name, environments.splits(), wanted)?;
        if train == "test" || train == "val" {
            return Err(LearningError::HeldOutSplit { environment: name.clone(), split: train });
        }
        let others: Vec<&str> = environments
            .splits()
            .iter()
            .filter(|split| split.name != train && split.tasks > 0)
            .map(|split| split.name.as_str())
            .collect();
        let whole = |split: &str| HeldOut { split: split.to_owned(), half: None };
        let halves = |split: &str| {
            let half = |half| HeldOut { split: split.to_owned(), half: Some(half) };
            (half(false), half(true))
        };
        let (val, test) = match (others.contains(&"val"), others.contains(&"test"), others.as_slice()) {
            (true, true, _) => (whole("val"), whole("test")),
            (_, true, _) => halves("test"),
            (_, _, [other]) => halves(other),
            (true, _, [one, other, ..]) => (whole("val"), whole(if *one == "val" { other } else { one })),
            (_, _, [one, other, ..]) => (whole(one), whole(other)),
            (_, _, []) => {
                return Err(LearningError::NothingHeldOut { environment: name.clone(), split: train });
            }
        };
        Ok(Self { train, val, test })
    }
}

/// Most tasks that are listed so that a run begins behind earlier ones: some 100 MB. Behind them tasks come again, with other seeds.
const LISTED: u64 = 1 << 17;

/// How many tasks to list for `needed` positions from `first` on. Position `p` plays task `p` modulo their number.
pub(crate) fn listed(first: u64, needed: u64) -> u64 {
    first.saturating_add(needed).min(LISTED.max(needed))
}

impl HeldOut {
    /// At most `wanted` of its tasks, in an order that is drawn by the seed `order`.
    pub(crate) async fn fetch(
        &self,
        environments: &Environments,
        context: &Context,
        order: u64,
        wanted: u64,
    ) -> Result<Tasks, LearningError> {
        let is_ours = |id: &str| self.half.is_none_or(|half| (Digest::of(id.as_bytes()).prefix_u64() & 1 == 1) == half);
        let found = fetch_shuffled(environments, context, (&self.split, order), wanted, |task| is_ours(&task.id)).await;
        Ok(found.map_err(|error| match error {
            PlayError::NoTasks { environment, split } if self.half.is_some() => {
                PlayError::NoTasks { environment, split: format!("half of {split}") }
            }
            error => error,
        })?)
    }
}
