//! Trials of lessons on live sessions: who waits, what is tried, what is served, and what was dropped.
//!
//! ```text
//! proposal ─▶ candidate ─▶ trial ─▶ served ─▶ retired
//!   checks     3 users      │        │ held out in one of ten sessions
//!                           └▶ dropped (harms, or no effect in time)
//! ```
//!
//! Several lessons are on trial, and at most one of them is drawn for a session, so that no more sessions are shown one than the share that the
//! operator allows. A lesson that is found to help is served, in a new version;
//! the version before stays in a small share of the sessions, and comes back if it is better. A served lesson is held out in one of ten sessions,
//! and is retired if it is found to harm. All findings are those of [`crate::live`]: all lessons that were tried share one alpha, and a finding has
//! to survive the odds ratio of the settings.

mod candidate;
mod decision;
mod forget;
mod tally;
#[cfg(test)]
mod tests;

pub use candidate::{
    LEAST_TEACHERS, LiveCandidate, MOST_CANDIDATES, MOST_REFUSED, Offer, Refused, changes_manner, kind,
};
pub use decision::{Decision, TrialNeeds, version_flip_point};
pub use forget::ForgottenLessons;
pub use tally::{SESSION_FEATURES, SessionDraws, Tally, VersionDraw, VersionRewards};

use super::{LiveEstimate, OddsRatio, Propensity, Share};
use crate::playbook::{Playbook, says_the_same};
use crate::{Entry, EntryId, LearnError};
use clawhost_core::Proposal;
use serde::{Deserialize, Serialize};

/// The share of sessions that are shown a served lesson that is held out in the others.
pub const SERVED: f64 = 0.9;
/// Most served lessons that are held out: the latest. Each is held out in one of ten sessions, and more would leave little of a playbook.
pub const MOST_HELD_OUT: usize = 32;
/// Most lessons on trial. Those that apply to the same sessions share them, so that more of them would take longer than one after another.
pub const MOST_ON_TRIAL: usize = 8;
/// Most served lessons of live trials. The limit bounds the memory for their sums.
pub const MOST_ADMITTED: usize = 200;

/// How lessons are tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialSettings {
    /// The share of sessions (of users, for the manner of answers) for which a lesson is drawn that are shown it.
    pub share: Propensity,
    /// The share of wrong ones among the lessons that are found to help.
    pub alpha: f64,
    /// The share of sessions that stay on the version before.
    pub previous: Share,
    /// The dependence of feedback on what was shown that a finding has to survive.
    pub odds_ratio: OddsRatio,
}

/// A lesson on trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The lesson.
    pub entry: Entry,
    /// Users whose sessions led to it.
    pub teachers: usize,
    /// Unix time in milliseconds.
    pub since: u64,
}

/// The newest version beside an earlier one: the one before it, or the last one that was found not to be worse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The newest version.
    pub version: u64,
    /// The earlier one.
    pub previous: u64,
    /// Unix time in milliseconds.
    pub since: u64,
}

/// A lesson that a trial found to help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    /// The lesson.
    pub entry: Entry,
    /// What was known when it was admitted.
    pub estimate: Option<LiveEstimate>,
    /// Unix time in milliseconds.
    pub at: u64,
}

/// Why a lesson is neither tried nor served any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its trial found that it harms.
    Harms,
    /// Its trial found no effect that is worth its place.
    NoEffect,
    /// It was served, and harms now.
    Retired,
    /// The version that brought it was worse than the one before.
    RolledBack,
    /// An operator took it out of the playbook, or added it.
    Operator,
}

impl EndReason {
    /// For people.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Harms => "it harms",
            Self::NoEffect => "no effect worth serving was found",
            Self::Retired => "it was served, and harms",
            Self::RolledBack => "its version was worse than the one before",
            Self::Operator => "the operator changed the playbook",
        }
    }
}

/// A lesson that is neither tried nor served any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The lesson.
    pub entry: Entry,
    /// Why.
    pub reason: EndReason,
    /// What was known then.
    pub estimate: Option<LiveEstimate>,
    /// Unix time in milliseconds.
    pub at: u64,
}

/// The trials of one playbook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveTrials {
    candidates: Vec<LiveCandidate>,
    on_trial: Vec<Trial>,
    admitted: Vec<Admitted>,
    ended: Vec<Ended>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
    watch: Option<Watch>,
    /// The newest version when it looked last; 0 is the empty playbook before the first one. `None`: it has not looked.
    version: Option<u64>,
}

impl LiveTrials {
    /// Lessons that wait, in the order in which they were proposed.
    pub fn candidates(&self) -> &[LiveCandidate] {
        &self.candidates
    }

    /// Lessons on trial, oldest first.
    pub fn on_trial(&self) -> &[Trial] {
        &self.on_trial
    }

    /// Served lessons that a trial found to help, oldest first.
    pub fn admitted(&self) -> &[Admitted] {
        &self.admitted
    }

