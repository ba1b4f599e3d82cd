//! The harness layer: turns proposals into playbook entries, measures what each is worth, and keeps what helps.
//!
//! ```text
//! proposed ─▶ queued ─▶ on trial ─▶ admitted ─▶ (gate) ─▶ deployed ─▶ maintenance, as long as it lives
//!    │                     │            └────────────┴─▶ harmful: out of the next candidate
//!    └─ refused, merged    └─▶ expired: no evidence
//! ```
//!
//! Entries on trial are shown to half of the members of every training group in which they are relevant. What is admitted
//! comes into the next candidate, and so do rewritten sections; only the gate deploys. A lesson that was turned down is remembered, and tried again after many
//! groups if it is proposed again: nothing is deleted.

mod decisions;
mod intake;
mod playbook_view;
mod sections;
mod settings;
#[cfg(test)]
mod tests;

pub use playbook_view::{Chosen, PlaybookView};
pub use settings::{
    Admission, EXPIRE_AFTER, FALSE_DISCOVERY, HELD_OUT, HarnessSettings, MAINTENANCE, NEVER_RELEVANT_AFTER, QUESTIONED,
    QUEUE, RETRIAL_AFTER_EXPIRY, RETRIAL_AFTER_HARM, SOURCE_BYTES, SOURCE_TURNS, SOURCES, TAG_BYTES, TRIAL_CROWD,
    TRIAL_SLOTS,
};

use crate::credit::{Credit, Estimate};
use crate::gate::Question;
use crate::playbook::{Embedder, Form, Playbook};
use crate::{Batch, Entry, EntryId, Forward, Group, Layer, LearnError, Lesson, Measurements, Metric, Status, Step};
use clawhost_core::{Digest, Proposal};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Support of what is planted: more than any reflector reaches, so that it is tried first. It is told to nobody.
const PLANTED: u64 = 1 << 40;

/// How often an entry was proposed. Planting is no proposal.
fn times_proposed(entry: &Entry) -> u64 {
    entry.support.checked_sub(PLANTED).unwrap_or(entry.support)
}

/// An entry with what was decided about it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) entry: Entry,
    /// Order of first proposal.
    pub(crate) position: u64,
    /// The entry whose place it takes, if it is let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaces: Option<EntryId>,
    /// Groups that had been learned from when its trial began.
    pub(crate) began: u64,
    /// The same, when its last verdict was given.
    pub(crate) closed: u64,
    /// What it was worth when it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decided: Option<Estimate>,
    /// Evidence for and against it, of all entries that were ever measured; frozen when it is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<Evidence>,
    /// What it says, for comparing; worked out when it is wanted.
    #[serde(skip)]
    form: OnceCell<Form>,
}

impl Record {
    fn form(&self, embedding: &Embedding) -> &Form {
        self.form.get_or_init(|| Form::of(&self.entry.lesson, embedding.port()))
    }
}

/// Who tells whether prose means the same, where somebody does.
#[derive(Clone, Default)]
pub(crate) struct Embedding(Option<Arc<dyn Embedder>>);

impl Embedding {
    fn port(&self) -> Option<&dyn Embedder> {
        self.0.as_deref()
    }
}

impl std::fmt::Debug for Embedding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Embedding").field(&self.0.is_some()).finish()
    }
}

/// E-values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// That it helps. None: it was deployed from the beginning, so nobody asks.
    pub(crate) helps: Option<f64>,
    /// That it harms.
    pub(crate) harms: f64,
}

/// What a run leaves for later ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(Vec<Remembered>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Remembered {
    entry: Entry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decided: Option<Estimate>,
}

#[cfg(test)]
impl FromIterator<Entry> for Memory {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        Self(entries.into_iter().map(|entry| Remembered { entry, decided: None }).collect())
    }
}

/// What happened to proposals that became no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Proposals so far.
    pub proposed: u64,
    /// Refused, by why.
    pub refused: BTreeMap<String, u64>,
    /// Support for an entry that says the same.
    pub merged: u64,
    /// Lessons that were turned down not long ago.
    pub known: u64,
    /// Dropped from a full queue.
    pub dropped: u64,
}

