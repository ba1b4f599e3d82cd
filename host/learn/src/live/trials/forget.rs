//! Forgets sessions in the trials: lessons that came from them alone go.

use super::{Ended, LiveCandidate, LiveTrials, Trial};
use crate::Entry;
use serde::Serialize;
use std::collections::BTreeSet;

/// Lessons that came from forgotten sessions alone and are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ForgottenLessons {
    /// Those that waited for a trial.
    pub candidates: u64,
    /// Those on trial.
    pub trials: u64,
    /// Those that were neither tried nor served any more.
    pub ended: u64,
}

impl ForgottenLessons {
    /// The sum of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            candidates: self.candidates + other.candidates,
            trials: self.trials + other.trials,
            ended: self.ended + other.ended,
        }
    }
}

/// Takes forgotten sessions from the evidence of a lesson. Returns whether some of it is left, or there was none.
fn remains(entry: &mut Entry, is_forgotten: &impl Fn(&str) -> bool) -> bool {
    let named = entry.sources.len();
    entry.sources.retain(|source| !is_forgotten(&source.episode));
    named == 0 || !entry.sources.is_empty()
}

/// The number of items that a filter takes out.
fn taken<T>(all: &mut Vec<T>, keeps: impl FnMut(&mut T) -> bool) -> u64 {
    let before = all.len();
    all.retain_mut(keeps);
    (before - all.len()) as u64
}

impl LiveTrials {
    /// Forgets sessions (`is_forgotten`, of `RUN/EPISODE`) and users of whom nothing is left. A lesson whose named evidence is all forgotten goes,
    /// unless it is served: what is served came from several users, and is the operator's. What was drawn for it in other sessions still counts as
    /// a lesson that was tried.
    pub fn forget(&mut self, is_forgotten: impl Fn(&str) -> bool, users: &BTreeSet<u64>) -> ForgottenLessons {
        for admitted in &mut self.admitted {
            remains(&mut admitted.entry, &is_forgotten);
        }
        self.refused.retain(|refused| refused.episode.as_ref().is_some_and(|episode| !is_forgotten(episode)));
        ForgottenLessons {
            candidates: taken(&mut self.candidates, |LiveCandidate { entry, teachers }| {
                teachers.retain(|teacher| !users.contains(teacher));
                remains(entry, &is_forgotten) && !teachers.is_empty()
            }),
            trials: taken(&mut self.on_trial, |Trial { entry, .. }| remains(entry, &is_forgotten)),
            ended: taken(&mut self.ended, |Ended { entry, .. }| remains(entry, &is_forgotten)),
        }
    }
}
