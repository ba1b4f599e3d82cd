//! Stagnation: if training finds no lesson for some time, reflectors are asked for another approach.
//!
//! A *round* is a batch in which reflectors were asked. Rounds stagnate if training finds nothing: no entry was admitted and none is on trial or
//! waits for one, so that proposals were absent, refused or known; or trials end one after the other without an admission. Then the attempt
//! changes, and reflectors see its number and the lessons that were tried and not admitted. Only training decides this. Entries that are on trial
//! because of the gate's decision about them do not count.

use super::{Admission, Harness, Record, TRIAL_SLOTS};
use crate::{Entry, EntryId, Status};
use serde::{Deserialize, Serialize};

/// Rounds in a row without anything on trial after which another approach is due. One round may show nothing new by chance, for the batch has
/// few tasks; three rounds are some fifty tasks.
pub const STAGNANT_ROUNDS: u32 = 3;
/// Trials in a row that end without an admission after which another approach is due: as many as run at once. Of a reflector that is right in one
/// of five cases, sixteen in a row are wrong once in 35.
pub const STAGNANT_TRIALS: u32 = TRIAL_SLOTS as u32;
/// Most lessons that reflectors are shown as tried in vain: the latest. They are two pages of a prompt.
pub const TRIED: usize = 32;

/// How proposing goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approach {
    /// How often the approach was changed.
    pub attempt: u32,
    /// Rounds in a row that found nothing.
    rounds: u32,
    /// Trials in a row that ended without an admission.
    trials: u32,
    /// The entries whose trials ended so, the latest last.
    tried: Vec<EntryId>,
}

impl Harness {
    /// How often the approach was changed, because training found nothing.
    pub fn attempt(&self) -> u32 {
        self.approach.attempt
    }

    /// Lessons that training tried in vain: the latest, and only those that no proposal brought back.
    pub fn tried(&self) -> Vec<Entry> {
        let tried = |record: &Record| match &record.entry.status {
            Status::Harmful | Status::Expired => Some(record.entry.clone()),
            // On trial again because of the gate's decision about another entry.
            _ if record.resumed => Some(Entry { status: Status::Expired, ..record.entry.clone() }),
            _ => None,
        };
        self.approach.tried.iter().filter_map(|id| tried(self.records.get(id)?)).collect()
    }

    /// Notes that a trial ended with an admission.
    pub(super) fn note_admission(&mut self, id: &EntryId) {
        self.approach.tried.retain(|known| known != id);
        if self.counts_for_approach(id) {
            (self.approach.rounds, self.approach.trials) = (0, 0);
        }
    }

    /// Notes that a trial ended without one.
    pub(super) fn note_failure(&mut self, id: &EntryId) {
        if !self.counts_for_approach(id) {
            return;
        }
        self.approach.trials += 1;
        self.approach.tried.retain(|known| known != id);
        self.approach.tried.push(id.clone());
        let surplus = self.approach.tried.len().saturating_sub(TRIED);
        self.approach.tried.drain(..surplus);
    }

    fn counts_for_approach(&self, id: &EntryId) -> bool {
        self.records.get(id).is_some_and(|record| !record.resumed)
    }

    /// Ends a round. Returns the event, if the approach changes.
    pub(super) fn end_round(&mut self) -> Option<String> {
        if self.settings.admission != Admission::Measured {
            return None;
        }
        let merging = self.merging();
        let is_running = self.records.values().any(|record| {
            let waits = matches!(record.entry.status, Status::Queued | Status::OnTrial);
            waits && !record.resumed && !merging.contains(&record.entry.id)
        });
        self.approach.rounds = if is_running { 0 } else { self.approach.rounds + 1 };
        if self.approach.rounds < STAGNANT_ROUNDS && self.approach.trials < STAGNANT_TRIALS {
            return None;
        }
        (self.approach.rounds, self.approach.trials) = (0, 0);
        self.approach.attempt = self.approach.attempt.saturating_add(1);
        Some(format!(
            "training found nothing: reflectors are asked for another approach, number {}",
            self.approach.attempt
        ))
    }
}
