//! Writes runs, episodes, notes and verdicts.

use crate::artefacts;
use crate::compressor::Compressor;
use crate::dictionaries::Loaded;
use crate::documents::{self, Around, Form, Kind};
use crate::episode_rows::{self, EpisodeRows, RowWriter, episode_number, pending_until};
use crate::error::Fault;
use crate::feedback;
use crate::integers::signed;
use crate::keys::EpisodeKey;
use crate::ledger::{self, EntryKind, Ledger};
use crate::retention;
use crate::runs;
use crate::writer::{Store, Write, give_way, off_executor};
use async_trait::async_trait;
use clawhost_core::{
    Admission, Digest, Episode, EpisodeState, EpisodeStore, ExpectedVerdict, Judged, NotAdmitted, Recorded,
    RewardRecord, RewardRule, RunId, RunLabels, RunRecord, RunState, StoreError, Usage, admit,
};
use rusqlite::{OptionalExtension as _, Transaction, params};
use std::collections::BTreeSet;

/// The name of a run's state in its row.
pub(crate) fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Open => "open",
        RunState::Stopped => "stopped",
        RunState::Finished => "finished",
    }
}

#[async_trait]
impl EpisodeStore for Store {
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        let run = self.checked("the run").record(run.clone())?;
        self.write(Write::Begin(Box::new(run))).await
    }

    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError> {
        self.write(Write::Resume(run.clone())).await
    }

    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, spent: Usage) -> Result<(), StoreError> {
        let door = self.checked("an episode");
        let episodes: Vec<Recorded> = episodes.into_iter().map(|one| door.recorded(one)).collect::<Result<_, _>>()?;
        // Large artefacts take long to hash.
        let (rows, blobs) = if episodes.iter().any(|recorded| artefacts::has_large(&recorded.episode)) {
            let compressor = self.compressor().clone();
            off_executor(move || episode_rows::prepare(episodes, &compressor)).await?
        } else {
            episode_rows::prepare(episodes, self.compressor())?
        };
        let spent = serde_json::json!(spent).to_string();
        self.write_with(Write::Append { run: run.clone(), rows, spent }, blobs).await
    }

    async fn judge(&self, judged: Vec<Judged>) -> Result<Vec<Admission>, StoreError> {
        let door = self.checked("a verdict");
        let clean = |one: Judged| Ok(Judged { record: door.record(one.record)?, key: door.record(one.key)?, ..one });
        self.add_verdicts(judged.into_iter().map(clean).collect::<Result<_, StoreError>>()?).await
    }

    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, spent: Usage) -> Result<(), StoreError> {
        let stopped = summary.get("stopped").is_some_and(|why| !why.is_null());
        let state = if stopped { RunState::Stopped } else { RunState::Finished };
        let summary = self.checked("the summary").document(summary.to_string())?;
        let spent = serde_json::json!(spent).to_string();
        self.write(Write::Finish { run: run.clone(), state, summary, spent }).await
    }
}

pub(crate) fn begin(transaction: &Transaction<'_>, run: &RunRecord, ledger: &mut Ledger<'_>) -> Result<(), Fault> {
    transaction
        .prepare_cached(
            "INSERT INTO runs (id, parent, kind, environment, state_id, config, digest, basis, planned, created_at, state)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            run.id.0,
            run.parent.as_ref().map(|parent| &parent.0),
            run.kind.name(),
            run.environment,
            run.state_id.to_string(),
            run.config.0.to_string(),
            run.digest().to_string(),
            run.basis.to_string(),
            signed(run.planned),
            signed(run.created_at),
            state_name(RunState::Open),
        ])?;
    ledger.begin(&run.id, &ledger::of_run(transaction, &run.id)?)?;
    runs::label(transaction, &run.id, &run.labels)?;
    if run.labels != RunLabels::default() {
        ledger.add(EntryKind::Labels, &run.id, None, &ledger::of_labels(transaction, &run.id)?)?;
    }
    Ok(())
}

pub(crate) fn resume(transaction: &Transaction<'_>, run: &RunId, ledger: &mut Ledger<'_>) -> Result<(), Fault> {
    transaction
        .prepare_cached("UPDATE runs SET summary = NULL, state = ? WHERE id = ?")?
        .execute(params![state_name(RunState::Open), run.0])?;
    ledger.add(EntryKind::State, run, None, &ledger::of_state(transaction, run)?)
}

pub(crate) fn finish(
    transaction: &Transaction<'_>,
    run: &RunId,
    state: RunState,
    summary: &str,
    spent: &str,
) -> rusqlite::Result<()> {
    transaction.prepare_cached("UPDATE runs SET state = ?, summary = ?, spent = ? WHERE id = ?")?.execute(params![
        state_name(state),
        summary,
        spent,
        run.0
    ])?;
    // The last writer of a key, in the order of the plan; if it deleted the key, the key is absent. The notes of the
    // episodes stay: a resumed run merges them again.
    transaction.prepare_cached("DELETE FROM notes WHERE run = ?")?.execute(params![run.0])?;
    transaction
        .prepare_cached(
            "INSERT INTO notes (run, key, value) SELECT ?1, key, value FROM episode_notes AS last
             WHERE run = ?2 AND value IS NOT NULL AND position =
             (SELECT max(position) FROM episode_notes WHERE run = ?2 AND key = last.key)",
        )?
        .execute(params![run.0, episode_rows::run_number(transaction, run)?])?;
    Ok(())
}