/// A playbook that may take the place of the one that is deployed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What it says.
    pub playbook: Playbook,
    /// Entries that are new in it.
    pub added: Vec<EntryId>,
    /// Deployed entries that it lacks.
    pub removed: Vec<EntryId>,
    /// Sections that say something else in it.
    pub rewritten: Vec<String>,
    /// What the gate asks about it.
    pub question: Question,
}

impl Candidate {
    /// Names what it says.
    pub fn digest(&self) -> Digest {
        self.playbook.digest()
    }
}

/// The harness layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Harness {
    settings: HarnessSettings,
    sections: BTreeMap<String, String>,
    /// What may take their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proposed_sections: Option<BTreeMap<String, String>>,
    records: BTreeMap<EntryId, Record>,
    /// Served, in this order.
    deployed: Vec<EntryId>,
    /// Deployed entries that a reflector wants to see gone: they are measured in every group.
    questioned: BTreeSet<EntryId>,
    credit: Credit,
    batches: u64,
    groups: u64,
    next_position: u64,
    counts: Counts,
    #[serde(skip)]
    embedding: Embedding,
    #[serde(skip)]
    pending: Pending,
    #[serde(skip)]
    named: OnceCell<Digest>,
}

/// What was handed in and not applied.
#[derive(Debug, Clone, Default)]
struct Pending {
    batches: u64,
    groups: Vec<Group>,
    proposals: Vec<(String, Proposal)>,
}

/// One line about an entry, for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryRow {
    /// The entry.
    pub id: EntryId,
    /// Where it is in its life.
    pub status: String,
    /// What it says.
    pub lesson: String,
    /// Groups in which it was relevant and drawn for.
    pub groups: u64,
    /// Mean difference in reward between those who were shown it and those who were not; none: nothing is known.
    pub lift: Option<f64>,
    /// Always-valid 95 % interval of it; none: nothing is known.
    pub interval: Option<(f64, f64)>,
    /// Evidence that it helps, as an e-value; above 1 / 0.05 is strong. While it is on trial that of the last batch, later that by which
    /// it was decided. None: nothing is known, or nobody asks, because it was deployed from the beginning.
    pub helps: Option<f64>,
    /// Evidence that it harms, in the same way; of what is deployed that of the last batch. None: nothing is known.
    pub harms: Option<f64>,
    /// Tokens in a prompt, about.
    pub tokens: u64,
    /// How often it was proposed; 0: it was planted, and nobody has proposed it since.
    pub support: u64,
    /// Who proposed it first.
    pub created_by: String,
}

impl EntryRow {
    /// About an entry of which nothing is known.
    pub fn unmeasured(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            status: entry.status.name().to_owned(),
            lesson: entry.lesson.line(),
            groups: 0,
            lift: None,
            interval: None,
            helps: None,
            harms: None,
            tokens: entry.lesson.tokens(),
            support: times_proposed(entry),
            created_by: entry.created_by.clone(),
        }
    }
}

impl Harness {
    /// A layer that begins with what is deployed.
    pub fn new(settings: HarnessSettings, deployed: Playbook) -> Self {
        let mut harness = Self {
            settings,
            sections: deployed.sections,
            proposed_sections: None,
            records: BTreeMap::new(),
            deployed: Vec::new(),
            questioned: BTreeSet::new(),
            credit: Credit::default(),
            batches: 0,
            groups: 0,
            next_position: 0,
            counts: Counts::default(),
            embedding: Embedding::default(),
            pending: Pending::default(),
            named: OnceCell::new(),
        };
        for entry in deployed.entries {
            harness.deployed.push(entry.id.clone());
            harness.add(Entry { status: Status::Deployed, ..entry }, None);
        }
        harness
    }

    /// What a later run should know about entries.
    pub fn memory(&self) -> Memory {
        let remembered = |record: &Record| Remembered { entry: record.entry.clone(), decided: record.decided.clone() };
        Memory(self.in_order().into_iter().map(remembered).collect())
    }

