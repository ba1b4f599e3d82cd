//! The harness layer: turns proposals into playbook entries, measures their effects, and admits those that help.
//!
//! ```text
//! proposed ─▶ queued ─▶ on trial ─▶ admitted ─▶ (gate) ─▶ deployed ─▶ maintenance
//!    │                     │            └────────────┴─▶ harmful: out of the next candidate
//!    └─ refused, merged    └─▶ expired: no evidence
//! ```
//!
//! Entries on trial are shown to half of the members of every training group in which they are relevant. Admitted entries
//! and rewritten sections become part of the next candidate; only the gate deploys it. Rejected lessons are kept: one that
//! is proposed again gets a new trial after a number of groups.

mod answers;
mod approach;
mod bundle;
mod candidates;
mod consolidation;
mod decisions;
mod entry_row;
mod intake;
mod playbook_view;
mod relations;
mod sections;
mod settings;
#[cfg(test)]
mod tests;

pub use approach::{Approach, STAGNANT_ROUNDS, STAGNANT_TRIALS, TRIED};
pub use candidates::Candidate;
pub use consolidation::Merger;
pub use entry_row::EntryRow;
pub use playbook_view::{Chosen, PlaybookView};
pub use settings::{
    Admission, EXPIRE_AFTER, FALSE_DISCOVERY, HELD_OUT, HarnessSettings, MAINTENANCE, NEVER_RELEVANT_AFTER, QUESTIONED,
    QUEUE, REFUSALS, RETRIAL_AFTER_EXPIRY, RETRIAL_AFTER_HARM, SOURCE_BYTES, SOURCE_TURNS, SOURCES, TAG_BYTES,
    TRIAL_CROWD, TRIAL_SLOTS,
};

use crate::credit::{Credit, Estimate};
use crate::playbook::{Embedder, Form, Playbook};
use crate::{
    Answer, Batch, Entry, EntryId, Forward, Group, Layer, LearnError, Lesson, Measurements, Metric, Status, Step,
};
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Support of planted entries. More than reflectors can reach, so that they are tried first. Not shown in reports.
const PLANTED: u64 = 1 << 40;

/// Number of proposals of an entry. Planting is not a proposal.
fn times_proposed(entry: &Entry) -> u64 {
    entry.support.checked_sub(PLANTED).unwrap_or(entry.support)
}

/// An entry with the decisions about it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) entry: Entry,
    /// Rank by first proposal.
    pub(crate) position: u64,
    /// The entry that this one replaces once the gate accepts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaces: Option<EntryId>,
    /// Number of groups observed when its trial began.
    pub(crate) began: u64,
    /// That number when it was last closed.
    pub(crate) closed: u64,
    /// The estimate at the time of the last decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decided: Option<Estimate>,
    /// Evidence for and against the entry, if it was ever measured. Frozen by the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<Evidence>,
    /// The frozen evidence of earlier trials. Each trial is a hypothesis of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) earlier: Vec<Evidence>,
    /// What it needed in earlier trials. To need the same again is no new hypothesis.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) needed_before: BTreeSet<Vec<EntryId>>,
    /// Entries with which a merger was turned down.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) apart: BTreeSet<EntryId>,
    /// Whether its present trial follows a decision of the gate instead of a proposal. The result of such a trial does not count towards
    /// stagnation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) resumed: bool,
    /// The normalised lesson for duplicate detection; computed on demand.
    #[serde(skip)]
    form: OnceCell<Form>,
}

impl Record {
    fn form(&self, embedding: &Embedding) -> &Form {
        self.form.get_or_init(|| Form::of(&self.entry.lesson, embedding.port()))
    }
}

/// The embedder that compares prose, if there is one.
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
    /// That it helps. `None`: it was deployed from the start, so this is not tested.
    pub(crate) helps: Option<f64>,
    /// That it harms.
    pub(crate) harms: f64,
}

/// What a run passes on to later runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(Vec<Remembered>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Remembered {
    entry: Entry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decided: Option<Estimate>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    apart: BTreeSet<EntryId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    needed_before: BTreeSet<Vec<EntryId>>,
}

#[cfg(test)]
impl FromIterator<Entry> for Memory {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        Self(
            entries
                .into_iter()
                .map(|entry| Remembered {
                    entry,
                    decided: None,
                    apart: BTreeSet::new(),
                    needed_before: BTreeSet::new(),
                })
                .collect(),
        )
    }
}

/// Counts of proposals and of those that became no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All proposals.
    pub proposed: u64,
    /// Refused proposals, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Proposals that support an open entry.
    pub merged: u64,
    /// Proposals of lessons that were closed recently.
    pub known: u64,
    /// Entries dropped from a full queue.
    pub dropped: u64,
}

