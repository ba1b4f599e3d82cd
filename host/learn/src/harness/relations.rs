//! Entries that need others: what they need, what is held with them, and what leaves with a prerequisite.
//!
//! The entry that needs others is the one that is tried: it stands for its unit. What it needs waits meanwhile, is shown with it, is admitted
//! with it, and is tried alone only when no open entry needs it any more.

use super::{Harness, Record};
use crate::playbook::needs::closure;
use crate::{EntryId, Status};
use std::collections::BTreeSet;

impl Harness {
    /// The entry that stands in the place of this one, if it was superseded.
    pub(super) fn current<'a>(&'a self, id: &'a EntryId) -> &'a EntryId {
        let mut now = id;
        // A superseding entry is younger, so the chain ends; the bound is for damaged documents.
        for _ in 0..self.records.len() {
            match self.status(now) {
                Some(Status::Superseded(by)) => now = by,
                _ => break,
            }
        }
        now
    }

    /// All that an entry needs, directly or through others.
    pub(super) fn needed(&self, id: &EntryId) -> BTreeSet<EntryId> {
        let needs = |id: &EntryId| self.records.get(id).map_or(&[][..], |record| &record.entry.needs);
        closure(id, needs).into_iter().cloned().collect()
    }

    fn has_needs(record: &&Record) -> bool {
        !record.entry.needs.is_empty()
    }

    /// Queued entries that an entry on trial needs: they are shown with it.
    pub(super) fn carried(&self) -> BTreeSet<EntryId> {
        let tried =
            self.records.values().filter(|record| record.entry.status == Status::OnTrial).filter(Self::has_needs);
        let needed = tried.flat_map(|record| self.needed(&record.entry.id));
        needed.filter(|id| self.status(id) == Some(&Status::Queued)).collect()
    }

    /// Entries that an open entry needs which was not decided: they have no trial of their own meanwhile.
    pub(super) fn held(&self) -> BTreeSet<EntryId> {
        let waits = |record: &&Record| matches!(record.entry.status, Status::Queued | Status::OnTrial);
        let waiting = self.records.values().filter(waits).filter(Self::has_needs);
        waiting.flat_map(|record| self.needed(&record.entry.id)).collect()
    }

    /// Whether something that an entry needs is out.
    fn is_blocked(&self, id: &EntryId) -> bool {
        self.needed(id).iter().any(|needed| self.status(needed).is_none_or(|status| !status.is_open()))
    }

    /// Closes entries that were not deployed and need one that is out. Deployed ones leave with the next candidate.
    pub(super) fn close_blocked(&mut self) -> Vec<String> {
        let is_undeployed = |record: &&Record| {
            matches!(record.entry.status, Status::Queued | Status::OnTrial | Status::Admitted | Status::Bundled)
        };
        let with_needs = self.records.values().filter(Self::has_needs).filter(is_undeployed);
        let blocked = with_needs.map(|record| record.entry.id.clone()).filter(|id| self.is_blocked(id));
        let blocked: Vec<EntryId> = blocked.collect();
        let mut events = Vec::new();
        for id in blocked {
            self.close(&id, Status::Expired);
            if let Some(record) = self.records.get(&id) {
                events.push(format!("expired, what it needs is out: {}", record.entry.lesson.line()));
            }
        }
        events
    }

    /// Admits what an admitted entry needs: they were tried as one.
    pub(super) fn admit_needed(&mut self, id: &EntryId) {
        for needed in self.needed(id) {
            let groups = self.groups;
            let Some(record) = self.records.get_mut(&needed) else { continue };
            if matches!(record.entry.status, Status::Queued | Status::OnTrial) {
                record.entry.status = Status::Admitted;
                record.closed = groups;
                self.credit.reset_entry(&needed);
            }
        }
    }

    /// Says what an entry needs. Another relation is another hypothesis: an entry that was turned down without it has a new trial, and so
    /// have the entries that it needs. One that is tried or served keeps its relation, and so does one that was turned down before with the new
    /// relation.
    ///
    /// # Errors
    /// It would need itself, through the entry that the text names.
    pub(super) fn relate(&mut self, id: &EntryId, mut needs: Vec<EntryId>) -> Result<(), EntryId> {
        needs = needs.iter().map(|need| self.current(need).clone()).collect();
        needs.sort();
        needs.dedup();
        if let Some(through) = needs.iter().find(|need| *need == id || self.needed(need).contains(id)) {
            return Err(through.clone());
        }
        let Some(record) = self.records.get_mut(id).filter(|record| record.entry.needs != needs) else { return Ok(()) };
        let is_out = matches!(record.entry.status, Status::Expired | Status::Harmful);
        if !is_out && !matches!(record.entry.status, Status::Queued | Status::Bundled) {
            return Ok(());
        }
        if record.needed_before.contains(&needs) {
            return Ok(());
        }
        let before = std::mem::replace(&mut record.entry.needs, needs);
        if is_out {
            record.needed_before.insert(before);
        }
        if is_out && !self.deployed.contains(id) {
            self.try_again(id, Status::Queued);
        }
        for needed in self.needed(id) {
            let is_out = matches!(self.status(&needed), Some(Status::Expired | Status::Harmful));
            if is_out && !self.deployed.contains(&needed) {
                self.try_again(&needed, Status::Queued);
            }
        }
        self.touched();
        Ok(())
    }

    /// Points at the entry that superseded a needed one.
    pub(super) fn follow_superseded(&mut self) {
        let with_needs = self.records.values().filter(Self::has_needs);
        let moved = with_needs.filter_map(|record| {
            // Two that were merged are one.
            let needs: BTreeSet<EntryId> = record.entry.needs.iter().map(|need| self.current(need).clone()).collect();
            let needs: Vec<EntryId> = needs.into_iter().collect();
            (needs != record.entry.needs).then(|| (record.entry.id.clone(), needs))
        });
        let moved: Vec<(EntryId, Vec<EntryId>)> = moved.collect();
        for (id, needs) in moved {
            if let Some(record) = self.records.get_mut(&id) {
                record.entry.needs = needs;
            }
        }
    }
}