    /// Served lessons that are held out in some sessions.
    pub fn held_out(&self) -> impl Iterator<Item = &EntryId> {
        self.admitted.iter().rev().take(MOST_HELD_OUT).map(|one| &one.entry.id)
    }

    /// Lessons that are neither tried nor served any more, oldest first.
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// Proposals that were refused, the latest last, at most [`MOST_REFUSED`].
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// The newest version beside the one before.
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Takes a proposal from a session of a user at this Unix time (milliseconds).
    pub fn offer(&mut self, by: &str, proposal: &Proposal, teacher: u64, (served, now): (&Playbook, u64)) -> Offer {
        let (lesson, tags) = match candidate::checked(proposal) {
            Ok(checked) => checked,
            Err(why) => {
                self.refuse(Refused::of(by, proposal, &why, now));
                return Offer::Refused(why);
            }
        };
        let id = lesson.id();
        let is_known = |entry: &Entry| says_the_same(&entry.lesson, &lesson);
        if let Some(known) = self.candidates.iter_mut().find(|one| is_known(&one.entry)) {
            known.support(teacher, &proposal.evidence);
            return Offer::Known(known.entry.id.clone());
        }
        let tried = self.on_trial.iter().map(|trial| &trial.entry).chain(self.ended.iter().map(|one| &one.entry));
        if let Some(known) = tried.chain(&served.entries).find(|entry| is_known(entry)) {
            return Offer::Known(known.id.clone());
        }
        let entry = Entry { tags, ..Entry::new(lesson, by) };
        let mut new = LiveCandidate { entry, teachers: [teacher].into() };
        new.note(&proposal.evidence);
        if self.candidates.len() >= MOST_CANDIDATES {
            let weakest = self.candidates.iter().enumerate().rev().min_by_key(|(_, one)| one.teachers.len());
            let weakest = weakest.map(|(position, _)| position);
            weakest.into_iter().for_each(|position| drop(self.candidates.remove(position)));
        }
        self.candidates.push(new);
        Offer::New(id)
    }

    fn refuse(&mut self, refused: Refused) {
        self.refused.retain(|known| (&known.text, &known.why) != (&refused.text, &refused.why));
        self.refused.push(refused);
        let excess = self.refused.len().saturating_sub(MOST_REFUSED);
        self.refused.drain(..excess);
    }

    /// Begins the trial of the candidate with most users, if one has enough and there is room. Returns the lesson.
    pub fn begin(&mut self, now: u64) -> Option<&Trial> {
        if self.on_trial.len() >= MOST_ON_TRIAL || self.admitted.len() >= MOST_ADMITTED {
            return None;
        }
        let ready = self.candidates.iter().enumerate().filter(|(_, one)| one.is_ready());
        let (position, _) = ready.rev().max_by_key(|(_, one)| one.teachers.len())?;
        let LiveCandidate { entry, teachers } = self.candidates.remove(position);
        self.on_trial.push(Trial { entry, teachers: teachers.len(), since: now });
        self.on_trial.last()
    }

    /// Takes over what is served now, version 0 being the empty playbook: a new version is compared with the one before. `returns`: its content was served before, so that it is no new
    /// one. Returns whether something has changed.
    ///
    /// # Errors
    /// The comparison cannot begin.
    pub fn follow(
        &mut self,
        (newest, served): (u64, &Playbook),
        returns: bool,
        tally: &mut Tally,
        now: u64,
    ) -> Result<bool, LearnError> {
        if self.version == Some(newest) {
            return Ok(false);
        }
        let former = self.version.replace(newest).filter(|_| !returns);
        // While it is not known whether a version is worse, the next one is compared with the same earlier one.
        let former = former.map(|former| self.watch.as_ref().map_or(former, |watch| watch.previous));
        self.watch = former.map(|previous| Watch { version: newest, previous, since: now });
        tally.watch(self.watch.as_ref().map(|watch| watch.version))?;
        let is_there = |id: &EntryId| served.entries.iter().any(|entry| entry.id == *id);
        for gone in self.admitted.extract_if(.., |one| !is_there(&one.entry.id)).collect::<Vec<_>>() {
            self.close(gone.entry, EndReason::Operator, tally, now);
        }
        let is_served = |entry: &Entry| served.says(&entry.lesson);
        self.candidates.retain(|one| !is_served(&one.entry));
        for trial in self.on_trial.extract_if(.., |trial| is_served(&trial.entry)).collect::<Vec<_>>() {
            self.close(trial.entry, EndReason::Operator, tally, now);
        }
        Ok(true)
    }

    fn close(&mut self, entry: Entry, reason: EndReason, tally: &mut Tally, now: u64) {
        let estimate = tally.end(&entry.id);
        self.ended.push(Ended { entry, reason, estimate, at: now });
    }
}
