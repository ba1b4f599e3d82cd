//! Checks the ledger: its chain, and the records of a run against it.

use crate::documents::{self, Form, Kind};
use crate::error::wrong_type;
use crate::keys::EpisodeKey;
use crate::ledger::{self, Any, Entry, EntryKind, key_check};
use crate::reader::Reader;
use clawhost_core::{
    Digest, EpisodeId, LedgerFinding, LedgerHead, LedgerKey, LedgerReader, LedgerReport, RunId, StoreError,
};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, Row};
use std::collections::{BTreeMap, BTreeSet};

/// An entry that a record ought to equal: its number and its digest.
type Mark = (u64, Vec<u8>);

/// What the ledger has of one episode.
struct HeldEpisode {
    mark: Mark,
    /// Its later verdicts, in order.
    verdicts: Vec<Mark>,
}

/// What the ledger has of one run.
#[derive(Default)]
struct Held {
    begun: Option<Mark>,
    state: Option<Mark>,
    labels: Option<Mark>,
    episodes: BTreeMap<String, HeldEpisode>,
    checkpoint: Option<Mark>,
    reports: BTreeMap<String, Mark>,
    is_pruned: bool,
}

impl Held {
    fn take(&mut self, kind: EntryKind, subject: String, mark: Mark) {
        match kind {
            EntryKind::Key | EntryKind::Begun | EntryKind::Removed => {}
            EntryKind::State => self.state = Some(mark),
            EntryKind::Labels => self.labels = Some(mark),
            EntryKind::Episode | EntryKind::Replaced => {
                self.episodes.insert(subject, HeldEpisode { mark, verdicts: Vec::new() });
            }
            EntryKind::Verdict => {
                // Without its episode it is about nothing: the missing entry of the episode is found.
                if let Some(episode) = self.episodes.get_mut(&subject) {
                    episode.verdicts.push(mark);
                }
            }
            EntryKind::Checkpoint => self.checkpoint = Some(mark),
            EntryKind::Report => {
                self.reports.insert(subject, mark);
            }
            EntryKind::PrunedEpisode => {
                self.episodes.remove(&subject);
                self.is_pruned = true;
            }
            EntryKind::PrunedEpisodes => {
                self.episodes.clear();
                self.is_pruned = true;
            }
            EntryKind::PrunedCheckpoint => {
                self.checkpoint = None;
                self.is_pruned = true;
            }
            EntryKind::PrunedReports => self.reports.clear(),
            EntryKind::Forgotten => drop(self.episodes.remove(&subject)),
        }
    }
}

/// The state of reading the chain from its beginning.
struct Chain<'a> {
    key: &'a LedgerKey,
    /// The run whose records are checked; `None`: all.
    run: Option<&'a RunId>,
    last: u64,
    code: Vec<u8>,
    entries: u64,
    /// Whether the last named key is the one of this check.
    is_own_key: bool,
    /// Numbers of entries under other keys: the first, the last.
    foreign: Option<(u64, u64)>,
    /// All runs, by the entry with which each began.
    runs: BTreeMap<i64, RunId>,
    /// Runs that were not removed, with that entry.
    standing: BTreeMap<RunId, u64>,
    held: BTreeMap<RunId, Held>,
    /// Entries without a digest, by the entry of their run and their episode. A later entry has to say that the episode was forgotten.
    erased: BTreeMap<(Option<i64>, String), Vec<(i64, i64)>>,
    /// Episodes that were forgotten.
    forgotten: u64,
    findings: Vec<LedgerFinding>,
}

/// Whether the digest of an entry may be erased.
fn may_be_erased(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Episode | EntryKind::Replaced | EntryKind::Verdict)
}

impl<'a> Chain<'a> {
    fn new(key: &'a LedgerKey, run: Option<&'a RunId>) -> Self {
        Self {
            key,
            run,
            last: 0,
            code: Vec::new(),
            entries: 0,
            is_own_key: true,
            foreign: None,
            runs: BTreeMap::new(),
            standing: BTreeMap::new(),
            held: BTreeMap::new(),
            erased: BTreeMap::new(),
            forgotten: 0,
            findings: Vec::new(),
        }
    }

