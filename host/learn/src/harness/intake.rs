//! Intake of proposals: each becomes a queued entry, support for a known one, or a counted refusal. A proposal alone changes
//! nothing that is served: a proposed retirement only puts a deployed entry under test.

use super::{
    Admission, Harness, QUESTIONED, QUEUE, RETRIAL_AFTER_EXPIRY, RETRIAL_AFTER_HARM, Record, SOURCE_BYTES,
    SOURCE_TURNS, SOURCES, TAG_BYTES,
};
use crate::playbook::Form;
use crate::playbook::safety::{Refusal, TextLimits, check, check_section};
use crate::{Entry, EntryId, Lesson, Skill, Status};
use clawhost_core::{Attributes, Change, Evidence, Proposal};

/// The lesson of a plugin's entry: from the fields of `extra` if they are set, otherwise parsed from the text.
fn lesson(text: &str, extra: &Attributes) -> Lesson {
    let field = |name: &str| extra.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim());
    let (name, when, action, avoid) = (field("name"), field("when"), field("do"), field("avoid"));
    if !action.is_empty() {
        return Lesson::Skill(Skill {
            name: name.into(),
            when: when.into(),
            action: action.into(),
            avoid: avoid.into(),
        });
    }
    match Lesson::read(text) {
        Lesson::Skill(skill) => Lesson::Skill(Skill { name: name.into(), avoid: avoid.into(), ..skill }),
        text => text,
    }
}

/// The sources of a proposal that are stored.
fn noted(sources: Vec<Evidence>, room: usize) -> impl Iterator<Item = Evidence> {
    let short = sources.into_iter().filter(|source| source.episode.len() <= SOURCE_BYTES);
    short.take(room).map(|mut source| {
        source.turns.truncate(SOURCE_TURNS);
        source
    })
}

impl Harness {
    /// Processes one proposal.
    pub(super) fn take(&mut self, reflector: &str, proposal: Proposal) {
        self.counts.proposed += 1;
        match proposal.change {
            Change::Add(entry) if self.bundles() => {
                let lesson = lesson(&entry.text, &entry.extra);
                if let Some(id) = self.offer(reflector, lesson, entry.tags, proposal.evidence, None) {
                    self.bundle(&id);
                }
            }
            Change::Retire(id) if self.bundles() => self.leave_out(&EntryId(id)),
            Change::Add(entry) => {
                self.offer(reflector, lesson(&entry.text, &entry.extra), entry.tags, proposal.evidence, None);
            }
            Change::Update(entry) => {
                let id = EntryId(entry.id.clone());
                if self.status(&id).is_none_or(|status| !status.is_open()) {
                    return self.refuse("an update of an entry that does not exist");
                }
                let lesson = lesson(&entry.text, &entry.extra);
                self.offer(reflector, lesson, entry.tags, proposal.evidence, Some(id));
            }
            Change::Retire(id) => match self.status(&EntryId(id.clone())) {
                // It is measured like a new entry, and stays served meanwhile.
                Some(Status::Deployed) => self.put_under_test(&EntryId(id)),
                Some(status) if status.is_open() => self.refuse("a retirement of an entry that is not deployed"),
                _ => self.refuse("a retirement of an entry that does not exist"),
            },
            Change::RewriteSection(..) => self.refuse("a section: only prompt evolution changes sections"),
        }
    }

    pub(super) fn refuse(&mut self, why: &str) {
        *self.counts.refused.entry(why.to_owned()).or_default() += 1;
    }

    /// The entry that a lesson becomes or supports. `None`: it is refused.
    fn offer(
        &mut self,
        reflector: &str,
        lesson: Lesson,
        tags: Vec<String>,
        sources: Vec<Evidence>,
        replaces: Option<EntryId>,
    ) -> Option<EntryId> {
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
        if check_section(&tags.join("\n"), limits).is_err() {
            self.refuse(&format!("tags of more than {TAG_BYTES} bytes, or with a credential or a withheld text"));
            return None;
        }
        let id = lesson.id();
        let known = if self.records.contains_key(&id) { Some(id) } else { self.duplicate(&lesson, replaces.as_ref()) };
        if let Some(known) = known {
            self.support(&known, sources);
            return Some(known);
        }
        let sources = noted(sources, SOURCES).collect();
        let mut entry = Entry { tags, sources, born: self.batches, ..Entry::new(lesson, reflector) };
        if self.settings.admission == Admission::Everything {
            entry.status = Status::Deployed;
            self.deployed.push(entry.id.clone());
        }
        let id = entry.id.clone();
        self.add(entry, replaces);
        self.shorten_queue();
        Some(id)
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
            let queued = self.records.values().filter(|record| record.entry.status == Status::Queued);
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
