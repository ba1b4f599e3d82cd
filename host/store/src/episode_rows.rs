//! The rows of an episode: its columns, and its document.

use crate::artefacts;
use crate::compressor::Compressor;
use crate::dictionaries::{self, Dictionary};
use crate::documents::{Around, Kind, Stored};
use crate::error::Fault;
use crate::integers::signed;
use crate::keys::EpisodeKey;
use crate::ledger;
use crate::writer::{Content, NewBlob};
use clawhost_core::{Digest, Ending, Episode, EpisodeId, EpisodeState, Recorded, RewardRecord, RunId, StoreError};
use rusqlite::{OptionalExtension as _, Params, Transaction, params};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bits of a verdict's number for its position in the episode: at most 65,536 verdicts. The schema has the same number.
const VERDICT_BITS: u32 = 16;

/// An episode prepared for its rows, so that the writer thread only writes.
pub(crate) struct EpisodeRows {
    pub(crate) recorded: Recorded,
    document: Stored,
    verdicts: Vec<(Digest, Stored)>,
    /// Digest of its texts, for the ledger.
    pub(crate) digest: Digest,
    /// Digests of large artefacts, with their sizes.
    blobs: BTreeMap<Digest, u64>,
}

/// Prepares episodes for their rows.
pub(crate) fn prepare(
    episodes: Vec<Recorded>,
    compressor: &Compressor,
) -> Result<(Vec<EpisodeRows>, Vec<NewBlob>), StoreError> {
    let (mut rows, mut new) = (Vec::with_capacity(episodes.len()), Vec::new());
    for recorded in episodes {
        let episode = &recorded.episode;
        let fail = |error: serde_json::Error| StoreError::Other(format!("episode {}: {error}", episode.id));
        let stored = artefacts::write(episode).map_err(fail)?;
        let around = around(episode.format, &episode.id.0, &episode.run.0, episode.index, episode.created_at);
        let document = compressor
            .encode(Kind::Episode, episode.origin.name(), &stored.document, &around)
            .map_err(|error| StoreError::Other(format!("episode {}: {error}", episode.id)))?;
        let mut digest = ledger::of_episode(&stored.document, []);
        let mut verdicts = Vec::with_capacity(episode.verdicts.len());
        for record in &episode.verdicts {
            let (document, of_verdict) = verdict(record, &episode.id, compressor)?;
            digest = digest.extended(of_verdict.as_bytes());
            verdicts.push((record.reward.digest, document));
        }
        let mut blobs = BTreeMap::new();
        for (position, digest) in stored.large {
            let content = Content::Artefact(episode.clone(), position);
            blobs.insert(digest, content.bytes().len() as u64);
            new.push(NewBlob { digest, content });
        }
        rows.push(EpisodeRows { document, verdicts, digest, blobs, recorded });
    }
    Ok((rows, new))
}

/// The document of a verdict, and the digest of its text.
pub(crate) fn verdict(
    record: &RewardRecord,
    episode: &EpisodeId,
    compressor: &Compressor,
) -> Result<(Stored, Digest), StoreError> {
    let fail = |error: &dyn std::fmt::Display| StoreError::Other(format!("a verdict about {episode}: {error}"));
    let document = serde_json::to_string(record).map_err(|error| fail(&error))?;
    let stored = compressor.encode(Kind::Verdict, &record.reward.name, &document, &Around::default());
    Ok((stored.map_err(|error| fail(&error))?, Digest::of(document.as_bytes())))
}

/// The beginning and the end of an episode's document, as its columns determine them.
pub(crate) fn around(format: u32, id: &str, run: &str, index: u64, created_at: u64) -> Around {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    Around {
        head: format!(
            r#"{{"format":{format},"id":{},"run":{},"index":{index},"task":{{"id":"#,
            quoted(id),
            quoted(run)
        ),
        tail: format!(r#","created_at":{created_at}}}"#),
    }
}

/// Writes rows in one transaction, and caches the numbers of referenced rows.
pub(crate) struct RowWriter<'a> {
    transaction: &'a Transaction<'a>,
    run: Option<(RunId, i64)>,
    setting: Option<(Setting, i64)>,
    ending: Option<(Ending, i64)>,
    reward: Option<(Digest, i64)>,
    dictionaries: Vec<(Arc<Dictionary>, i64)>,
}

/// The columns of a setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    pub(crate) environment: String,
    pub(crate) environment_digest: Option<Digest>,
    pub(crate) state_id: clawhost_core::StateId,
    pub(crate) split: String,
    pub(crate) format: u32,
    pub(crate) is_live: bool,
    pub(crate) expects: String,
}

