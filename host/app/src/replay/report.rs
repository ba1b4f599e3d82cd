//! The report of a replay.

use super::group::Replayed;
use clawhost_core::{DamagedRecord, Discrepancy, LedgerReport, RunRow, RunState};
use clawhost_play::ReplayOutcome;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of each outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Exact.
    pub exact: u64,
    /// Every completed turn is exact; the host caused the ending.
    pub exact_turns: u64,
    /// The host stopped the episode before its first turn: there is nothing to compare.
    pub not_begun: u64,
    /// Different from the record.
    pub differ: u64,
    /// Could not be replayed.
    pub not_replayed: u64,
}

impl Tally {
    fn count(&mut self, outcome: &ReplayOutcome, turns: usize) {
        match outcome {
            ReplayOutcome::Exact => self.exact += 1,
            ReplayOutcome::ExactTurns(_) if turns == 0 => self.not_begun += 1,
            ReplayOutcome::ExactTurns(_) => self.exact_turns += 1,
            ReplayOutcome::Differs(_) => self.differ += 1,
            ReplayOutcome::NotReplayed(_) => self.not_replayed += 1,
        }
    }

    /// Adds the numbers of others.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { exact, exact_turns, not_begun, differ, not_replayed } = other;
        self.exact += exact;
        self.exact_turns += exact_turns;
        self.not_begun += not_begun;
        self.differ += differ;
        self.not_replayed += not_replayed;
    }

    /// The sum of all.
    pub fn all(&self) -> u64 {
        self.exact + self.exact_turns + self.not_begun + self.differ + self.not_replayed
    }

    /// Whether nothing differs and everything could be replayed.
    pub fn is_clean(&self) -> bool {
        self.differ == 0 && self.not_replayed == 0
    }
}

/// What a finding names that is about a record that cannot be read.
const THE_STORE: &str = "the store";

/// An outcome that is not exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The episode: `RUN/ID`.
    pub episode: String,
    /// The environment or the reward, or `the store` if the record cannot be read.
    pub plugin: String,
    /// The outcome.
    pub outcome: ReplayOutcome,
}

/// The report of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// Episodes.
    pub episodes: Tally,
    /// Their turns.
    pub turns: u64,
    /// Verdicts.
    pub verdicts: Tally,
    /// Episodes of a finished run that are missing and were not removed on request.
    pub missing: u64,
    /// Episodes of a finished run that were removed on request.
    pub pruned: u64,
    /// Endings that the host caused and that could not be replayed, by label.
    pub host_endings: BTreeMap<String, u64>,
    /// Outcomes that are not exact, by episode.
    pub findings: Vec<Finding>,
    /// Values that the rest of the records contradicts, and records that are missing or added.
    pub discrepancies: Vec<Discrepancy>,
    /// The ledger; `None`: only one episode was replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerReport>,
}

impl ReplayReport {
    /// Whether everything was exact, nothing is missing, and the records agree with each other.
    pub fn is_clean(&self) -> bool {
        self.episodes.is_clean()
            && self.verdicts.is_clean()
            && self.missing == 0
            && self.discrepancies.is_empty()
            && self.ledger.as_ref().is_none_or(LedgerReport::is_clean)
    }

    /// Counts the episodes that a finished run should have and does not have.
    pub(super) fn take_absent(&mut self, run: Option<&RunRow>) {
        let Some(row) = run.filter(|row| row.state == RunState::Finished) else { return };
        let absent = row.planned.saturating_sub(self.episodes.all());
        if row.pruned { self.pruned = absent } else { self.missing = absent }
    }

    /// Adds the results of other episodes.
    pub(crate) fn add(&mut self, other: Self) {
        self.episodes.add(other.episodes);
        self.verdicts.add(other.verdicts);
        self.turns += other.turns;
        for (ending, count) in other.host_endings {
            *self.host_endings.entry(ending).or_default() += count;
        }
        self.findings.extend(other.findings);
    }