pub(crate) fn append(
    transaction: &Transaction<'_>,
    (run, rows): (&RunId, &[EpisodeRows]),
    spent: &str,
    released: &mut BTreeSet<Digest>,
    compressor: &Compressor,
    ledger: &mut Ledger<'_>,
) -> Result<(), Fault> {
    transaction.prepare_cached("UPDATE runs SET spent = ? WHERE id = ?")?.execute(params![spent, run.0])?;
    for row in rows.iter().filter(|row| row.recorded.replaces_existing) {
        forget(transaction, &row.recorded.episode, released)?;
    }
    let mut closed = transaction.prepare_cached("DELETE FROM open_episodes WHERE run = ? AND id = ?")?;
    let mut exchanged = transaction.prepare_cached("DELETE FROM exchanges WHERE run = ? AND episode = ?")?;
    let mut writer = RowWriter::new(transaction);
    for row in rows {
        give_way();
        let episode = &row.recorded.episode;
        if episode.origin.session().is_some() {
            closed.execute(params![episode.run.0, episode.id.0])?;
            exchanged.execute(params![episode.run.0, episode.id.0])?;
        }
        writer.write(row)?;
        let kind = if row.recorded.replaces_existing { EntryKind::Replaced } else { EntryKind::Episode };
        ledger.add(kind, &episode.run, Some(&episode.id.0), &row.digest)?;
        if episode.origin.session().is_some() {
            feedback::add_waiting(transaction, episode, compressor, ledger)?;
        }
    }
    Ok(())
}

/// Removes the episode that is replaced.
fn forget(transaction: &Transaction<'_>, episode: &Episode, released: &mut BTreeSet<Digest>) -> Result<(), Fault> {
    if let Some(number) = episode_number(transaction, &episode.run, &episode.id)? {
        let mut blobs = transaction.prepare_cached("SELECT digest FROM episode_blobs WHERE episode = ?")?;
        released.extend(retention::digests(blobs.query([number])?)?);
        episode_rows::remove(transaction, number)?;
    }
    transaction
        .prepare_cached(
            "DELETE FROM episode_notes WHERE run = (SELECT number FROM runs WHERE id = ?) AND position = ?",
        )?
        .execute(params![episode.run.0, signed(episode.index)])?;
    Ok(())
}

/// The columns that decide whether a later verdict counts.
struct JudgedRow {
    number: i64,
    is_live: bool,
    expects: Option<String>,
    is_failed: bool,
}

/// Adds a later verdict to the verdicts as they are stored now: another process may have added some meanwhile.
pub(crate) fn judge(
    transaction: &Transaction<'_>,
    judged: &Judged,
    (compressor, dictionaries): (&Compressor, &Loaded),
    ledger: &mut Ledger<'_>,
) -> Result<Admission, Fault> {
    let Judged { run, episode, record, at, key } = judged;
    let broken = |error: &dyn std::fmt::Display| StoreError::Other(format!("verdicts of {run}/{episode}: {error}"));
    let row = transaction
        .prepare_cached(
            "SELECT e.number, s.live, s.expects, n.failure_kind IS NOT NULL FROM runs r JOIN episodes e ON e.run = r.number
             JOIN settings s ON s.number = e.setting JOIN endings n ON n.number = e.ending WHERE r.id = ? AND e.id = ?",
        )?
        .query_row(params![run.0, EpisodeKey::of(&episode.0)], |row| {
            let (number, is_live, is_failed) = (row.get(0)?, row.get(1)?, row.get(3)?);
            let expects = row.get::<_, Option<String>>(2)?.filter(|text| !text.is_empty());
            Ok(JudgedRow { number, is_live, expects, is_failed })
        })
        .optional()?;
    let Some(JudgedRow { number, is_live, expects, is_failed }) = row else {
        return Ok(Admission::Refused(NotAdmitted::NoEpisode));
    };
    if is_failed {
        return Ok(Admission::Refused(NotAdmitted::NotComplete));
    }
    let expects: Vec<ExpectedVerdict> =
        expects.as_deref().map_or(Ok(Vec::new()), serde_json::from_str).map_err(|error| broken(&error))?;
    let mut statement = transaction
        .prepare_cached("SELECT document, dictionary FROM verdicts WHERE number BETWEEN ? AND ? ORDER BY number")?;
    let stored: Vec<(Form, Option<i64>)> = statement
        .query_map(episode_rows::verdict_numbers(number), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut records: Vec<RewardRecord> = Vec::with_capacity(stored.len() + 1);
    for (form, dictionary) in stored {
        let dictionary = dictionaries.get(transaction, dictionary)?.map_err(|error| broken(&error))?;
        let document = documents::decode(Kind::Verdict, &form, &Around::default(), dictionary.as_deref());
        let document = document.map_err(|error| broken(&error))?;
        records.push(serde_json::from_str(&document).map_err(|error| broken(&error))?);
    }
    let rule = RewardRule { is_live, expects: &expects };
    let admission = admit(record.clone(), (*at, key.clone()), rule, &mut records);
    let Admission::Added { revision, reward } = admission else { return Ok(admission) };
    if let Some((position, added)) = records.iter().enumerate().next_back() {
        let (document, digest) = episode_rows::verdict(added, episode, compressor)?;
        ledger.add(EntryKind::Verdict, run, Some(&episode.0), &digest)?;
        RowWriter::new(transaction).verdict(number, position, &added.reward.digest, &document)?;
    }
    transaction
        .prepare_cached("UPDATE episodes SET reward = ?, revision = ?, pending_until = ? WHERE number = ?")?
        .execute(params![reward, revision, pending_until(EpisodeState::at(&expects, &records, 0)), number])?;
    Ok(admission)
}