impl Setting {
    pub(crate) fn of(episode: &Episode) -> Self {
        Self {
            environment: episode.origin.name().to_owned(),
            environment_digest: episode.simulated().map(|simulated| simulated.environment.digest),
            state_id: episode.state_id,
            split: episode.task.split.clone(),
            format: episode.format,
            is_live: episode.origin.session().is_some(),
            expects: match episode.expects.is_empty() {
                true => String::new(),
                false => serde_json::json!(episode.expects).to_string(),
            },
        }
    }
}

/// The columns of an ending: its label, and the kind and the code of a failure.
pub(crate) fn ending_columns(ending: &Ending) -> (String, Option<String>, Option<String>) {
    let (kind, code) = match ending {
        Ending::Failed(failure) => (Some(failure.kind.to_string()), Some(failure.code.clone())),
        Ending::Terminated | Ending::Truncated(_) => (None, None),
    };
    (ending.label(), kind, code)
}

/// The number of a row that exists or is inserted. Both statements take the same values.
fn number(
    transaction: &Transaction<'_>,
    select: &str,
    insert: &str,
    values: impl Params + Copy,
) -> rusqlite::Result<i64> {
    let known = transaction.prepare_cached(select)?.query_row(values, |row| row.get(0)).optional()?;
    match known {
        Some(number) => Ok(number),
        None => transaction.prepare_cached(insert)?.insert(values),
    }
}

