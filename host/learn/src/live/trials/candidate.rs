//! Lessons that were proposed from live sessions and wait for a trial.

use crate::live::Kind;
use crate::playbook::Playbook;
use crate::playbook::safety::{TextLimits, check, check_conduct, check_tags};
use crate::{Entry, EntryId, Lesson};
use clawhost_core::{Change, Evidence, Proposal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Users whose sessions must have led to a lesson before it is tried on others: one person's wish is that person's memory, and two may be a
/// coincidence.
pub const LEAST_TEACHERS: usize = 3;
/// Most users of a candidate that are remembered: beyond, more of them change nothing.
const MOST_TEACHERS: usize = 64;
/// Most candidates that wait. The one with the fewest users leaves.
pub const MOST_CANDIDATES: usize = 256;
/// Most episodes of a candidate that are named.
const MOST_SOURCES: usize = 16;
/// Most bytes of all tags of a candidate.
const TAG_BYTES: usize = 512;

/// A lesson with the users whose sessions led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCandidate {
    /// The lesson, with the episodes that it was drawn from.
    pub entry: Entry,
    /// The users, as numbers; at most 64.
    pub teachers: BTreeSet<u64>,
}

/// What became of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// A new candidate.
    New(EntryId),
    /// The same lesson waits, is tried or is served already; it has one more user, unless that one was known.
    Known(EntryId),
    /// It was refused, for the reason.
    Refused(String),
}

/// Most refused proposals that are kept for people to look at.
pub const MOST_REFUSED: usize = 50;
/// Most bytes of a refused text that are kept.
const REFUSED_BYTES: usize = 400;

/// A proposal that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its text on one line, cut to 400 bytes; empty if it was no new lesson.
    pub text: String,
    /// Why.
    pub why: String,
    /// The reflector.
    pub by: String,
    /// The episode that it was drawn from, as `RUN/EPISODE`, if it named one.
    pub episode: Option<String>,
    /// Unix time in milliseconds.
    pub at: u64,
}

impl Refused {
    pub(super) fn of(by: &str, proposal: &Proposal, why: &str, at: u64) -> Self {
        let text = match &proposal.change {
            Change::Add(entry) => clawhost_core::escaped(&entry.text, REFUSED_BYTES),
            _ => String::new(),
        };
        let episode = proposal.evidence.first().map(|evidence| evidence.episode.clone());
        Self { text, why: why.to_owned(), by: by.to_owned(), episode, at }
    }
}

impl LiveCandidate {
    /// Whether enough users led to it.
    pub fn is_ready(&self) -> bool {
        self.teachers.len() >= LEAST_TEACHERS
    }

    /// One more user and episode.
    pub(super) fn support(&mut self, teacher: u64, sources: &[Evidence]) {
        self.entry.support += 1;
        if self.teachers.len() < MOST_TEACHERS {
            self.teachers.insert(teacher);
        }
        self.note(sources);
    }

    /// Notes the episodes that it was drawn from.
    pub(super) fn note(&mut self, sources: &[Evidence]) {
        let known = &mut self.entry.sources;
        for source in sources {
            if known.len() < MOST_SOURCES && known.iter().all(|one| one.episode != source.episode) {
                known.push(source.clone());
            }
        }
    }
}

/// The lesson of a proposal, checked. Live trials compare single lessons with nothing else, so only new ones are taken.
pub(super) fn checked(proposal: &Proposal) -> Result<(Lesson, Vec<String>), String> {
    let Change::Add(entry) = &proposal.change else {
        return Err("a change that is no new lesson".to_owned());
    };
    if !entry.needs.is_empty() {
        return Err("a lesson that needs others".to_owned());
    }
    let lesson = Lesson::of_plugin(&entry.text, &entry.extra);
    let lesson = check(&lesson, TextLimits::default()).map_err(|refusal| refusal.to_string())?;
    check_conduct(&lesson).map_err(|refusal| refusal.to_string())?;
    let limits = TextLimits { bytes: TAG_BYTES, ..TextLimits::default() };
    check_tags(&entry.tags, limits).map_err(|refusal| refusal.to_string())?;
    Ok((lesson, entry.tags.clone()))
}

/// By what a lesson is drawn. One without a condition is about the manner of all answers, and a manner that changes from session to session
/// irritates: it is drawn per user.
pub fn kind(lesson: &Lesson) -> Kind {
    match lesson {
        Lesson::Skill(skill) if !skill.when.trim().is_empty() => Kind::Rule,
        _ => Kind::Tone,
    }
}

/// Whether two versions of a playbook differ by the manner of answers: by a lesson without a condition, or by a section. Who gets which is drawn
/// per user then.
pub fn changes_manner(one: &Playbook, other: &Playbook) -> bool {
    let has_more = |one: &Playbook, other: &Playbook| {
        one.entries.iter().any(|entry| {
            kind(&entry.lesson) == Kind::Tone && !other.entries.iter().any(|known| known.lesson == entry.lesson)
        })
    };
    one.sections != other.sections || has_more(one, other) || has_more(other, one)
}