    pub(crate) fn take(&mut self, Replayed { episode, outcome, verdicts }: Replayed) {
        let turns = episode.turns.len();
        self.episodes.count(&outcome, turns);
        if !matches!(outcome, ReplayOutcome::NotReplayed(_)) {
            self.turns += turns as u64;
        }
        if let ReplayOutcome::ExactTurns(_) = &outcome {
            *self.host_endings.entry(episode.ending.label()).or_default() += 1;
        }
        let name = format!("{}/{}", episode.run, episode.id);
        for (_, outcome) in &verdicts {
            self.verdicts.count(outcome, turns);
        }
        for (plugin, outcome) in std::iter::once((episode.origin.name().to_owned(), outcome)).chain(verdicts) {
            if matches!(outcome, ReplayOutcome::Differs(_) | ReplayOutcome::NotReplayed(_)) {
                self.findings.push(Finding { episode: name.clone(), plugin, outcome });
            }
        }
    }

    /// Whether an episode could not be read.
    pub(super) fn has_damage(&self) -> bool {
        self.findings.iter().any(|found| found.plugin == THE_STORE)
    }

    pub(super) fn take_damaged(&mut self, DamagedRecord { record, why }: DamagedRecord) {
        let outcome = ReplayOutcome::NotReplayed(format!("its record is damaged: {why}"));
        self.episodes.count(&outcome, 0);
        self.findings.push(Finding { episode: record, plugin: THE_STORE.into(), outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Digest, Ending, Episode, RunId, RunKind, SpecDocument, Usage};
    use clawhost_play::Difference;
    use std::sync::Arc;

    fn replayed(outcome: ReplayOutcome, verdicts: &[ReplayOutcome]) -> Replayed {
        let golden = include_str!("../../../../tests/golden/episode-2.json");
        let mut episode: Episode = serde_json::from_str(golden).unwrap();
        episode.ending = Ending::Terminated;
        let verdicts = verdicts.iter().map(|outcome| ("judge".to_owned(), outcome.clone())).collect();
        Replayed { episode: Arc::new(episode), outcome, verdicts }
    }

    fn differs() -> ReplayOutcome {
        let [what, recorded, replayed] = ["seed", "1", "2"].map(str::to_owned);
        ReplayOutcome::Differs(Difference { turn: None, what, recorded, replayed })
    }

    #[test]
    fn every_outcome_is_counted_and_differences_are_findings() {
        let mut report = ReplayReport::default();
        report.take(replayed(ReplayOutcome::Exact, &[ReplayOutcome::Exact]));
        assert!(report.is_clean() && report.findings.is_empty());
        report.take(replayed(ReplayOutcome::ExactTurns("deadline".into()), &[]));
        assert!(report.is_clean() && report.host_endings.len() == 1);
        let turns = report.turns;
        report.take(replayed(ReplayOutcome::NotReplayed("gone".into()), &[differs()]));
        assert_eq!(report.turns, turns, "what was not replayed has no turns");
        assert_eq!((report.episodes.all(), report.verdicts.all(), report.findings.len()), (3, 2, 2));
        assert!(!report.is_clean() && !report.episodes.is_clean() && !report.verdicts.is_clean());
    }

    #[test]
    fn a_damaged_record_or_a_missing_episode_is_not_clean() {
        let mut report = ReplayReport::default();
        report.take_damaged(DamagedRecord { record: "run-a/ep-1".into(), why: "no JSON".into() });
        assert_eq!((report.episodes.not_replayed, report.findings.len()), (1, 1));
        assert!(!report.is_clean());
        assert!(!ReplayReport { missing: 1, ..ReplayReport::default() }.is_clean());
    }

    #[test]
    fn absent_episodes_of_a_finished_run_are_missing_unless_removed_on_request() {
        let run = |state, pruned| RunRow {
            id: RunId("run-a".into()),
            kind: RunKind::Play,
            environment: "e".into(),
            state_id: String::new(),
            config: SpecDocument::none(),
            digest: Digest::of(b"run"),
            basis: serde_json::Value::Null,
            created_at: 0,
            state,
            summary: None,
            planned: 3,
            spent: Usage::default(),
            reward_mean: None,
            scored: 0,
            pruned,
        };
        let check = |run: Option<RunRow>, expect: (u64, u64)| {
            let mut report = ReplayReport::default();
            report.take(replayed(ReplayOutcome::Exact, &[]));
            report.take_absent(run.as_ref());
            assert_eq!((report.missing, report.pruned, report.is_clean()), (expect.0, expect.1, expect.0 == 0));
        };
        check(Some(run(RunState::Finished, false)), (2, 0));
        check(Some(run(RunState::Finished, true)), (0, 2));
        check(Some(run(RunState::Stopped, false)), (0, 0));
        check(None, (0, 0));
    }
}
