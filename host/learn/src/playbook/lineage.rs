//! What the runs of one playbook share: the order of the tasks, how far they came in it, and how many candidates they tested.
//!
//! A run that began anew would test candidates with an alpha that earlier runs have spent, on tasks that these have seen. So a
//! run goes on where the one before it ended, also where a playbook was exported and imported.

use serde::{Deserialize, Serialize};

/// Largest position that a document may name. Far more than runs reach, and below the positions that halves of a split use.
const FURTHEST: u64 = 1 << 39;
/// Most candidates that a document may name. The alpha of the next one is then below 1e-13.
const MOST_CANDIDATES: u32 = 1_000_000;

/// The history of a playbook over all its runs. Positions count groups of episodes in the order of a split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// Seed of the order of tasks: that of the first run.
    pub order: u64,
    /// Runs.
    pub runs: u64,
    /// Candidates that the gate tested. Each leaves less alpha for the next.
    pub candidates: u32,
    /// Positions of the training split that were played.
    pub train: u64,
    /// Positions of the validation split that the gate played.
    pub gate: u64,
    /// Positions of the test split that were played.
    pub test: u64,
}

impl Lineage {
    /// That of a playbook without runs.
    pub fn new(order: u64) -> Self {
        Self { order, ..Self::default() }
    }

    /// The lineage of a playbook to which another one was added: what either has used is used. The order stays.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self {
            // Without a run there is no order yet.
            order: if self.runs == 0 { other.order } else { self.order },
            runs: self.runs.max(other.runs),
            candidates: self.candidates.max(other.candidates),
            train: self.train.max(other.train),
            gate: self.gate.max(other.gate),
            test: self.test.max(other.test),
        }
    }

    /// Whether its numbers are ones that runs can reach.
    pub(crate) fn is_reachable(&self) -> bool {
        let positions = [self.runs, self.train, self.gate, self.test];
        positions.into_iter().all(|position| position <= FURTHEST) && self.candidates <= MOST_CANDIDATES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_either_has_used_is_used() {
        let one = Lineage { order: 7, runs: 2, candidates: 3, train: 10, gate: 90, test: 0 };
        let other = Lineage { order: 9, runs: 1, candidates: 5, train: 20, gate: 30, test: 200 };
        let both = Lineage { order: 7, runs: 2, candidates: 5, train: 20, gate: 90, test: 200 };
        assert_eq!(one.merged(other), both);
        assert_eq!(Lineage::new(1).merged(other), other, "without a run there is no order");
    }

    #[test]
    fn numbers_that_no_run_reaches_are_told() {
        let check = |lineage: Lineage, expect: bool| assert_eq!(lineage.is_reachable(), expect, "{lineage:?}");
        let some = Lineage { order: u64::MAX, runs: 50, candidates: 400, train: 1 << 30, gate: 1 << 30, test: 10_000 };
        check(some, true);
        check(Lineage { candidates: u32::MAX, ..some }, false);
        check(Lineage { train: u64::MAX, ..some }, false);
        check(Lineage { gate: 1 << 40, ..some }, false);
        check(Lineage { test: 1 << 40, ..some }, false);
        check(Lineage { runs: 1 << 40, ..some }, false);
    }
}