/// The harness layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Harness {
    settings: HarnessSettings,
    sections: BTreeMap<String, String>,
    /// Sections that wait for the gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proposed_sections: Option<BTreeMap<String, String>>,
    records: BTreeMap<EntryId, Record>,
    /// Deployed entries, in the order in which they are served.
    deployed: Vec<EntryId>,
    /// Deployed entries under test, because a reflector proposed their retirement. They are measured in every group.
    questioned: BTreeSet<EntryId>,
    /// Deployed entries that the running bundle leaves out.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    left_out: BTreeSet<EntryId>,
    /// Mergers that reflectors proposed, which wait for the gate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mergers: Vec<Merger>,
    #[serde(default)]
    approach: Approach,
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

/// Accumulated updates that are not applied yet.
#[derive(Debug, Clone, Default)]
struct Pending {
    batches: u64,
    groups: Vec<Group>,
    answers: Vec<Answer>,
}

impl Harness {
    /// A layer that starts from a deployed playbook.
    pub fn new(settings: HarnessSettings, deployed: Playbook) -> Self {
        let mut harness = Self {
            settings,
            sections: deployed.sections,
            proposed_sections: None,
            records: BTreeMap::new(),
            deployed: Vec::new(),
            questioned: BTreeSet::new(),
            left_out: BTreeSet::new(),
            mergers: Vec::new(),
            approach: Approach::default(),
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

    /// What later runs should know about the entries.
    pub fn memory(&self) -> Memory {
        let remembered = |record: &Record| Remembered {
            entry: record.entry.clone(),
            decided: record.decided.clone(),
            apart: record.apart.clone(),
            needed_before: record.needed_before.clone(),
        };
        // An entry that was written for a merger has no use without it: the next run would try it beside its parts.
        let merging = self.merging();
        let is_kept = |record: &&Record| record.entry.status != Status::Queued || !merging.contains(&record.entry.id);
        Memory(self.in_order().into_iter().filter(is_kept).map(remembered).collect())
    }

    /// Restores the knowledge of an earlier run: estimates of deployed entries, closed entries (which are not tried again
    /// soon), and queued ones. Trials start again, because evidence is counted per run.
    pub fn remember(&mut self, memory: Memory) {
        for Remembered { entry, decided, apart, needed_before } in memory.0 {
            let id = entry.id.clone();
            match self.records.get_mut(&id) {
                Some(known) => {
                    known.apart = apart;
                    // It is served although it was merged: a rollback brought it back.
                    if let Status::Superseded(by) = entry.status {
                        known.apart.insert(by);
                    }
                    known.entry.support = entry.support;
                    known.entry.sources = entry.sources;
                    known.decided = decided;
                }
                None => {
                    let status = if entry.status.is_open() { Status::Queued } else { entry.status.clone() };
                    let is_closed = !status.is_open();
                    self.add(Entry { status, ..entry }, None);
                    if let Some(record) = self.records.get_mut(&id) {
                        record.needed_before = needed_before;
                        record.decided = decided.filter(|_| is_closed);
                    }
                }
            }
        }
        self.close_blocked();
        self.shorten_queue();
        self.fill_trial();
    }

    /// Sets the embedder that compares lessons in prose. Without one they are compared by their words.
    pub fn compare_by(&mut self, embedder: Arc<dyn Embedder>) {
        self.embedding = Embedding(Some(embedder));
        self.records.values_mut().for_each(|record| record.form = OnceCell::new());
    }

    /// Queues a lesson before all proposals; it must pass trial and gate like any other.
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
            earlier: Vec::new(),
            needed_before: BTreeSet::new(),
            apart: BTreeSet::new(),
            resumed: false,
            form: OnceCell::new(),
            entry,
        };
        self.next_position += 1;
        self.records.insert(record.entry.id.clone(), record);
        self.touched();
    }

    /// Invalidates the cached digest after a change of state.
    fn touched(&mut self) {
        self.named = OnceCell::new();
    }

    fn status(&self, id: &EntryId) -> Option<&Status> {
        self.records.get(id).map(|record| &record.entry.status)
    }

    /// Records by first proposal.
    fn in_order(&self) -> Vec<&Record> {
        let mut records: Vec<&Record> = self.records.values().collect();
        records.sort_by_key(|record| record.position);
        records
    }

    /// The deployed playbook.
    pub fn deployed(&self) -> Playbook {
        self.playbook(self.deployed.iter())
    }