/// The row number of a run.
pub(crate) fn run_number(transaction: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Option<i64>> {
    transaction.prepare_cached("SELECT number FROM runs WHERE id = ?")?.query_row([&run.0], |row| row.get(0)).optional()
}

/// The row number of an episode.
pub(crate) fn episode_number(
    transaction: &Transaction<'_>,
    run: &RunId,
    episode: &EpisodeId,
) -> rusqlite::Result<Option<i64>> {
    transaction
        .prepare_cached("SELECT e.number FROM runs r JOIN episodes e ON e.run = r.number WHERE r.id = ? AND e.id = ?")?
        .query_row(params![run.0, EpisodeKey::of(&episode.0)], |row| row.get(0))
        .optional()
}

/// The range of numbers for verdicts of an episode.
pub(crate) fn verdict_numbers(episode: i64) -> (i64, i64) {
    let first = episode << VERDICT_BITS;
    (first, first | ((1 << VERDICT_BITS) - 1))
}

impl<'a> RowWriter<'a> {
    pub(crate) fn new(transaction: &'a Transaction<'a>) -> Self {
        Self { transaction, run: None, setting: None, ending: None, reward: None, dictionaries: Vec::new() }
    }

    /// Writes all rows of an episode.
    pub(crate) fn write(&mut self, rows: &EpisodeRows) -> Result<(), Fault> {
        let EpisodeRows { recorded: Recorded { episode, notes, .. }, document, verdicts, blobs, .. } = rows;
        let run = self.run(&episode.run)?;
        let values = params![
            run,
            EpisodeKey::of(&episode.id.0),
            signed(episode.index),
            signed(episode.group()),
            episode.task.key(),
            self.setting(episode)?,
            self.ending(&episode.ending)?,
            episode.reward,
            signed(episode.turns.len() as u64),
            signed(episode.created_at),
            pending_until(episode.state(0)),
            episode.revision(),
            self.dictionary(document)?,
            document.form,
        ];
        let number = self
            .transaction
            .prepare_cached(
                "INSERT INTO episodes (run, id, position, group_number, task, setting, ending, reward, turns, created_at,
                 pending_until, revision, dictionary, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .insert(values)?;
        for (digest, size) in blobs {
            self.transaction
                .prepare_cached("INSERT INTO episode_blobs (episode, digest, size) VALUES (?, ?, ?)")?
                .execute(params![number, digest.to_string(), signed(*size)])?;
        }
        for (position, (reward, document)) in verdicts.iter().enumerate() {
            self.verdict(number, position, reward, document)?;
        }
        for (key, value) in notes {
            self.transaction
                .prepare_cached("INSERT INTO episode_notes (run, position, key, value) VALUES (?, ?, ?, ?)")?
                .execute(params![run, signed(episode.index), key, value])?;
        }
        Ok(())
    }

    /// Writes a verdict at a free position.
    pub(crate) fn verdict(
        &mut self,
        episode: i64,
        position: usize,
        reward: &Digest,
        document: &Stored,
    ) -> Result<(), Fault> {
        let (first, last) = verdict_numbers(episode);
        let number = first.saturating_add(signed(position as u64));
        if number > last {
            let most = last - first + 1;
            return Err(StoreError::Other(format!("an episode has at most {most} verdicts: nothing is added")).into());
        }
        let values = params![number, self.reward(reward)?, self.dictionary(document)?, document.form];
        self.transaction
            .prepare_cached("INSERT INTO verdicts (number, reward, dictionary, document) VALUES (?, ?, ?, ?)")?
            .execute(values)?;
        Ok(())
    }

    fn run(&mut self, run: &RunId) -> Result<i64, Fault> {
        if let Some((_, number)) = self.run.as_ref().filter(|(known, _)| known == run) {
            return Ok(*number);
        }
        let number = run_number(self.transaction, run)?
            .ok_or_else(|| StoreError::Other(format!("run {run} is unknown: nothing can be added to it")))?;
        self.run = Some((run.clone(), number));
        Ok(number)
    }

    fn setting(&mut self, episode: &Episode) -> rusqlite::Result<i64> {
        let setting = Setting::of(episode);
        if let Some((_, number)) = self.setting.as_ref().filter(|(known, _)| *known == setting) {
            return Ok(*number);
        }
        let digest = setting.environment_digest.map(|digest| digest.to_string()).unwrap_or_default();
        let Setting { environment, state_id, split, format, is_live, expects, .. } = &setting;
        let number = number(
            self.transaction,
            "SELECT number FROM settings WHERE state_id = ? AND environment_digest = ? AND split = ? AND environment = ?
             AND expects = ? AND format = ? AND live = ?",
            "INSERT INTO settings (state_id, environment_digest, split, environment, expects, format, live)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![state_id.to_string(), digest, split, environment, expects, format, is_live],
        )?;
        self.setting = Some((setting, number));
        Ok(number)
    }

    fn ending(&mut self, ending: &Ending) -> rusqlite::Result<i64> {
        if let Some((_, number)) = self.ending.as_ref().filter(|(known, _)| known == ending) {
            return Ok(*number);
        }
        let (label, kind, code) = ending_columns(ending);
        let number = number(
            self.transaction,
            "SELECT number FROM endings WHERE label = ?1 AND failure_kind IS ?2 AND failure_code IS ?3",
            "INSERT INTO endings (label, failure_kind, failure_code) VALUES (?1, ?2, ?3)",
            params![label, kind, code],
        )?;
        self.ending = Some((ending.clone(), number));
        Ok(number)
    }

    fn reward(&mut self, reward: &Digest) -> rusqlite::Result<i64> {
        if let Some((_, number)) = self.reward.filter(|(known, _)| known == reward) {
            return Ok(number);
        }
        let number = number(
            self.transaction,
            "SELECT number FROM rewards WHERE digest = ?",
            "INSERT INTO rewards (digest) VALUES (?)",
            [&reward.to_string()],
        )?;
        self.reward = Some((*reward, number));
        Ok(number)
    }

    fn dictionary(&mut self, document: &Stored) -> rusqlite::Result<Option<i64>> {
        let Some(dictionary) = &document.dictionary else { return Ok(None) };
        if let Some((_, number)) = self.dictionaries.iter().find(|(known, _)| Arc::ptr_eq(known, dictionary)) {
            return Ok(Some(*number));
        }
        let number = dictionaries::number_of(self.transaction, dictionary)?;
        self.dictionaries.push((dictionary.clone(), number));
        Ok(Some(number))
    }
}

/// The time until which an episode waits. It is computed at time 0, so it does not depend on the clock: the state at
/// any time follows from it.
pub(crate) fn pending_until(state: EpisodeState) -> Option<i64> {
    match state {
        EpisodeState::Pending { until } => Some(signed(until)),
        EpisodeState::Open | EpisodeState::Decided => None,
    }
}

/// Removes an episode with everything that belongs to it alone. Its notes belong to its position and stay.
pub(crate) fn remove(transaction: &Transaction<'_>, number: i64) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM episode_blobs WHERE episode = ?")?.execute([number])?;
    transaction
        .prepare_cached("DELETE FROM verdicts WHERE number BETWEEN ? AND ?")?
        .execute(verdict_numbers(number))?;
    transaction.prepare_cached("DELETE FROM episodes WHERE number = ?")?.execute([number])?;
    Ok(())
}

/// Removes rows that nothing refers to.
pub(crate) const REMOVE_UNUSED: [&str; 4] = [
    "DELETE FROM settings WHERE number NOT IN (SELECT setting FROM episodes)",
    "DELETE FROM endings WHERE number NOT IN (SELECT ending FROM episodes)",
    "DELETE FROM rewards WHERE number NOT IN (SELECT reward FROM verdicts)",
    dictionaries::REMOVE_UNUSED,
];
