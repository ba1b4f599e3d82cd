//! What credit decides: who is admitted, who is retired, who expires, and who is tried next.

use super::{EXPIRE_AFTER, Evidence, FALSE_DISCOVERY, Harness, NEVER_RELEVANT_AFTER, Record, TRIAL_SLOTS};
use crate::credit::{Estimate, e_bh};
use crate::{EntryId, Status};
use std::collections::BTreeMap;

impl Harness {
    /// Takes all decisions that the evidence allows; says what happened.
    pub(super) fn decide(&mut self) -> Vec<String> {
        let estimates = self.credit.estimates();
        for (id, estimate) in &estimates {
            let Some(record) = self.records.get_mut(id) else { continue };
            let values = if estimate.decidable {
                Evidence { helps: Some(estimate.admit), harms: estimate.harm }
            } else {
                // It counts among those that were tried, with nothing in its favour.
                Evidence { helps: Some(0.0), harms: 0.0 }
            };
            record.evidence = match (&record.entry.status, record.evidence) {
                (Status::OnTrial, _) => Some(values),
                // It was admitted on what is frozen now; maintenance can only speak against it.
                (Status::Admitted | Status::Deployed, frozen) => {
                    Some(Evidence { helps: frozen.and_then(|frozen| frozen.helps), harms: values.harms })
                }
                (_, frozen) => frozen,
            };
        }
        // Questioned long enough: what was asked is answered, one way or the other.
        self.questioned.retain(|id| estimates.get(id).is_none_or(|estimate| estimate.groups < EXPIRE_AFTER));
        let mut events = self.admit(&estimates);
        events.extend(self.retire(&estimates));
        events.extend(self.expire(&estimates));
        events
    }

    /// Of all entries that were ever asked this about: those for which the evidence is enough.
    pub(super) fn convincing(&self, value: fn(Evidence) -> Option<f64>) -> Vec<EntryId> {
        let tried: Vec<(&EntryId, f64)> =
            self.records.iter().filter_map(|(id, record)| Some((id, value(record.evidence?)?))).collect();
        let values: Vec<f64> = tried.iter().map(|(_, value)| *value).collect();
        let chosen = e_bh(&values, FALSE_DISCOVERY);
        tried.into_iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|((id, _), _)| id.clone()).collect()
    }

    fn admit(&mut self, estimates: &BTreeMap<EntryId, Estimate>) -> Vec<String> {
        let mut events = Vec::new();
        for id in self.convincing(|evidence| evidence.helps) {
            let Some(estimate) = estimates.get(&id).filter(|estimate| estimate.decidable) else { continue };
            let groups = self.groups;
            let Some(record) = self.records.get_mut(&id).filter(|record| record.entry.status == Status::OnTrial) else {
                continue;
            };
            record.entry.status = Status::Admitted;
            record.decided = Some(estimate.clone());
            record.closed = groups;
            if let Some(evidence) = record.evidence.as_mut() {
                evidence.harms = 0.0;
            }
            events.push(told("admitted", record, Some(estimate)));
            // Maintenance begins with clean sheets.
            self.credit.reset_entry(&id);
        }
        events
    }

    /// One at a time: what the others are worth may change with it.
    fn retire(&mut self, estimates: &BTreeMap<EntryId, Estimate>) -> Option<String> {
        let shown =
            |record: &Record| matches!(record.entry.status, Status::OnTrial | Status::Admitted | Status::Deployed);
        let candidates = self.convincing(|evidence| Some(evidence.harms)).into_iter().filter_map(|id| {
            let record = self.records.get(&id).filter(|record| shown(record))?;
            let estimate = estimates.get(&id).filter(|estimate| estimate.decidable)?;
            Some((record.evidence?.harms, id, estimate))
        });
        let (_, id, estimate) = candidates.max_by(|(one, ..), (other, ..)| one.total_cmp(other))?;
        self.close(&id, Status::Harmful);
        let record = self.records.get_mut(&id)?;
        record.decided = Some(estimate.clone());
        Some(told("harmful", record, Some(estimate)))
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
            self.close(&id, Status::Expired);
            let Some(record) = self.records.get_mut(&id) else { continue };
            record.decided = estimates.get(&id).cloned();
            events.push(told("expired, no evidence", record, estimates.get(&id)));
        }
        events
    }

    /// Puts queued entries on trial while there are places: those with most support first, and at most one of several that say
    /// nearly the same.
    pub(super) fn fill_trial(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        let mut queued: Vec<&Record> =
            self.records.values().filter(|record| record.entry.status == Status::Queued).collect();
        queued.sort_by_key(|record| (std::cmp::Reverse(record.entry.support), record.position));
        let queued: Vec<EntryId> = queued.into_iter().map(|record| record.entry.id.clone()).collect();
        for id in queued {
            if self.count(&Status::OnTrial) >= self.settings.trial_slots.min(TRIAL_SLOTS) {
                break;
            }
            let Some(record) = self.records.get(&id) else { continue };
            let mut on_trial = self.records.values().filter(|other| other.entry.status == Status::OnTrial);
            if on_trial.any(|other| other.form(&self.embedding).says_the_same(record.form(&self.embedding))) {
                continue;
            }
            let groups = self.groups;
            if let Some(record) = self.records.get_mut(&id) {
                record.entry.status = Status::OnTrial;
                record.began = groups;
                record.evidence = Some(Evidence { helps: Some(0.0), harms: 0.0 });
                events.push(told("on trial", record, None));
            }
            self.credit.reset_entry(&id);
        }
        self.touched();
        events
    }
}

/// An event, in words.
fn told(what: &str, record: &Record, estimate: Option<&Estimate>) -> String {
    let line = record.entry.lesson.line();
    match estimate {
        Some(estimate) => format!(
            "{what}: {line} ({:+.3}, {:+.3} to {:+.3}, {} groups)",
            estimate.effect, estimate.interval.0, estimate.interval.1, estimate.groups
        ),
        None => format!("{what}: {line}"),
    }
}