    /// Remembers an earlier run: what deployed entries were measured to be worth, what was turned down (it is not tried again
    /// soon), and what waits. What was on trial begins anew: evidence is counted by run.
    pub fn remember(&mut self, memory: Memory) {
        for Remembered { entry, decided } in memory.0 {
            let id = entry.id.clone();
            match self.records.get_mut(&id) {
                Some(known) => {
                    known.entry.support = entry.support;
                    known.entry.sources = entry.sources;
                    known.decided = decided;
                }
                None => {
                    let status = if entry.status.is_open() { Status::Queued } else { entry.status.clone() };
                    let is_closed = !status.is_open();
                    self.add(Entry { status, ..entry }, None);
                    if let Some(record) = self.records.get_mut(&id).filter(|_| is_closed) {
                        record.decided = decided;
                    }
                }
            }
        }
        self.shorten_queue();
        self.fill_trial();
    }

    /// Lets this tell which lessons in prose mean the same. Without it they are compared by their words.
    pub fn compare_by(&mut self, embedder: Arc<dyn Embedder>) {
        self.embedding = Embedding(Some(embedder));
        self.records.values_mut().for_each(|record| record.form = OnceCell::new());
    }

    /// Puts a lesson on the way that every proposal goes, before any other.
    pub fn plant(&mut self, lesson: Lesson, by: &str) {
        let mut entry = Entry { support: PLANTED, ..Entry::new(lesson, by) };
        if self.records.contains_key(&entry.id) {
            return;
        }
        if self.settings.admission == Admission::Everything {
            entry.status = Status::Deployed;
            self.deployed.push(entry.id.clone());
        }
        self.add(entry, None);
        self.fill_trial();
    }

    fn add(&mut self, entry: Entry, replaces: Option<EntryId>) {
        let record = Record {
            position: self.next_position,
            replaces,
            began: self.groups,
            closed: self.groups,
            decided: None,
            evidence: None,
            form: OnceCell::new(),
            entry,
        };
        self.next_position += 1;
        self.records.insert(record.entry.id.clone(), record);
        self.touched();
    }

    /// The state has changed: it needs another name.
    fn touched(&mut self) {
        self.named = OnceCell::new();
    }

    fn status(&self, id: &EntryId) -> Option<&Status> {
        self.records.get(id).map(|record| &record.entry.status)
    }

    /// Records in order of first proposal.
    fn in_order(&self) -> Vec<&Record> {
        let mut records: Vec<&Record> = self.records.values().collect();
        records.sort_by_key(|record| record.position);
        records
    }

    /// What is served.
    pub fn deployed(&self) -> Playbook {
        self.playbook(self.deployed.iter())
    }

