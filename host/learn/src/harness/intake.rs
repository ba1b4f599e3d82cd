//! Intake of proposals: each becomes a queued entry, support for a known one, or a counted refusal. A proposal alone changes
//! nothing that is served: a proposed retirement only puts a deployed entry under test.

use super::consolidation::MERGERS;
use super::{
    Admission, Harness, Merger, QUESTIONED, QUEUE, REFUSALS, RETRIAL_AFTER_EXPIRY, RETRIAL_AFTER_HARM, Record,
    SOURCE_BYTES, SOURCE_TURNS, SOURCES, TAG_BYTES,
};
use crate::playbook::Form;
use crate::playbook::safety::{Refusal, TextLimits, check, check_tags};
use crate::{Entry, EntryId, Lesson, NEEDS, Status};
use clawhost_core::{Change, Evidence, Proposal};
use std::collections::BTreeSet;

/// The sources of a proposal that are stored.
fn noted(sources: Vec<Evidence>, room: usize) -> impl Iterator<Item = Evidence> {
    let short = sources.into_iter().filter(|source| source.episode.len() <= SOURCE_BYTES);
    short.take(room).map(|mut source| {
        source.turns.truncate(SOURCE_TURNS);
        source
    })
}

/// What became of a proposed lesson.
pub(super) struct Offered {
    /// The entry that it became or supports.
    pub(super) id: EntryId,
    /// Whether there was no such entry before.
    pub(super) is_new: bool,
}

impl Harness {
    /// Processes one proposal. Returns the entry of a proposed lesson that was not refused.
    pub(super) fn take(&mut self, reflector: &str, proposal: Proposal) -> Option<Offered> {
        match proposal.change {
            Change::Add(entry) => {
                let lesson = Lesson::of_plugin(&entry.text, &entry.extra);
                let offered = self.offer(reflector, lesson, entry.tags, proposal.evidence, None)?;
                if self.bundles() {
                    self.bundle(&offered.id);
                }
                return Some(offered);
            }
            Change::Retire(id) if self.bundles() => self.leave_out(&EntryId(id)),
            Change::Update(entry) => {
                let id = EntryId(entry.id.clone());
                if self.status(&id).is_none_or(|status| !status.is_open()) {
                    self.refuse("an update of an entry that does not exist");
                    return None;
                }
                let lesson = Lesson::of_plugin(&entry.text, &entry.extra);
                return self.offer(reflector, lesson, entry.tags, proposal.evidence, Some(id));
            }
            Change::Merge(parts, entry) => return self.take_merger(reflector, parts, entry, proposal.evidence),
            Change::Retire(id) => match self.status(&EntryId(id.clone())) {
                // It is measured like a new entry, and stays served meanwhile.
                Some(Status::Deployed) => self.put_under_test(&EntryId(id)),
                Some(status) if status.is_open() => self.refuse("a retirement of an entry that is not deployed"),
                _ => self.refuse("a retirement of an entry that does not exist"),
            },
            Change::RewriteSection(..) => self.refuse("a section: only prompt evolution changes sections"),
        }
        None
    }

    /// A reflector's own merger: its lesson waits for the gate, without a trial.
    fn take_merger(
        &mut self,
        reflector: &str,
        parts: Vec<String>,
        entry: clawhost_core::Entry,
        sources: Vec<Evidence>,
    ) -> Option<Offered> {
        let mut parts: Vec<EntryId> = parts.into_iter().map(EntryId).collect();
        parts.sort();
        parts.dedup();
        if self.settings.admission != Admission::Measured {
            self.refuse("a merger in a run that does not measure each entry");
            return None;
        }
        if parts.len() < 2 || !parts.iter().all(|id| self.status(id) == Some(&Status::Deployed)) {
            self.refuse("a merger of fewer than two deployed entries");
            return None;
        }
        if self.mergers.len() >= MERGERS {
            self.refuse("a merger while the maximum number of them waits");
            return None;
        }
        let of_parts = parts.iter().filter_map(|id| self.records.get(id)).flat_map(|record| &record.entry.needs);
        let needs: BTreeSet<EntryId> = of_parts.filter(|id| !parts.contains(id)).cloned().collect();
        if needs.len() > NEEDS {
            self.refuse(&format!("a merger that needs more than {NEEDS} others"));
            return None;
        }
        if needs.iter().any(|id| self.needs_one_of(id, &parts)) {
            self.refuse("a merger of entries of which one needs another through a third");
            return None;
        }
        let offered = self.offer(
            reflector,
            Lesson::of_plugin(&entry.text, &entry.extra),
            entry.tags,
            sources,
            parts.first().cloned(),
        )?;
        let into = offered.id.clone();
        let is_deployed = self.deployed.contains(&into);
        parts.retain(|id| *id != into);
        let apart = |id: &EntryId| self.records.get(id).is_some_and(|record| record.apart.contains(&into));
        if is_deployed && self.needs_one_of(&into, &parts) {
            self.refuse("a merger into an entry that needs one of its parts");
            return None;
        }
        if parts.iter().any(apart)
            || !(offered.is_new || is_deployed)
            || self.mergers.iter().any(|one| one.into == into)
        {
            self.refuse("a merger that was turned down, or into an entry that is known");
            return None;
        }
        if offered.is_new {
            let Some(record) = self.records.get_mut(&into) else {
                self.refuse("a merger while the queue is full");
                return None;
            };
            // It takes their place as a merger, not as another wording of one of them.
            record.replaces = None;
            record.entry.needs = needs.into_iter().collect();
        }
        self.mergers.push(Merger { into, parts });
        self.touched();
        Some(offered)
    }

