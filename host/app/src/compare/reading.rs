//! Reads what a comparison needs of one run.

use super::curves::smoothed;
use super::estimate;
use crate::runs::Estimate;
use crate::{AppError, StoredEpisodes};
use clawhost_core::{DamagedRecord, Episode, EpisodeTally, RunId, RunKind, RunLabels, RunRow, StoreReader, Usage};
use clawhost_learning::{TestPhase, TestSide, is_training_phase};
use clawhost_play::{Basis, Cells, Conditions, EpisodeSource as _, EpisodeSummary, mean_interval};
use clawhost_run_config::RunSpec;
use std::collections::BTreeMap;

/// A run as a comparison needs it.
pub(super) struct Reading {
    pub(super) row: RunRow,
    pub(super) labels: RunLabels,
    pub(super) spec: RunSpec,
    pub(super) tally: EpisodeTally,
    /// What determined the compared episodes. `None`: there are none.
    pub(super) conditions: Option<Conditions>,
    /// The rewards that it is compared by.
    pub(super) after: Cells,
    /// Rewards of the same test episodes before learning. `None`: it played, or no test was recorded.
    pub(super) before: Option<Cells>,
    pub(super) reward: Option<Estimate>,
    /// Episodes of the test, and what the policy used in them.
    pub(super) test: (u64, Usage),
    /// Mean reward by number of episodes.
    pub(super) curve: Vec<(f64, f64)>,
    damaged: Vec<DamagedRecord>,
}

/// An episode of a run: task, environment seed, and reward.
type Outcome = (String, u64, Option<f64>);

fn cells(outcomes: &[Outcome]) -> Cells {
    Cells::of(outcomes.iter().map(|(task, seed, reward)| (task.as_str(), *seed, *reward)))
}

fn outcome(episode: &Episode) -> Outcome {
    (episode.task.key(), episode.seed(), episode.reward)
}

/// Smallest and largest possible mean reward of a run or phase, from its summary.
fn range(row: &RunRow) -> Option<(f64, f64)> {
    serde_json::from_value(row.summary.as_ref()?.get("reward_range")?.clone()).ok()
}

/// What determines the episodes of a run or phase.
fn conditions(row: &RunRow) -> Option<Conditions> {
    serde_json::from_value::<Basis>(row.basis.clone()).ok().map(|basis| basis.conditions)
}

impl Reading {
    pub(super) fn of(reader: &dyn StoreReader, row: RunRow, now_ms: u64) -> Result<Self, AppError> {
        let spec = RunSpec::from_document(row.config.0.clone())
            .map_err(|error| AppError::Document { run: row.id.to_string(), error })?;
        let (labels, tally) = (reader.labels(&row.id)?, reader.tally(&row.id, now_ms)?);
        let reading = Self {
            conditions: conditions(&row),
            row,
            labels,
            spec,
            tally,
            after: Cells::default(),
            before: None,
            reward: None,
            test: (0, Usage::default()),
            curve: Vec::new(),
            damaged: Vec::new(),
        };
        match reading.row.kind {
            RunKind::Learn => reading.learned(reader),
            RunKind::Evaluate => reading.evaluated(reader),
            RunKind::Play | RunKind::Phase | RunKind::Live => reading.played(reader),
        }
    }

    /// The records that could not be read.
    pub(super) fn take_damaged(&mut self) -> Vec<DamagedRecord> {
        std::mem::take(&mut self.damaged)
    }

    /// Calls `each` with the episodes of a run or phase, group by group.
    fn read(&mut self, reader: &dyn StoreReader, run: &RunId, mut each: impl FnMut(&Episode)) -> Result<(), AppError> {
        let mut stored = StoredEpisodes::of_run(reader, run)?;
        while let Some(group) = stored.next_group()? {
            group.iter().for_each(&mut each);
        }
        self.damaged.extend(stored.take_damaged());
        Ok(())
    }

    fn played(mut self, reader: &dyn StoreReader) -> Result<Self, AppError> {
        let (mut groups, mut outcomes, mut rewards) = (BTreeMap::<u64, Vec<f64>>::new(), Vec::new(), Vec::new());
        let run = self.row.id.clone();
        self.read(reader, &run, |episode| {
            groups.entry(episode.group()).or_default().extend(episode.reward);
            rewards.extend(episode.reward.map(|reward| (episode.index as f64 + 1.0, reward)));
            outcomes.push(outcome(episode));
        })?;
        self.after = cells(&outcomes);
        // As in the run's own report: a group is the unit.
        let (mean, interval) = mean_interval(&groups.into_values().collect::<Vec<_>>());
        self.reward = estimate((mean, interval.map(|interval| interval.within(range(&self.row)))));
        self.curve = smoothed(&rewards);
        Ok(self)
    }

    fn evaluated(mut self, reader: &dyn StoreReader) -> Result<Self, AppError> {
        let phase = self.conditions.as_ref().map(TestPhase::of_evaluation);
        let (run, range) = (self.row.id.clone(), range(&self.row));
        let sides = self.tested(reader, phase.map(|phase| (run, phase)).into_iter().collect())?;
        Ok(self.compared(sides, range))
    }

    fn learned(mut self, reader: &dyn StoreReader) -> Result<Self, AppError> {
        let run = self.row.id.clone();
        let (mut tests, mut means, mut played, mut limits) = (Vec::new(), Vec::new(), 0, None);
        for phase in reader.phases(&run)? {
            let name = phase.id.0.strip_prefix(&run.0).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
            if is_training_phase(name) {
                played += phase.episodes;
                means.extend(phase.reward_mean.map(|reward| (played as f64, reward)));
            }
            let Some(row) = reader.run(&phase.id)? else { continue };
            let Some(known) = conditions(&row) else { continue };
            if let Some(test) = TestPhase::of(name, &known) {
                limits = range(&row);
                self.conditions = Some(known);
                tests.push((phase.id, test));
            }
        }
        let sides = self.tested(reader, tests)?;
        self.curve = smoothed(&means);
        Ok(self.compared(sides, limits))
    }

    /// The outcomes of test episodes before and after learning.
    fn tested(
        &mut self,
        reader: &dyn StoreReader,
        phases: Vec<(RunId, TestPhase)>,
    ) -> Result<[Vec<Outcome>; 2], AppError> {
        let [mut before, mut after] = [Vec::new(), Vec::new()];
        let (mut episodes, mut usage) = (0, Usage::default());
        for (run, phase) in phases {
            self.read(reader, &run, |episode| {
                episodes += 1;
                usage += EpisodeSummary::of(episode).usage;
                match phase.side(episode.group(), episode.index) {
                    Some(TestSide::Before) => before.push(outcome(episode)),
                    Some(TestSide::After) => after.push(outcome(episode)),
                    None => {}
                }
            })?;
        }
        self.test = (episodes, usage);
        Ok([before, after])
    }

    fn compared(mut self, [before, after]: [Vec<Outcome>; 2], range: Option<(f64, f64)>) -> Self {
        self.after = cells(&after);
        self.before = (!before.is_empty()).then(|| cells(&before));
        let (mean, interval) = self.after.mean();
        self.reward = estimate((mean, interval.map(|interval| interval.within(range))));
        self
    }
}