    fn playbook<'a>(&self, ids: impl Iterator<Item = &'a EntryId>) -> Playbook {
        let entries = ids.filter_map(|id| self.records.get(id)).map(|record| record.entry.clone()).collect();
        Playbook { sections: self.sections.clone(), entries }
    }

    /// What reflectors are shown: everything that is open, so that they need not propose it again.
    pub fn known(&self) -> Playbook {
        let open = self.in_order().into_iter().filter(|record| record.entry.status.is_open());
        let ids: Vec<EntryId> = open.map(|record| record.entry.id.clone()).collect();
        self.playbook(ids.iter())
    }

    /// What happened to proposals.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many entries have this status.
    fn count(&self, status: &Status) -> usize {
        self.records.values().filter(|record| record.entry.status == *status).count()
    }

    /// The open entries whose place a record takes once it is let through. An entry takes the place of older ones only, so no two
    /// ever take each other's.
    fn replaced<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = &'a EntryId> {
        let older = |record: &&'a Record| {
            let old = self.records.get(record.replaces.as_ref()?)?;
            (old.entry.status.is_open() && old.position < record.position).then_some(old)
        };
        std::iter::successors(older(&record), move |old| older(old)).map(|old| &old.entry.id)
    }

    /// What may take the place of what is deployed; none: nothing has changed.
    pub fn candidate(&self) -> Option<Candidate> {
        let admitted: Vec<&Record> =
            self.in_order().into_iter().filter(|record| record.entry.status == Status::Admitted).collect();
        let replaced: BTreeSet<&EntryId> = admitted.iter().flat_map(|record| self.replaced(record)).collect();
        let ids = admitted.iter().map(|record| &record.entry.id);
        let added: Vec<EntryId> = ids.filter(|id| !replaced.contains(id)).cloned().collect();
        let leaves = |id: &EntryId| replaced.contains(id) || self.status(id) == Some(&Status::Harmful);
        let (removed, kept): (Vec<EntryId>, Vec<EntryId>) = self.deployed.iter().cloned().partition(leaves);
        let rewritten = self.rewritten();
        if added.is_empty() && removed.is_empty() && rewritten.is_empty() {
            return None;
        }
        let only_less = added.is_empty() && rewritten.is_empty();
        let question = if only_less { Question::NotWorse } else { Question::Better };
        let mut playbook = self.playbook(kept.iter().chain(&added));
        if let Some(sections) = &self.proposed_sections {
            playbook.sections.clone_from(sections);
        }
        Some(Candidate { playbook, added, removed, rewritten, question })
    }

    /// The gate has let a candidate through.
    pub fn promote(&mut self, candidate: &Candidate) {
        self.sections.clone_from(&candidate.playbook.sections);
        self.settle_sections(candidate);
        self.deployed = candidate.playbook.entries.iter().map(|entry| entry.id.clone()).collect();
        for id in &candidate.added {
            let Some(record) = self.records.get(id) else { continue };
            let replaced: Vec<EntryId> = self.replaced(record).cloned().collect();
            for old in replaced {
                self.close(&old, Status::Superseded(id.clone()));
            }
            if let Some(record) = self.records.get_mut(id) {
                record.entry.status = Status::Deployed;
            }
        }
        self.touched();
    }

    /// Takes an entry out of everything that is measured.
    fn close(&mut self, id: &EntryId, status: Status) {
        self.credit.drop_entry(id);
        self.questioned.remove(id);
        if let Some(record) = self.records.get_mut(id) {
            record.entry.status = status;
            record.closed = self.groups;
        }
    }

    /// The gate has turned a candidate down: its new entries are tried anew, its sections are given up, and what it wanted
    /// to remove stays, unless it was turned down for something else.
    pub fn turn_down(&mut self, candidate: &Candidate) {
        self.settle_sections(candidate);
        for id in &candidate.added {
            self.try_again(id, Status::Queued);
        }
        let only_less = candidate.added.is_empty() && candidate.rewritten.is_empty();
        for id in candidate.removed.iter().filter(|_| only_less) {
            self.try_again(id, Status::Deployed);
        }
        self.fill_trial();
        self.touched();
    }

    /// The gate cannot tell whether a candidate is better: what it adds makes too little of a difference to be kept, what it
    /// wanted to remove stays.
    pub fn give_up(&mut self, candidate: &Candidate) {
        self.settle_sections(candidate);
        for id in &candidate.added {
            self.close(id, Status::Expired);
        }
        let only_less = candidate.added.is_empty() && candidate.rewritten.is_empty();
        for id in candidate.removed.iter().filter(|_| only_less) {
            self.try_again(id, Status::Deployed);
        }
        self.fill_trial();
        self.touched();
    }

    /// What was seen of it is forgotten; its column comes back when it is drawn for.
    fn try_again(&mut self, id: &EntryId, status: Status) {
        self.credit.drop_entry(id);
        if let Some(record) = self.records.get_mut(id) {
            record.entry.status = status;
            record.began = self.groups;
            record.decided = None;
            if let Some(evidence) = record.evidence.as_mut() {
                // It goes on counting among those that were tried, with nothing in its favour.
                evidence.harms = 0.0;
                evidence.helps = evidence.helps.map(|_| 0.0);
            }
        }
        self.shorten_queue();
    }

    /// A line about every entry, in order of first proposal.
    pub fn rows(&self) -> Vec<EntryRow> {
        let estimates = self.credit.estimates();
        let row = |record: &Record| {
            let current = estimates.get(&record.entry.id);
            // What was decided on says more than the few groups of maintenance since.
            let estimate = match (record.decided.as_ref(), current) {
                (Some(decided), Some(current)) if current.groups < decided.groups => Some(decided),
                (decided, current) => current.or(decided),
            };
            // Before it was relevant anywhere the numbers are those that computing begins with: they say nothing.
            let estimate = estimate.filter(|estimate| estimate.groups > 0);
            let evidence = record.evidence.filter(|_| estimate.is_some());
            EntryRow {
                id: record.entry.id.clone(),
                status: record.entry.status.name().to_owned(),
                lesson: record.entry.lesson.line(),
                groups: estimate.map_or(0, |estimate| estimate.groups),
                lift: estimate.map(|estimate| estimate.effect),
                interval: estimate.map(|estimate| estimate.interval),
                helps: evidence.and_then(|evidence| evidence.helps),
                harms: evidence.map(|evidence| evidence.harms),
                tokens: record.entry.lesson.tokens(),
                support: times_proposed(&record.entry),
                created_by: record.entry.created_by.clone(),
            }
        };
        self.in_order().into_iter().map(row).collect()
    }
}