    /// `None`: a column has a value of the wrong type.
    fn take(&mut self, number: i64, read: Option<(Entry, Vec<u8>)>) {
        let entry = u64::try_from(number).unwrap_or(0);
        self.entries += 1;
        let next = self.last.saturating_add(1);
        if entry > next {
            self.findings.push(LedgerFinding::EntryMissing { first: next, last: entry - 1 });
        }
        self.last = entry;
        let Some((content, code)) = read else {
            self.code = Vec::new();
            return self.findings.push(LedgerFinding::EntryForged { entry });
        };
        let kind = EntryKind::of(content.kind);
        if kind == Some(EntryKind::Key) {
            self.is_own_key = content.digest == key_check(self.key).as_bytes();
        }
        if !self.is_own_key {
            self.foreign = Some((self.foreign.map_or(entry, |(first, _)| first), entry));
        } else if content.digest.is_empty() && kind.is_some_and(may_be_erased) {
            // Without the digest its code cannot be computed. It is part of the next code, so it cannot be changed either.
            let erased = (content.run, content.subject.clone().unwrap_or_default());
            self.erased.entry(erased).or_default().push((content.sequence, content.kind));
        } else if entry == 0 || kind.is_none() || content.code(self.key, &self.code) != code {
            self.findings.push(LedgerFinding::EntryForged { entry });
        }
        self.code = code;
        if let Some(kind) = kind {
            self.hold(kind, entry, content);
        }
    }

    fn hold(&mut self, kind: EntryKind, entry: u64, content: Entry) {
        let Entry { sequence, run, subject, digest, .. } = content;
        let subject = subject.unwrap_or_default();
        if kind == EntryKind::Begun {
            let begun = RunId(subject);
            if self.run.is_none_or(|run| begun == *run || begun.phase_of(run).is_some()) {
                self.held.insert(begun.clone(), Held { begun: Some((entry, digest)), ..Held::default() });
            }
            self.standing.insert(begun.clone(), entry);
            self.runs.insert(sequence, begun);
            return;
        }
        if kind == EntryKind::Forgotten {
            self.forgotten += 1;
            let erased = self.erased.remove(&(run, subject.clone())).unwrap_or_default();
            if ledger::of_erased(&erased).as_bytes() != digest.as_slice() {
                self.findings.extend(forged(&erased));
            }
        }
        let Some(run) = run.and_then(|begun| self.runs.get(&begun)) else { return };
        if kind == EntryKind::Removed {
            self.standing.remove(run);
            self.held.remove(run);
        } else if let Some(held) = self.held.get_mut(run) {
            held.take(kind, subject, (entry, digest));
        }
    }
}

/// What erased entries are that nothing says were forgotten.
fn forged(erased: &[(i64, i64)]) -> impl Iterator<Item = LedgerFinding> {
    erased.iter().map(|(number, _)| LedgerFinding::EntryForged { entry: u64::try_from(*number).unwrap_or(0) })
}

/// The columns of an entry. `None`: one has a value of the wrong type.
fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Option<(Entry, Vec<u8>)>)> {
    let sequence = row.get(0)?;
    let content = || -> rusqlite::Result<(Entry, Vec<u8>)> {
        let subject = row.get::<_, Option<EpisodeKey>>(3)?.map(|key| key.0);
        let (kind, run, digest, code) = (row.get(1)?, row.get(2)?, row.get(4)?, row.get(5)?);
        Ok((Entry { sequence, kind, run, subject, digest }, code))
    };
    match content() {
        Ok(content) => Ok((sequence, Some(content))),
        Err(error) if wrong_type(&error).is_some() => Ok((sequence, None)),
        Err(error) => Err(error),
    }
}

impl LedgerReader for Reader {
    fn check_ledger(&self, run: Option<&RunId>, key: &LedgerKey) -> Result<LedgerReport, StoreError> {
        // One transaction: entries and records belong to the same moment.
        self.query(|connection| connection.execute_batch("BEGIN"))?;
        let report = check(self, run, key);
        self.query(|connection| connection.execute_batch("COMMIT"))?;
        report
    }
}

fn check(reader: &Reader, run: Option<&RunId>, key: &LedgerKey) -> Result<LedgerReport, StoreError> {
    let chain = reader.query(|connection| {
        let mut chain = Chain::new(key, run);
        let mut statement = connection
            .prepare_cached("SELECT sequence, kind, run, subject, digest, code FROM ledger ORDER BY sequence")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (number, entry) = read(row)?;
            chain.take(number, entry);
        }
        Ok(chain)
    })?;
    let Chain { last, code, entries, foreign, held, standing, erased, forgotten, mut findings, .. } = chain;
    findings.extend(erased.values().flat_map(|erased| forged(erased)));
    let hex = code.iter().map(|byte| format!("{byte:02x}")).collect();
    let unchecked = foreign.map(|(first, last)| {
        format!("the ledger cannot be checked: entries {first} to {last} were written with another host.key than the present one")
    });
    let head = (entries > 0).then_some(LedgerHead { entry: last, code: hex });
    let mut records = Records { reader, findings };
    records.compare_all(run, held)?;
    records.compare_runs(standing)?;
    if run.is_none() {
        records.belong_to_runs()?;
    }
    let mut findings = records.findings;
    findings.sort();
    findings.dedup();
    Ok(LedgerReport { entries, head, forgotten, unchecked, findings })
}

