//! Consolidation: deployed entries that say the same, or nearly, become one. The merged entry takes no evidence over. It is a candidate like
//! any other, which replaces its parts if the gate finds the playbook no worse with fewer tokens: one comparison, with its share of alpha.
//!
//! Mergers come from reflectors, which write the merged lesson, or are found here, where one of the parts says what the others say: a rule
//! with the same action under fewer conditions, or a text with nearly all words of the other. Those found here have no new text, so a wrong
//! one costs pairs of the gate and nothing else. One merger is compared at a time; one that was turned down, or rolled back, is not tried again.

use super::{Admission, Candidate, Harness, Record};
use crate::gate::Question;
use crate::{EntryId, Lesson, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Deployed entries that could become one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merger {
    /// The entry that takes their place: a deployed one, or one that a reflector wrote.
    pub into: EntryId,
    /// The deployed entries that it replaces; at least one.
    pub parts: Vec<EntryId>,
}

/// Most mergers that wait for the gate. It compares one in a session.
pub(super) const MERGERS: usize = 16;

impl Harness {
    /// The candidate in which one merger has taken place.
    pub(super) fn consolidated(&self) -> Option<Candidate> {
        if self.settings.admission != Admission::Measured {
            return None;
        }
        let merger = self.mergers.iter().find(|merger| self.is_possible(merger)).cloned().or_else(|| self.found())?;
        let is_new = !self.deployed.contains(&merger.into);
        let first = self.deployed.iter().position(|id| merger.parts.contains(id))?;
        let mut ids = self.deployed.clone();
        if is_new {
            ids.insert(first, merger.into.clone());
        }
        ids.retain(|id| !merger.parts.contains(id));
        let mut playbook = self.playbook(ids.iter());
        for entry in &mut playbook.entries {
            for need in entry.needs.iter_mut().filter(|need| merger.parts.contains(need)) {
                need.clone_from(&merger.into);
            }
            // Two that are merged are one; in the same order as [`Harness::follow_superseded`] leaves.
            entry.needs.sort();
            entry.needs.dedup();
            if entry.id == merger.into {
                entry.merges.extend(merger.parts.iter().cloned());
            }
        }
        let added = if is_new { vec![merger.into.clone()] } else { Vec::new() };
        let removed = merger.parts.clone();
        let rewritten = Vec::new();
        Some(Candidate { playbook, added, removed, rewritten, merger: Some(merger), question: Question::NotWorse })
    }

    /// Whether the parts are still deployed, and the merged entry is open.
    fn is_possible(&self, merger: &Merger) -> bool {
        merger.parts.iter().all(|id| self.deployed.contains(id) && self.status(id) == Some(&Status::Deployed))
            && self.status(&merger.into).is_some_and(Status::is_open)
    }

    /// The merger among the deployed entries that saves most tokens.
    fn found(&self) -> Option<Merger> {
        let deployed: Vec<&Record> = self
            .deployed
            .iter()
            .filter_map(|id| self.records.get(id))
            .filter(|record| record.entry.status == Status::Deployed)
            .collect();
        let merger = |into: &&Record| {
            let covers = |part: &&&Record| self.covers(into, part, &deployed);
            let parts: Vec<&&Record> = deployed.iter().filter(covers).collect();
            let saved: u64 = parts.iter().map(|part| part.entry.lesson.tokens()).sum();
            let parts: Vec<EntryId> = parts.into_iter().map(|part| part.entry.id.clone()).collect();
            (!parts.is_empty()).then(|| (saved, Merger { into: into.entry.id.clone(), parts }))
        };
        let mergers: Vec<(u64, Merger)> = deployed.iter().filter_map(merger).collect();
        let most = mergers.iter().map(|(saved, _)| *saved).max()?;
        mergers.into_iter().find(|(saved, _)| *saved == most).map(|(_, merger)| merger)
    }

    /// Whether an entry says what another one says.
    fn covers(&self, into: &Record, part: &Record, deployed: &[&Record]) -> bool {
        let (one, other) = (&into.entry, &part.entry);
        if one.id == other.id
            || one.needs != other.needs
            || into.apart.contains(&other.id)
            || part.apart.contains(&one.id)
        {
            return false;
        }
        into.form(&self.embedding).covers(part.form(&self.embedding))
            && !is_exception(&one.lesson, &other.lesson, deployed)
    }

    /// Carries a merger out that the gate accepted.
    pub(super) fn merge(&mut self, merger: &Merger) {
        for part in &merger.parts {
            self.close(part, Status::Superseded(merger.into.clone()));
        }
        if let Some(record) = self.records.get_mut(&merger.into) {
            record.entry.status = Status::Deployed;
            record.entry.merges.extend(merger.parts.iter().cloned());
        }
        self.mergers.retain(|waiting| waiting != merger);
    }

    /// Notes that a merger was turned down.
    pub(super) fn keep_apart(&mut self, merger: &Merger) {
        for part in &merger.parts {
            if let Some(record) = self.records.get_mut(part) {
                record.apart.insert(merger.into.clone());
            }
        }
        if !self.deployed.contains(&merger.into) {
            self.close(&merger.into, Status::Expired);
        }
        self.mergers.retain(|waiting| waiting != merger);
    }

    /// Drops mergers that cannot take place any more, with the entries that were written for them.
    pub(super) fn drop_impossible(&mut self) {
        let (possible, gone): (Vec<Merger>, Vec<Merger>) =
            std::mem::take(&mut self.mergers).into_iter().partition(|merger| self.is_possible(merger));
        self.mergers = possible;
        for Merger { into, .. } in gone {
            if self.status(&into) == Some(&Status::Queued) {
                self.close(&into, Status::Expired);
            }
        }
    }

    /// The entries that were written for mergers: they have no trial, because their parts are shown.
    pub(super) fn merging(&self) -> BTreeSet<&EntryId> {
        self.mergers.iter().map(|merger| &merger.into).collect()
    }
}

/// Whether a rule with another action stands between a wide rule and a narrow one: then the narrow one is an exception to that rule.
fn is_exception(wide: &Lesson, narrow: &Lesson, deployed: &[&Record]) -> bool {
    let conditions = |lesson: &Lesson| lesson.conditions().map(|all| all.into_iter().collect::<BTreeSet<_>>());
    let Some(narrow_when) = conditions(narrow) else { return false };
    let wide_when = conditions(wide).unwrap_or_default();
    deployed.iter().any(|record| {
        let lesson = &record.entry.lesson;
        let is_between = conditions(lesson).is_some_and(|when| {
            when.is_subset(&narrow_when) && when.len() >= wide_when.len() && when.len() < narrow_when.len()
        });
        is_between && action(lesson) != action(wide)
    })
}

fn action(lesson: &Lesson) -> String {
    match lesson {
        Lesson::Skill(skill) => crate::playbook::plain(&skill.action),
        Lesson::Text(text) => crate::playbook::plain(text),
    }
}