impl Layer for Harness {
    fn name(&self) -> &str {
        "harness"
    }

    fn forward_backward(&mut self, batch: &Batch) -> Result<Forward, LearnError> {
        self.pending.batches += 1;
        self.pending.groups.extend(batch.groups.iter().cloned());
        self.pending.proposals.extend(batch.proposals.iter().cloned());
        let metrics = Measurements::from([
            (Metric::Episodes, batch.episodes() as f64),
            (Metric::Groups, batch.groups.len() as f64),
            (Metric::Proposals, batch.proposals.len() as f64),
        ]);
        Ok(Forward { metrics })
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        let Pending { batches, groups, proposals } = std::mem::take(&mut self.pending);
        if batches == 0 {
            return Ok(Step::default());
        }
        self.touched();
        self.batches += batches;
        for group in &groups {
            self.credit.observe(group);
            self.groups += 1;
        }
        // The control measures nothing.
        let measures = self.settings.admission == Admission::Measured;
        let mut events = if measures { self.decide() } else { Vec::new() };
        for (reflector, proposal) in proposals {
            self.take(&reflector, proposal);
        }
        events.extend(self.fill_trial());
        let number = |status: &Status| self.count(status) as f64;
        let metrics = Measurements::from([
            (Metric::Queued, number(&Status::Queued)),
            (Metric::OnTrial, number(&Status::OnTrial)),
            (Metric::Admitted, number(&Status::Admitted)),
            (Metric::Deployed, number(&Status::Deployed)),
            (Metric::Harmful, number(&Status::Harmful)),
            (Metric::Expired, number(&Status::Expired)),
        ]);
        Ok(Step { updates: batches, metrics, events })
    }

    fn snapshot(&self) -> Result<Vec<u8>, LearnError> {
        let broken = |error: serde_json::Error| LearnError::Layer { layer: "harness".into(), why: error.to_string() };
        let bytes = serde_json::to_vec(self).map_err(broken)?;
        // The digest is wanted next, and would write the same down again.
        self.named.get_or_init(|| Digest::of(&bytes));
        Ok(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        let broken = |error: serde_json::Error| LearnError::Layer { layer: "harness".into(), why: error.to_string() };
        let restored: Self = serde_json::from_slice(bytes).map_err(broken)?;
        // A port is no state.
        *self = Self { embedding: std::mem::take(&mut self.embedding), ..restored };
        Ok(())
    }

    fn clear_pending(&mut self) {
        self.pending = Pending::default();
    }

    fn digest(&self) -> Digest {
        *self.named.get_or_init(|| Digest::of(&serde_json::to_vec(self).unwrap_or_default()))
    }
}
