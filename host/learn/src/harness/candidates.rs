//! Candidates: playbooks that may replace the deployed one, and what follows from the gate's decision about them.

use super::{Harness, Merger, Record};
use crate::gate::Question;
use crate::playbook::Playbook;
use crate::{EntryId, Status};
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A playbook that may replace the deployed one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its content.
    pub playbook: Playbook,
    /// Entries that the deployed playbook does not have.
    pub added: Vec<EntryId>,
    /// Deployed entries that it does not have.
    pub removed: Vec<EntryId>,
    /// Names of the sections whose text differs.
    pub rewritten: Vec<String>,
    /// The merger that it is; `None`: it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merger: Option<Merger>,
    /// The hypothesis that the gate tests.
    pub question: Question,
}

impl Candidate {
    /// Digest of the playbook.
    pub fn digest(&self) -> Digest {
        self.playbook.digest()
    }
}

impl Harness {
    /// The open entries that this record replaces once the gate accepts it. A record replaces only older ones, so the chain
    /// has no cycle.
    pub(super) fn replaced<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = &'a EntryId> {
        let older = |record: &&'a Record| {
            let old = self.records.get(record.replaces.as_ref()?)?;
            (old.entry.status.is_open() && old.position < record.position).then_some(old)
        };
        std::iter::successors(older(&record), move |old| older(old)).map(|old| &old.entry.id)
    }

    /// The candidate that could replace the deployed playbook: what training changed, or else a merger. `None`: there is none.
    pub fn candidate(&self) -> Option<Candidate> {
        self.changed().or_else(|| self.consolidated())
    }

    fn changed(&self) -> Option<Candidate> {
        let waits = |record: &&Record| matches!(record.entry.status, Status::Admitted | Status::Bundled);
        let admitted: Vec<&Record> = self.in_order().into_iter().filter(waits).collect();
        let replaced: BTreeMap<&EntryId, &EntryId> =
            admitted.iter().flat_map(|record| self.replaced(record).map(move |old| (old, &record.entry.id))).collect();
        let ids = admitted.iter().map(|record| &record.entry.id);
        let added = ids.filter(|id| !replaced.contains_key(id));
        let leaves = |id: &EntryId| {
            replaced.contains_key(id) || self.left_out.contains(id) || self.status(id) == Some(&Status::Harmful)
        };
        let kept = self.deployed.iter().filter(|id| !leaves(id));
        let mut ids: Vec<&EntryId> = kept.chain(added).collect();
        let instead = |id: &EntryId| replaced.get(id).map_or_else(|| self.current(id), |new| *new).clone();
        self.drop_unmet(&mut ids, &instead);
        let added: Vec<EntryId> = ids.iter().filter(|id| !self.deployed.contains(id)).map(|id| (*id).clone()).collect();
        let removed: Vec<EntryId> = self.deployed.iter().filter(|id| !ids.contains(id)).cloned().collect();
        let rewritten = self.rewritten();
        if added.is_empty() && removed.is_empty() && rewritten.is_empty() {
            return None;
        }
        let only_less = added.is_empty() && rewritten.is_empty();
        let question = if only_less { Question::NotWorse } else { Question::Better };
        let mut playbook = self.playbook(ids.into_iter());
        playbook.entries.iter_mut().flat_map(|entry| &mut entry.needs).for_each(|need| *need = instead(need));
        if let Some(sections) = &self.proposed_sections {
            playbook.sections.clone_from(sections);
        }
        Some(Candidate { playbook, added, removed, rewritten, merger: None, question })
    }

    /// Drops the entries that need one which is not among them.
    fn drop_unmet(&self, ids: &mut Vec<&EntryId>, instead: &dyn Fn(&EntryId) -> EntryId) {
        loop {
            let before = ids.len();
            let present: BTreeSet<EntryId> = ids.iter().map(|id| (*id).clone()).collect();
            ids.retain(|id| {
                let needs = self.records.get(*id).map_or(&[][..], |record| &record.entry.needs);
                needs.iter().all(|need| present.contains(&instead(need)))
            });
            if ids.len() == before {
                return;
            }
        }
    }

    /// Deploys a candidate that the gate accepted.
    pub fn promote(&mut self, candidate: &Candidate) {
        self.sections.clone_from(&candidate.playbook.sections);
        self.settle_sections(candidate);
        self.deployed = candidate.playbook.entries.iter().map(|entry| entry.id.clone()).collect();
        if let Some(merger) = &candidate.merger {
            self.merge(merger);
        } else {
            self.deploy(candidate);
        }
        // What needed an entry that left has left with it.
        for id in &candidate.removed {
            if self.status(id).is_some_and(Status::is_open) {
                self.close(id, Status::Expired);
            }
        }
        self.follow_superseded();
        self.touched();
    }

    fn deploy(&mut self, candidate: &Candidate) {
        for id in &candidate.added {
            let Some(record) = self.records.get(id) else { continue };
            let replaced: Vec<EntryId> = self.replaced(record).cloned().collect();
            for old in replaced {
                self.close(&old, Status::Superseded(id.clone()));
            }
            if let Some(record) = self.records.get_mut(id) {
                record.entry.provisional = record.entry.status == Status::Bundled;
                record.entry.status = Status::Deployed;
            }
        }
        if !candidate.added.is_empty() {
            self.reopen_expired();
        }
        for id in std::mem::take(&mut self.left_out) {
            self.close(&id, Status::Expired);
        }
    }

    /// The gate rejected a candidate: its new entries return to the queue and its sections are dropped. If it only removed
    /// entries, these stay deployed. A merger is not tried again.
    pub fn reject(&mut self, candidate: &Candidate) {
        self.settle_sections(candidate);
        if let Some(merger) = &candidate.merger {
            self.keep_apart(merger);
        } else {
            for id in &candidate.added {
                self.resume(id, Status::Queued);
            }
            self.keep_removed(candidate);
        }
        self.fill_trial();
        self.touched();
    }

    /// The gate could not decide about a candidate within its limit: the entries that it adds expire, and those that it
    /// removes stay deployed if it did nothing else. A merger is not tried again.
    pub fn abandon(&mut self, candidate: &Candidate) {
        self.settle_sections(candidate);
        if let Some(merger) = &candidate.merger {
            self.keep_apart(merger);
        } else {
            for id in &candidate.added {
                self.close(id, Status::Expired);
            }
            self.keep_removed(candidate);
        }
        self.fill_trial();
        self.touched();
    }

    fn keep_removed(&mut self, candidate: &Candidate) {
        let only_less = candidate.added.is_empty() && candidate.rewritten.is_empty();
        for id in candidate.removed.iter().filter(|_| only_less) {
            self.try_again(id, Status::Deployed);
        }
    }

    /// Begins a test again because of the gate's decision.
    pub(super) fn resume(&mut self, id: &EntryId, status: Status) {
        self.try_again(id, status);
        let needed = self.needed(id);
        for id in needed.iter().chain([id]) {
            if let Some(record) = self.records.get_mut(id).filter(|record| record.entry.status == Status::Queued) {
                record.resumed = true;
            }
        }
    }
}