    /// Whether an entry needs one of these.
    fn needs_one_of(&self, id: &EntryId, others: &[EntryId]) -> bool {
        self.needed(id).iter().any(|need| others.contains(need))
    }

    /// Counts a refusal. Beyond the limit of different reasons they are counted together, because a reason may name what a plugin wrote.
    pub(super) fn refuse(&mut self, why: &str) {
        let refused = &mut self.counts.refused;
        let why = if refused.len() >= REFUSALS && !refused.contains_key(why) { "other reasons" } else { why };
        *refused.entry(why.to_owned()).or_default() += 1;
    }

    /// Takes back an entry that was new.
    pub(super) fn withdraw(&mut self, id: &EntryId) {
        self.records.remove(id);
        self.deployed.retain(|known| known != id);
        self.touched();
    }

    /// The entry that a lesson becomes or supports. `None`: it is refused.
    fn offer(
        &mut self,
        reflector: &str,
        lesson: Lesson,
        tags: Vec<String>,
        sources: Vec<Evidence>,
        replaces: Option<EntryId>,
    ) -> Option<Offered> {
        let lesson = match check(&lesson, TextLimits { withheld: &self.settings.forbidden, ..TextLimits::default() }) {
            Ok(lesson) => lesson,
            // Without the actual length: refusals are counted by their text.
            Err(Refusal::TooLong { limit, .. }) => {
                self.refuse(&format!(
                    "a lesson of more than {limit} bytes; shorten it or split it into several lessons"
                ));
                return None;
            }
            Err(refusal) => {
                self.refuse(&refusal.to_string());
                return None;
            }
        };
        let limits = TextLimits { bytes: TAG_BYTES, withheld: &self.settings.forbidden };
        if check_tags(&tags, limits).is_err() {
            self.refuse(&format!("tags of more than {TAG_BYTES} bytes, or with a credential or a withheld text"));
            return None;
        }
        let id = lesson.id();
        let known = if self.records.contains_key(&id) { Some(id) } else { self.duplicate(&lesson, replaces.as_ref()) };
        if let Some(known) = known {
            self.support(&known, sources);
            return Some(Offered { id: known, is_new: false });
        }
        let sources = noted(sources, SOURCES).collect();
        let mut entry = Entry { tags, sources, born: self.batches, ..Entry::new(lesson, reflector) };
        if self.settings.admission == Admission::Everything {
            entry.status = Status::Deployed;
            self.deployed.push(entry.id.clone());
        }
        let id = entry.id.clone();
        // Another wording needs what the first one needs.
        entry.needs = replaces
            .as_ref()
            .and_then(|old| self.records.get(old))
            .map_or_else(Vec::new, |old| old.entry.needs.clone());
        self.add(entry, replaces);
        self.shorten_queue();
        Some(Offered { id, is_new: true })
    }

    /// The id of a near-duplicate entry, open ones first. The replaced entry is excluded, because an update proposes a new
    /// wording of it.
    fn duplicate(&self, lesson: &Lesson, replaces: Option<&EntryId>) -> Option<EntryId> {
        let form = Form::of(lesson, self.embedding.port());
        let others = self.records.values().filter(|record| Some(&record.entry.id) != replaces);
        let duplicates = others.filter(|record| record.form(&self.embedding).is_duplicate_of(&form));
        let duplicate = duplicates.min_by_key(|record| (!record.entry.status.is_open(), record.position))?;
        Some(duplicate.entry.id.clone())
    }

    fn support(&mut self, id: &EntryId, sources: Vec<Evidence>) {
        let groups = self.groups;
        // While it is still served, the gate decides about its removal.
        let served = self.deployed.contains(id);
        let Some(record) = self.records.get_mut(id) else { return };
        record.entry.support += 1;
        let room = SOURCES.saturating_sub(record.entry.sources.len());
        record.entry.sources.extend(noted(sources, room));
        let rest = match record.entry.status {
            Status::Expired => RETRIAL_AFTER_EXPIRY,
            _ => RETRIAL_AFTER_HARM,
        };
        if record.entry.status.is_open() {
            self.counts.merged += 1;
        } else if !served && groups.saturating_sub(record.closed) >= rest {
            self.try_again(id, Status::Queued);
            self.counts.merged += 1;
        } else {
            self.counts.known += 1;
        }
    }

    /// Puts a deployed entry under test: it is held out from half of the members of every group, instead of one in
    /// [`super::MAINTENANCE`] groups.
    pub(super) fn put_under_test(&mut self, id: &EntryId) {
        if self.questioned.contains(id) {
            self.counts.merged += 1;
        } else if self.questioned.len() >= QUESTIONED {
            self.refuse("a retirement while the maximum number of deployed entries is under test");
        } else {
            self.questioned.insert(id.clone());
            if let Some(record) = self.records.get_mut(id) {
                record.test_harm_again();
            }
            self.credit.reset_entry(id);
        }
    }

    /// Drops the entries with least support, ties by latest, from a queue that is too long.
    pub(super) fn shorten_queue(&mut self) {
        while self.count(&Status::Queued) > QUEUE {
            let (held, merging) = (self.held(), self.merging());
            let queued = self.records.values().filter(|record| record.entry.status == Status::Queued);
            let queued =
                queued.filter(|record| !held.contains(&record.entry.id) && !merging.contains(&record.entry.id));
            let weakest = queued.min_by_key(|record| (record.entry.support, std::cmp::Reverse(record.position)));
            let Some(Record { entry, evidence, earlier, .. }) = weakest else { return };
            let id = entry.id.clone();
            // A measured entry keeps its record: it counts among those tried.
            if evidence.is_some() || !earlier.is_empty() {
                self.close(&id, Status::Expired);
            } else {
                self.records.remove(&id);
            }
            self.counts.dropped += 1;
        }
    }
}
