//! Selects the runs to remove: the pure part of a removal.

use super::HeldRun;
use clawhost_core::RunId;
use std::collections::BTreeSet;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Which runs are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PruneRule {
    /// Runs that began more than this many days ago.
    OlderThan {
        /// Days.
        days: u64,
    },
    /// These runs, even if they could be resumed: ids, names, or beginnings of ids.
    Runs(BTreeSet<RunId>),
    /// The oldest runs, until records and their blobs take at most this size.
    KeepSize {
        /// Bytes.
        bytes: u64,
    },
}

/// The runs that match a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// Runs to remove, the oldest first.
    pub(super) removed: Vec<RunId>,
    /// Runs that match the rule but can be resumed, so they stay.
    pub(super) resumable: Vec<RunId>,
}

/// The runs that match a rule. `runs` are newest first. `record_bytes` is the size of records and referenced blobs.
pub(super) fn select(runs: &[HeldRun], record_bytes: u64, rule: &PruneRule, now_ms: u64) -> Selection {
    let mut selection = Selection::default();
    let mut left = record_bytes;
    for held in runs.iter().rev() {
        let run = &held.holdings.run;
        let (is_meant, is_named) = match rule {
            PruneRule::OlderThan { days } => {
                let age_ms = now_ms.saturating_sub(held.holdings.created_at);
                (age_ms > days.saturating_mul(DAY_MS), false)
            }
            PruneRule::Runs(named) => (named.contains(run), true),
            PruneRule::KeepSize { bytes } => (left > *bytes, false),
        };
        if !is_meant {
            continue;
        }
        if held.can_be_resumed && !is_named {
            selection.resumable.push(run.clone());
        } else {
            selection.removed.push(run.clone());
            left = left.saturating_sub(held.bytes());
        }
    }
    selection
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{RunHoldings, RunKind, RunState};

    const RUNS: u64 = 4;
    const NOW: u64 = 100 * DAY_MS;

    /// Run `n` is `n` days old and holds 10^n bytes, half of them blobs.
    fn held(number: u64, can_be_resumed: bool) -> HeldRun {
        let bytes = 10_u64.pow(number as u32);
        HeldRun {
            holdings: RunHoldings {
                run: id(number),
                kind: RunKind::Play,
                environment: "env".into(),
                created_at: NOW - number * DAY_MS,
                state: if can_be_resumed { RunState::Open } else { RunState::Finished },
                episodes: 1,
                bytes: bytes / 2,
                blob_bytes: bytes - bytes / 2,
            },
            can_be_resumed,
        }
    }

    fn id(number: u64) -> RunId {
        RunId(format!("run-{number}"))
    }

    /// Every combination of resumable runs, newest run first.
    fn every_folder() -> impl Iterator<Item = Vec<HeldRun>> {
        (0..1_u64 << RUNS).map(|bits| (0..RUNS).map(|number| held(number, bits & 1 << number != 0)).collect())
    }

    fn every_rule() -> impl Iterator<Item = PruneRule> {
        let ages = (0..=RUNS + 1).map(|days| PruneRule::OlderThan { days });
        let sizes = [0, 1, 10, 11, 110, 111, 1000, 1110, 1111, 2000].map(|bytes| PruneRule::KeepSize { bytes });
        let named = (0..1_u64 << RUNS)
            .map(|bits| PruneRule::Runs((0..RUNS).filter(|number| bits & 1 << number != 0).map(id).collect()));
        ages.chain(sizes).chain(named)
    }

    fn bytes(runs: &[HeldRun]) -> u64 {
        runs.iter().map(HeldRun::bytes).sum()
    }

    #[test]
    fn a_resumable_run_is_removed_only_by_name() {
        for (runs, rule) in every_folder().flat_map(|runs| every_rule().map(move |rule| (runs.clone(), rule))) {
            let Selection { removed, resumable } = select(&runs, bytes(&runs), &rule, NOW);
            for held in &runs {
                let (run, is_named) = (&held.holdings.run, matches!(rule, PruneRule::Runs(_)));
                assert!(!removed.contains(run) || !held.can_be_resumed || is_named, "{rule:?}");
                assert!(!resumable.contains(run) || held.can_be_resumed && !is_named, "{rule:?}");
            }
            assert!(removed.iter().all(|run| !resumable.contains(run)), "{rule:?}");
        }
    }

    #[test]
    fn the_rule_decides_about_each_other_run() {
        let check = |rule: PruneRule, expected: &[u64]| {
            let runs: Vec<HeldRun> = (0..RUNS).map(|number| held(number, false)).collect();
            let removed = select(&runs, bytes(&runs), &rule, NOW).removed;
            assert_eq!(removed, expected.iter().map(|number| id(*number)).collect::<Vec<_>>(), "{rule:?}");
        };
        check(PruneRule::OlderThan { days: 0 }, &[3, 2, 1]);
        check(PruneRule::OlderThan { days: 2 }, &[3]);
        check(PruneRule::OlderThan { days: 3 }, &[]);
        check(PruneRule::OlderThan { days: u64::MAX }, &[]);
        check(PruneRule::Runs([id(1), id(9)].into()), &[1]);
        check(PruneRule::KeepSize { bytes: 1111 }, &[]);
        check(PruneRule::KeepSize { bytes: 1110 }, &[3]);
        check(PruneRule::KeepSize { bytes: 110 }, &[3, 2]);
        check(PruneRule::KeepSize { bytes: 0 }, &[3, 2, 1, 0]);
    }

    #[test]
    fn a_target_size_is_reached_if_possible_without_unnecessary_removals() {
        for (runs, limit) in
            every_folder().flat_map(|runs| (0..1200).step_by(7).map(move |limit| (runs.clone(), limit)))
        {
            let Selection { removed, resumable } =
                select(&runs, bytes(&runs), &PruneRule::KeepSize { bytes: limit }, NOW);
            let freed = |removed: &[RunId]| {
                let gone = runs.iter().filter(|held| removed.contains(&held.holdings.run));
                gone.map(HeldRun::bytes).sum::<u64>()
            };
            let can_go = runs.iter().filter(|held| !held.can_be_resumed).count();
            assert!(bytes(&runs) - freed(&removed) <= limit || removed.len() == can_go, "{limit}");
            if let Some((_, before)) = removed.split_last() {
                assert!(bytes(&runs) - freed(before) > limit, "the last removal was necessary: {limit}");
            }
            // Removable runs that stay are newer than the removed ones.
            let mut oldest_first = runs.iter().rev().map(|held| &held.holdings.run);
            let meant: Vec<&RunId> = oldest_first.by_ref().take(removed.len() + resumable.len()).collect();
            assert!(meant.iter().all(|run| removed.contains(run) || resumable.contains(run)), "{limit}");
        }
    }
}
