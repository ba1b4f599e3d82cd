//! Decisions from credit: admission, retirement, expiry, and the next trials.

use super::{EXPIRE_AFTER, Evidence, FALSE_DISCOVERY, Harness, NEVER_RELEVANT_AFTER, Record, TRIAL_SLOTS};
use crate::credit::{Estimate, e_bh};
use crate::{EntryId, Status};
use std::collections::BTreeMap;

impl Record {
    /// Begins a new test of harm: the evidence so far stays as that of a hypothesis tried.
    pub(super) fn test_harm_again(&mut self) {
        if let Some(evidence) = self.evidence.as_mut() {
            self.earlier.push(Evidence { helps: None, harms: evidence.harms });
            evidence.harms = 0.0;
        }
    }

    /// Begins a new trial: the evidence so far stays as that of hypotheses tried.
    pub(super) fn try_again(&mut self) {
        if let Some(evidence) = self.evidence.as_mut() {
            self.earlier.push(*evidence);
            *evidence = Evidence { helps: Some(0.0), harms: 0.0 };
        }
    }
}

impl Harness {
    /// Takes all decisions that the evidence allows; returns the events.
    pub(super) fn decide(&mut self) -> Vec<String> {
        let estimates = self.credit.estimates();
        for (id, estimate) in &estimates {
            let Some(record) = self.records.get_mut(id) else { continue };
            let values = if estimate.decidable {
                Evidence { helps: Some(estimate.admit), harms: estimate.harm }
            } else {
                // The entry counts as tried, without evidence in its favour.
                Evidence { helps: Some(0.0), harms: 0.0 }
            };
            record.evidence = match (&record.entry.status, record.evidence) {
                (Status::OnTrial, _) => Some(values),
                // It was never measured alone: both outcomes are open.
                (Status::Deployed, _) if record.entry.provisional => Some(values),
                // It was admitted by the frozen value. Maintenance can only produce evidence against it.
                (Status::Admitted | Status::Deployed, frozen) => {
                    Some(Evidence { helps: frozen.and_then(|frozen| frozen.helps), harms: values.harms })
                }
                (_, frozen) => frozen,
            };
        }
        // The test of a deployed entry ends after this many groups, whatever its outcome.
        self.questioned.retain(|id| estimates.get(id).is_none_or(|estimate| estimate.groups < EXPIRE_AFTER));
        let mut events = self.admit(&estimates);
        events.extend(self.retire(&estimates));
        events.extend(self.expire(&estimates));
        events.extend(self.close_blocked());
        events
    }

    /// The entries selected by e-BH among all trials in which this evidence was ever measured. A later trial of an entry is
    /// one more. Only its last trial can select an entry.
    pub(super) fn convincing(&self, value: fn(Evidence) -> Option<f64>) -> Vec<EntryId> {
        let last = |(id, record): (&EntryId, &Record)| Some((Some(id.clone()), value(record.evidence?)?));
        let earlier = |record: &Record| record.earlier.iter().filter_map(|one| Some((None, value(*one)?))).collect();
        let mut tried: Vec<(Option<EntryId>, f64)> = self.records.iter().filter_map(last).collect();
        tried.extend(self.records.values().flat_map::<Vec<_>, _>(earlier));
        let values: Vec<f64> = tried.iter().map(|(_, value)| *value).collect();
        let chosen = e_bh(&values, FALSE_DISCOVERY);
        tried.into_iter().zip(chosen).filter(|(_, chosen)| *chosen).filter_map(|((id, _), _)| id).collect()
    }

    fn admit(&mut self, estimates: &BTreeMap<EntryId, Estimate>) -> Vec<String> {
        let mut events = Vec::new();
        for id in self.convincing(|evidence| evidence.helps) {
            let Some(estimate) = estimates.get(&id).filter(|estimate| estimate.decidable) else { continue };
            let groups = self.groups;
            let Some(record) = self.records.get_mut(&id) else { continue };
            let is_tried = record.entry.status == Status::OnTrial;
            match record.entry.status {
                Status::OnTrial => record.entry.status = Status::Admitted,
                Status::Deployed if record.entry.provisional => record.entry.provisional = false,
                _ => continue,
            }
            record.decided = Some(estimate.clone());
            record.closed = groups;
            if let Some(evidence) = record.evidence.as_mut() {
                evidence.harms = 0.0;
            }
            events.push(event("admitted", record, Some(estimate)));
            // Maintenance starts without the evidence of the trial.
            self.credit.reset_entry(&id);
            if is_tried {
                self.note_admission(&id);
                self.admit_needed(&id);
            }
        }
        events
    }

