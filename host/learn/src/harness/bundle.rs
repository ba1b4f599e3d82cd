//! Lessons that are tried together: with few episodes none can be measured alone. All proposals form one bundle. Training shows it as it is
//! proposed, so that later episodes show what it does; the gate accepts or rejects it as a whole.

use super::{Admission, Harness};
use crate::{EntryId, Status};

impl Harness {
    /// Whether proposals form a bundle.
    pub(super) fn bundles(&self) -> bool {
        self.settings.admission == Admission::Bundle
    }

    /// Puts an entry into the running bundle, after those that are in it: a later lesson decides where two apply alike. A deployed entry
    /// stays where it is.
    pub(super) fn bundle(&mut self, id: &EntryId) {
        self.left_out.remove(id);
        let (position, groups) = (self.next_position, self.groups);
        let Some(record) = self.records.get_mut(id).filter(|record| record.entry.status != Status::Deployed) else {
            return;
        };
        record.entry.status = Status::Bundled;
        record.began = groups;
        record.position = position;
        self.next_position += 1;
        self.touched();
    }

    /// Takes an entry out of the running bundle. A deployed one stays served until the gate accepts a bundle without it.
    pub(super) fn leave_out(&mut self, id: &EntryId) {
        match self.status(id) {
            Some(Status::Bundled) => self.close(id, Status::Expired),
            Some(Status::Deployed) => drop(self.left_out.insert(id.clone())),
            _ => return self.refuse("a retirement of an entry that is neither bundled nor deployed"),
        }
        self.touched();
    }

    /// Whether a deployed entry passed the gate only together with others.
    pub(super) fn is_provisional(&self, id: &EntryId) -> bool {
        self.records.get(id).is_some_and(|record| record.entry.status == Status::Deployed && record.entry.provisional)
    }
}