    fn playbook<'a>(&self, ids: impl Iterator<Item = &'a EntryId>) -> Playbook {
        let entries = ids.filter_map(|id| self.records.get(id)).map(|record| record.entry.clone()).collect();
        Playbook { sections: self.sections.clone(), entries }
    }

    /// The playbook that reflectors are shown: all open entries, so that they do not propose them again.
    pub fn known(&self) -> Playbook {
        let open = self.in_order().into_iter().filter(|record| record.entry.status.is_open());
        let ids: Vec<EntryId> = open.map(|record| record.entry.id.clone()).collect();
        self.playbook(ids.iter())
    }

    /// Whether an entry may still be shown.
    pub fn is_open(&self, id: &EntryId) -> bool {
        self.status(id).is_some_and(Status::is_open)
    }

    /// Counts of proposals.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Number of entries with this status.
    fn count(&self, status: &Status) -> usize {
        self.records.values().filter(|record| record.entry.status == *status).count()
    }

    /// Closes an entry: it is not measured any more.
    fn close(&mut self, id: &EntryId, status: Status) {
        self.credit.drop_entry(id);
        self.questioned.remove(id);
        if let Some(record) = self.records.get_mut(id) {
            record.entry.status = status;
            record.closed = self.groups;
        }
    }

    /// Gives an entry this status and begins its test again, as one more hypothesis tried. Its column is created again when it is drawn.
    fn try_again(&mut self, id: &EntryId, status: Status) {
        self.credit.drop_entry(id);
        if let Some(record) = self.records.get_mut(id) {
            match status {
                Status::Queued => record.try_again(),
                _ => record.test_harm_again(),
            }
            record.entry.status = status.clone();
            record.began = self.groups;
            record.decided = None;
            record.resumed = false;
        }
        // What it needs is out only because it was not shown without it.
        if status == Status::Queued {
            for needed in self.needed(id) {
                if self.status(&needed) == Some(&Status::Expired) && !self.deployed.contains(&needed) {
                    self.try_again(&needed, Status::Queued);
                }
            }
        }
        self.shorten_queue();
    }

    /// A row per entry, by first proposal.
    pub fn rows(&self) -> Vec<EntryRow> {
        let estimates = self.credit.estimates();
        let row = |record: &Record| {
            let current = estimates.get(&record.entry.id);
            // The estimate of the decision is more precise than that of a few maintenance groups.
            let estimate = match (record.decided.as_ref(), current) {
                (Some(decided), Some(current)) if current.groups < decided.groups => Some(decided),
                (decided, current) => current.or(decided),
            };
            // Without groups the estimate holds only initial values.
            let estimate = estimate.filter(|estimate| estimate.groups > 0);
            let evidence = record.evidence.filter(|_| estimate.is_some());
            EntryRow {
                id: record.entry.id.clone(),
                status: record.entry.stage().to_owned(),
                lesson: record.entry.lesson.line(),
                groups: estimate.map_or(0, |estimate| estimate.groups),
                lift: estimate.map(|estimate| estimate.effect),
                interval: estimate.map(|estimate| estimate.interval),
                helps: evidence.and_then(|evidence| evidence.helps),
                harms: evidence.map(|evidence| evidence.harms),
                tokens: record.entry.lesson.tokens(),
                support: times_proposed(&record.entry),
                created_by: record.entry.created_by.clone(),
                needs: record.entry.needs.clone(),
                merges: record.entry.merges.clone(),
                usage: None,
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
        self.pending.answers.extend(batch.answers.iter().cloned());
        let metrics = Measurements::from([
            (Metric::Episodes, batch.episodes() as f64),
            (Metric::Groups, batch.groups.len() as f64),
            (Metric::Proposals, batch.proposals() as f64),
        ]);
        Ok(Forward { metrics })
    }

    fn optim_step(&mut self) -> Result<Step, LearnError> {
        let Pending { batches, groups, answers } = std::mem::take(&mut self.pending);
        if batches == 0 {
            return Ok(Step::default());
        }
        self.touched();
        self.batches += batches;
        for group in &groups {
            self.credit.observe(group);
            self.groups += 1;
        }
        // The control does not measure.
        let measures = self.settings.admission == Admission::Measured;
        let mut events = if measures { self.decide() } else { Vec::new() };
        let has_reflected = !answers.is_empty();
        for answer in answers {
            self.take_answer(answer);
        }
        events.extend(self.close_blocked());
        events.extend(self.fill_trial());
        if has_reflected {
            events.extend(self.end_round());
        }
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
        // Cache the digest, which is needed next and hashes the same bytes.
        self.named.get_or_init(|| Digest::of(&bytes));
        Ok(bytes)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        let broken = |error: serde_json::Error| LearnError::Layer { layer: "harness".into(), why: error.to_string() };
        let restored: Self = serde_json::from_slice(bytes).map_err(broken)?;
        // The embedder is not part of the state.
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