    /// Retires at most one entry per step, because its removal may change the effects of the others.
    fn retire(&mut self, estimates: &BTreeMap<EntryId, Estimate>) -> Option<String> {
        let shown =
            |record: &Record| matches!(record.entry.status, Status::OnTrial | Status::Admitted | Status::Deployed);
        let candidates = self.convincing(|evidence| Some(evidence.harms)).into_iter().filter_map(|id| {
            let record = self.records.get(&id).filter(|record| shown(record))?;
            let estimate = estimates.get(&id).filter(|estimate| estimate.decidable)?;
            Some((record.evidence?.harms, id, estimate))
        });
        let (_, id, estimate) = candidates.max_by(|(one, ..), (other, ..)| one.total_cmp(other))?;
        if self.status(&id) == Some(&Status::OnTrial) {
            self.note_failure(&id);
        }
        self.close(&id, Status::Harmful);
        let record = self.records.get_mut(&id)?;
        record.decided = Some(estimate.clone());
        Some(event("harmful", record, Some(estimate)))
    }

    fn expire(&mut self, estimates: &BTreeMap<EntryId, Estimate>) -> Vec<String> {
        let mut events = Vec::new();
        let too_long = |record: &&Record| {
            let relevant = estimates.get(&record.entry.id).map_or(0, |estimate| estimate.groups);
            let tried = record.entry.status == Status::OnTrial;
            let altogether = self.groups.saturating_sub(record.began);
            tried && (relevant >= EXPIRE_AFTER || altogether >= NEVER_RELEVANT_AFTER)
        };
        let gone: Vec<EntryId> = self.records.values().filter(too_long).map(|record| record.entry.id.clone()).collect();
        for id in gone {
            self.note_failure(&id);
            self.close(&id, Status::Expired);
            let Some(record) = self.records.get_mut(&id) else { continue };
            record.decided = estimates.get(&id).cloned();
            events.push(event("expired, no evidence", record, estimates.get(&id)));
        }
        events
    }

    /// Queues expired entries again: beside what is deployed now they may have an effect, as a rule has that needs a look-up. Those that were
    /// never relevant stay expired.
    pub(super) fn reopen_expired(&mut self) {
        let measured = |record: &&Record| record.decided.as_ref().is_some_and(|estimate| estimate.groups > 0);
        let expired = self.records.values().filter(|record| record.entry.status == Status::Expired).filter(measured);
        let ids: Vec<EntryId> = expired.map(|record| record.entry.id.clone()).collect();
        for id in ids {
            self.resume(&id, Status::Queued);
        }
        self.fill_trial();
    }

    /// Starts trials of queued entries while there are slots, by falling support. Of several near-duplicates at most one is
    /// on trial. What another entry needs is tried with that entry.
    pub(super) fn fill_trial(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        if self.bundles() {
            return events;
        }
        let held = self.held();
        let merging = self.merging();
        let waits = |record: &&Record| {
            let id = &record.entry.id;
            record.entry.status == Status::Queued && !held.contains(id) && !merging.contains(id)
        };
        let mut queued: Vec<&Record> = self.records.values().filter(waits).collect();
        queued.sort_by_key(|record| (std::cmp::Reverse(record.entry.support), record.position));
        let queued: Vec<EntryId> = queued.into_iter().map(|record| record.entry.id.clone()).collect();
        for id in queued {
            if self.count(&Status::OnTrial) >= self.settings.trial_slots.min(TRIAL_SLOTS) {
                break;
            }
            let Some(record) = self.records.get(&id) else { continue };
            let mut on_trial = self.records.values().filter(|other| other.entry.status == Status::OnTrial);
            if on_trial.any(|other| other.form(&self.embedding).is_duplicate_of(record.form(&self.embedding))) {
                continue;
            }
            let groups = self.groups;
            if let Some(record) = self.records.get_mut(&id) {
                record.entry.status = Status::OnTrial;
                record.began = groups;
                record.evidence = Some(Evidence { helps: Some(0.0), harms: 0.0 });
                events.push(event("on trial", record, None));
            }
            self.credit.reset_entry(&id);
        }
        self.touched();
        events
    }
}

/// The text of an event.
fn event(what: &str, record: &Record, estimate: Option<&Estimate>) -> String {
    let line = record.entry.lesson.line();
    match estimate {
        Some(estimate) => format!(
            "{what}: {line} ({:+.3}, {:+.3} to {:+.3}, {} groups)",
            estimate.effect, estimate.interval.0, estimate.interval.1, estimate.groups
        ),
        None => format!("{what}: {line}"),
    }
}