/// Compares records with what the ledger has.
struct Records<'a> {
    reader: &'a Reader,
    findings: Vec<LedgerFinding>,
}

impl Records<'_> {
    /// Compares the runs that are there with those that ought to be.
    fn compare_runs(&mut self, mut standing: BTreeMap<RunId, u64>) -> Result<(), StoreError> {
        for id in self.ids("SELECT id FROM runs WHERE ?1 IS NULL", None)? {
            if standing.remove(&id).is_none() {
                self.findings.push(LedgerFinding::RecordInserted { record: format!("run {id}") });
            }
        }
        for (id, entry) in standing {
            self.findings.push(LedgerFinding::RecordRemoved { record: format!("run {id}"), entry });
        }
        Ok(())
    }

    /// Finds rows of runs that are not there.
    fn belong_to_runs(&mut self) -> Result<(), StoreError> {
        let tables: BTreeSet<String> = self.reader.query(|connection| {
            let mut check = connection.prepare("PRAGMA foreign_key_check")?;
            check.query_map([], |row| row.get(0))?.collect()
        })?;
        for table in tables {
            let record = format!("a row of the table `{table}`, of a run that is not there,");
            self.findings.push(LedgerFinding::RecordInserted { record });
        }
        Ok(())
    }

    /// The ids of runs.
    fn ids(&self, sql: &str, run: Option<&RunId>) -> Result<Vec<RunId>, StoreError> {
        self.reader.query(|connection| {
            let run = run.map(|run| run.0.as_str());
            connection.prepare_cached(sql)?.query_map([run], |row| Ok(RunId(row.get(0)?)))?.collect()
        })
    }

    fn compare_all(&mut self, run: Option<&RunId>, mut held: BTreeMap<RunId, Held>) -> Result<(), StoreError> {
        let present = self.ids(
            "SELECT id FROM runs WHERE ?1 IS NULL OR id = ?1 OR parent = ?1 OR substr(id, 1, length(?1) + 1) = ?1 || '.'",
            run,
        )?;
        for id in present {
            match held.remove(&id) {
                Some(held) => self.compare(&id, held)?,
                None => self.findings.push(LedgerFinding::RecordInserted { record: format!("run {id}") }),
            }
        }
        for (id, held) in held {
            let entry = held.begun.map_or(0, |(entry, _)| entry);
            self.findings.push(LedgerFinding::RecordRemoved { record: format!("run {id}"), entry });
        }
        Ok(())
    }

    /// `found`: the digest of the record. `None`: there is no record.
    fn judge(&mut self, record: String, held: Option<Mark>, found: Option<&Digest>) {
        match (held, found) {
            (None, None) => {}
            (None, Some(_)) => self.findings.push(LedgerFinding::RecordInserted { record }),
            (Some((entry, _)), None) => self.findings.push(LedgerFinding::RecordRemoved { record, entry }),
            (Some((entry, digest)), Some(found)) if digest != found.as_bytes() => {
                self.findings.push(LedgerFinding::RecordChanged { record, entry });
            }
            (Some(_), Some(_)) => {}
        }
    }

    fn compare(&mut self, run: &RunId, held: Held) -> Result<(), StoreError> {
        let Held { begun, state, labels, episodes, checkpoint, reports, is_pruned } = held;
        let entry = begun.as_ref().map_or(0, |(entry, _)| *entry);
        let (of_run, of_state, of_begun_state, of_labels, pruned) = self.reader.query(|connection| {
            let pruned: Any = connection
                .prepare_cached("SELECT pruned FROM runs WHERE id = ?")?
                .query_row([&run.0], |row| row.get(0))?;
            Ok((
                ledger::of_run(connection, run)?,
                ledger::of_state(connection, run)?,
                ledger::of_begun_state(connection)?,
                ledger::of_labels(connection, run)?,
                pruned.0,
            ))
        })?;
        self.judge(format!("run {run}"), begun, Some(&of_run));
        let begun_as = |digest: Digest| Some((entry, digest.as_bytes().to_vec()));
        self.judge(format!("the end of run {run}"), state.or(begun_as(of_begun_state)), Some(&of_state));
        let unlabelled = begun_as(ledger::of_no_labels());
        self.judge(format!("the labels of run {run}"), labels.or(unlabelled), Some(&of_labels));
        if pruned != Value::Integer(i64::from(is_pruned)) {
            self.findings
                .push(LedgerFinding::RecordChanged { record: format!("the mark `pruned` of run {run}"), entry });
        }
        self.episodes(run, episodes)?;
        let found = self.checkpoint(run)?;
        self.judge(format!("the checkpoint of run {run}"), checkpoint, found.as_ref());
        self.reports(run, reports)
    }

    fn episodes(&mut self, run: &RunId, mut held: BTreeMap<String, HeldEpisode>) -> Result<(), StoreError> {
        let ids: Vec<Result<String, i64>> = self.reader.query(|connection| {
            connection
                .prepare_cached("SELECT e.id, e.number FROM runs r JOIN episodes e ON e.run = r.number WHERE r.id = ?")?
                .query_map([&run.0], |row| match row.get::<_, EpisodeKey>(0) {
                    Ok(key) => Ok(Ok(key.0)),
                    Err(_) => Ok(Err(row.get(1)?)),
                })?
                .collect()
        })?;
        for id in ids {
            let id = match id {
                Ok(id) => id,
                Err(number) => {
                    let record = format!("the episode of run {run} in row {number}");
                    self.findings.push(LedgerFinding::RecordInserted { record });
                    continue;
                }
            };
            let record = format!("episode {run}/{id}");
            let Some(HeldEpisode { mark, verdicts }) = held.remove(&id) else {
                self.findings.push(LedgerFinding::RecordInserted { record });
                continue;
            };
            match self.reader.texts_of(run, &EpisodeId(id)) {
                Ok(Some((document, texts))) => {
                    let (later, first): (Vec<String>, Vec<String>) = texts.into_iter().partition(|text| is_later(text));
                    let digest = ledger::of_episode(&document, first.iter().map(String::as_str));
                    self.judge(record.clone(), Some(mark), Some(&digest));
                    let mut verdicts = verdicts.into_iter();
                    for (number, text) in (1..).zip(&later) {
                        let digest = Digest::of(text.as_bytes());
                        self.judge(format!("later verdict {number} of {record}"), verdicts.next(), Some(&digest));
                    }
                    for (number, mark) in (later.len() + 1..).zip(verdicts) {
                        self.judge(format!("later verdict {number} of {record}"), Some(mark), None);
                    }
                }
                // A record that cannot be read is not what was recorded.
                Ok(None) | Err(StoreError::Damaged { .. }) => {
                    self.findings.push(LedgerFinding::RecordChanged { record, entry: mark.0 });
                }
                Err(error) => return Err(error),
            }
        }
        for (id, HeldEpisode { mark, .. }) in held {
            self.judge(format!("episode {run}/{id}"), Some(mark), None);
        }
        Ok(())
    }

    /// The digest of the checkpoint. One that cannot be read has the digest of nothing.
    fn checkpoint(&self, run: &RunId) -> Result<Option<Digest>, StoreError> {
        self.reader.query(|connection| {
            let row: Option<(Option<i64>, Option<Form>)> = connection
                .prepare_cached("SELECT iteration, state FROM checkpoints WHERE run = ?")?
                .query_row([&run.0], |row| Ok((row.get(0).ok(), row.get(1).ok())))
                .optional()?;
            let Some((iteration, form)) = row else { return Ok(None) };
            let text = form.and_then(|form| documents::decode_alone(Kind::State, &form).ok());
            match (iteration.and_then(|number| u64::try_from(number).ok()), text) {
                (Some(iteration), Some(text)) => ledger::of_checkpoint(connection, run, iteration, &text).map(Some),
                _ => Ok(Some(ledger::of_no_labels())),
            }
        })
    }

    fn reports(&mut self, run: &RunId, mut held: BTreeMap<String, Mark>) -> Result<(), StoreError> {
        let rows: Vec<(i64, Option<Form>)> = self.reader.query(|connection| {
            connection
                .prepare_cached("SELECT number, report FROM iterations WHERE run = ? ORDER BY number")?
                .query_map([&run.0], |row| Ok((row.get(0).unwrap_or(-1), row.get(1).ok())))?
                .collect()
        })?;

        for (number, form) in rows {
            let text = form.and_then(|form| documents::decode_alone(Kind::Report, &form).ok()).unwrap_or_default();
            let record = format!("the report of iteration {number} of run {run}");
            let mark = held.remove(&number.to_string());
            self.judge(record, mark, Some(&Digest::of(text.as_bytes())));
        }
        for (number, mark) in held {
            self.judge(format!("the report of iteration {number} of run {run}"), Some(mark), None);
        }
        Ok(())
    }
}

/// Whether the text of a verdict is one that was added later.
fn is_later(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Later {
        later: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_str::<Later>(text).is_ok_and(|record| record.later.is_some())
}
