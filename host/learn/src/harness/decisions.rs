//! What credit decides: who is admitted, who is retired, who expires, and who is tried next.

use super::{EXPIRE_AFTER, Evidence, FALSE_DISCOVERY, Harness, NEVER_RELEVANT_AFTER, Record};
use crate::credit::{Estimate, e_bh};
use crate::playbook::cluster_of;
use crate::{EntryId, Status};
use std::collections::BTreeMap;

impl Harness {
    /// Takes all decisions that the evidence allows; says what happened.
    pub(super) fn decide(&mut self) -> Vec<String> {
        let estimates = self.credit.estimates();
        for (id, estimate) in &estimates {
            let Some(record) = self.records.get_mut(id) else { continue };
            let values = if estimate.decidable {
                Evidence { helps: estimate.admit, harms: estimate.harm }
            } else {
                // It counts among those that were tried, with nothing in its favour.
                Evidence { helps: 0.0, harms: 0.0 }
            };
            record.evidence = match (&record.entry.status, record.evidence) {
                (Status::OnTrial, _) => Some(values),
                // It was admitted on what is frozen now; maintenance can only speak against it.
                (Status::Admitted | Status::Deployed, frozen) => {
                    Some(Evidence { helps: frozen.map_or(0.0, |frozen| frozen.helps), harms: values.harms })
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

    /// Of all entries that were ever on trial: those for which this evidence is enough.
    fn convincing(&self, value: fn(&Evidence) -> f64) -> Vec<EntryId> {
        let tried: Vec<(&EntryId, f64)> =
            self.records.iter().filter_map(|(id, record)| Some((id, value(record.evidence.as_ref()?)))).collect();
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
        let candidates = self.convincing(|evidence| evidence.harms).into_iter().filter_map(|id| {
            let record = self.records.get(&id).filter(|record| shown(record))?;
            let estimate = estimates.get(&id).filter(|estimate| estimate.decidable)?;
            Some((record.evidence?.harms, id, estimate))
        });
        let (_, id, estimate) = candidates.max_by(|(one, ..), (other, ..)| one.total_cmp(other))?;
        let groups = self.groups;
        let record = self.records.get_mut(&id)?;
        record.entry.status = Status::Harmful;
        record.decided = Some(estimate.clone());
        record.closed = groups;
        let event = told("harmful", record, Some(estimate));
        self.credit.drop_entry(&id);
        Some(event)
    }

    fn expire(&mut self, estimates: &BTreeMap<EntryId, Estimate>) -> Vec<String> {
        let mut events = Vec::new();
        let groups = self.groups;
        let mut gone = Vec::new();
        for (id, record) in self.records.iter_mut().filter(|(_, record)| record.entry.status == Status::OnTrial) {
            let estimate = estimates.get(id);
            let relevant = estimate.map_or(0, |estimate| estimate.groups);
            if relevant < EXPIRE_AFTER && groups.saturating_sub(record.began) < NEVER_RELEVANT_AFTER {
                continue;
            }
            record.entry.status = Status::Expired;
            record.decided = estimate.cloned();
            record.closed = groups;
            events.push(told("expired, no evidence", record, estimate));
            gone.push(id.clone());
        }
        gone.iter().for_each(|id| self.credit.drop_entry(id));
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
            if self.count(&Status::OnTrial) >= self.settings.trial_slots {
                break;
            }
            let Some(record) = self.records.get(&id) else { continue };
            let on_trial: Vec<_> = self
                .records
                .values()
                .filter(|other| other.entry.status == Status::OnTrial)
                .map(|other| &other.entry.lesson)
                .collect();
            if cluster_of(&record.entry.lesson, &on_trial, None).is_some() {
                continue;
            }
            let groups = self.groups;
            if let Some(record) = self.records.get_mut(&id) {
                record.entry.status = Status::OnTrial;
                record.began = groups;
                record.evidence = Some(Evidence { helps: 0.0, harms: 0.0 });
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
