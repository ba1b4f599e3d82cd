//! The cache of evaluations: nothing is played twice.

use crate::evolve::Item;
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A cached result of one candidate on one item. Transient failures are not cached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// The effective reward, -1 to 1.
    Scored(f64),
    /// A permanent failure.
    Failed,
}

/// Candidate, task, seed and policy as one text. The task is last, because only it can contain spaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn of(policy: &Digest, candidate: &Digest, item: &Item) -> Self {
        Self(format!("{policy} {candidate} {} {}", item.seed, item.task))
    }
}

/// Results by candidate, task, seed and policy. The cache can be passed from one evolution to the next: results of another
/// policy have other keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cache(BTreeMap<Key, Known>);

impl Cache {
    pub(super) fn get(&self, key: &Key) -> Option<Known> {
        self.0.get(key).copied()
    }

    pub(super) fn insert(&mut self, key: Key, known: Known) {
        self.0.insert(key, known);
    }

    /// Number of results.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no results.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_key_distinguishes() {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let item = |task: &str, seed| Item { task: task.into(), seed };
        let keys = [
            Key::of(&digest("p"), &digest("c"), &item("t", 1)),
            Key::of(&digest("q"), &digest("c"), &item("t", 1)),
            Key::of(&digest("p"), &digest("d"), &item("t", 1)),
            Key::of(&digest("p"), &digest("c"), &item("u", 1)),
            Key::of(&digest("p"), &digest("c"), &item("t", 2)),
            Key::of(&digest("p"), &digest("c"), &item("2 t", 1)),
        ];
        assert_eq!(std::collections::BTreeSet::from(keys.clone()).len(), keys.len());
    }
}
