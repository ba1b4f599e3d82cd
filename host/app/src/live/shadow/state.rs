//! What is kept of shadow answers: how far they are, what the day has cost, and what was preferred. `shadow.json` in the data folder.

use super::budget::DaySpending;
use crate::{AppError, small_files};
use clawhost_learn::live::shadow::ShadowTally;
use clawhost_learn::{Entry, EntryId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the data folder.
const FILE: &str = "shadow.json";
/// The format of the file.
const FORMAT: u32 = 1;
/// Most lessons whose counts are kept. Those that are not tried any more leave first.
const MOST_LESSONS: usize = 256;

/// The counts of a lesson.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LessonCounts {
    /// What the judge preferred.
    pub(super) preferred: ShadowTally,
    /// Pairs about which the judge gave no vote.
    pub(super) without_vote: u64,
    /// Pairs of which an answer or the judge failed.
    pub(super) failed: u64,
}

/// How far shadow answers are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShadowState {
    format: u32,
    /// Number of the last ended episode that was looked at. It is written before anything is asked about an episode, so that nothing is asked twice.
    pub(super) through: u64,
    pub(super) spending: DaySpending,
    pub(super) lessons: BTreeMap<String, LessonCounts>,
}

impl ShadowState {
    /// The state of a data folder. `newest`: the number of the newest ended episode, behind which it begins.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(super) fn open(folder: &Path, newest: impl FnOnce() -> Result<u64, AppError>) -> Result<Self, AppError> {
        let known = small_files::read(&folder.join(FILE), FORMAT, |state: &Self| state.format)?;
        if let Some(known) = known {
            return Ok(known);
        }
        let state = Self { format: FORMAT, through: newest()?, ..Self::default() };
        // What ends before the next start is looked at after it.
        state.write(folder)?;
        Ok(state)
    }

    /// Writes it into the data folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), AppError> {
        small_files::write(folder, FILE, self)
    }

    /// The counts of a lesson on trial.
    pub(super) fn of_lesson(&mut self, entry: &EntryId, trials: &[Entry]) -> &mut LessonCounts {
        if self.lessons.len() >= MOST_LESSONS && !self.lessons.contains_key(&entry.0) {
            self.lessons.retain(|id, _| trials.iter().any(|trial| trial.id.0 == *id));
        }
        self.lessons.entry(entry.0.clone()).or_default()
    }
}

/// Forgets the counts of lessons in a data folder of which nothing else is left. `is_known`: whether something is, by the id of the lesson.
///
/// # Errors
/// The file cannot be read or written.
pub(crate) fn forget_shadow_lessons(folder: &Path, is_known: impl Fn(&str) -> bool) -> Result<(), AppError> {
    let known = small_files::read(&folder.join(FILE), FORMAT, |state: &ShadowState| state.format)?;
    let Some(mut state) = known else { return Ok(()) };
    let before = state.lessons.len();
    state.lessons.retain(|id, _| is_known(id));
    if state.lessons.len() < before { state.write(folder) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::shadow::pair::tests::lesson;

    #[test]
    fn a_state_is_read_back_and_begins_behind_what_ended_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = ShadowState::open(folder.path(), || Ok(7)).unwrap();
        assert_eq!(state.through, 7);
        state.through = 9;
        state.of_lesson(&lesson().id, &[]).preferred.with = 3;
        state.write(folder.path()).unwrap();
        assert_eq!(ShadowState::open(folder.path(), || Ok(100)).unwrap(), state);
    }

    #[test]
    fn counts_of_lessons_that_are_not_tried_leave_where_there_are_too_many() {
        let mut state = ShadowState::default();
        for number in 0..MOST_LESSONS {
            state.of_lesson(&EntryId(number.to_string()), &[]).failed = 1;
        }
        let (tried, new) = (Entry { id: EntryId("5".into()), ..lesson() }, EntryId("new".into()));
        state.of_lesson(&new, &[tried]);
        assert_eq!(state.lessons.keys().collect::<Vec<_>>(), ["5", "new"]);
    }
}
