//! Writes runs, episodes, notes and verdicts.

use crate::artefacts;
use crate::error::Fault;
use crate::integers::signed;
use crate::retention;
use crate::writer::{Content, NewBlob, Store, Write, off_executor};
use async_trait::async_trait;
use clawhost_core::{
    Digest, Episode, EpisodeId, EpisodeStore, Judged, Recorded, RewardRecord, RunId, RunRecord, RunState, StoreError,
    Usage, effective_reward,
};
use rusqlite::{Transaction, params};
use std::collections::{BTreeMap, BTreeSet};

/// An episode made ready for its rows, so that the writer thread only writes.
pub(crate) struct EpisodeRows {
    recorded: Recorded,
    document: String,
    verdicts: Vec<(RewardRecord, String)>,
    /// Digests of large artefacts, with their sizes.
    blobs: BTreeMap<Digest, u64>,
}

/// The name of a run's state in its row.
pub(crate) fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Open => "open",
        RunState::Stopped => "stopped",
        RunState::Finished => "finished",
    }
}

fn prepare(episodes: Vec<Recorded>) -> Result<(Vec<EpisodeRows>, Vec<NewBlob>), StoreError> {
    let (mut rows, mut new) = (Vec::with_capacity(episodes.len()), Vec::new());
    for recorded in episodes {
        let episode = &recorded.episode;
        let fail = |error: serde_json::Error| StoreError::Other(format!("episode {}: {error}", episode.id));
        let stored = artefacts::write(episode).map_err(fail)?;
        let mut verdicts = Vec::with_capacity(episode.verdicts.len());
        for record in &episode.verdicts {
            verdicts.push((record.clone(), serde_json::to_string(record).map_err(fail)?));
        }
        let mut blobs = BTreeMap::new();
        for (position, digest) in stored.large {
            let content = Content::Artefact(episode.clone(), position);
            blobs.insert(digest, content.bytes().len() as u64);
            new.push(NewBlob { digest, content });
        }
        rows.push(EpisodeRows { document: stored.document, verdicts, blobs, recorded });
    }
    Ok((rows, new))
}

#[async_trait]
impl EpisodeStore for Store {
    async fn begin_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        self.write(Write::Begin(Box::new(run.clone()))).await
    }

    async fn resume_run(&self, run: &RunId) -> Result<(), StoreError> {
        self.write(Write::Resume(run.clone())).await
    }

    async fn append(&self, run: &RunId, episodes: Vec<Recorded>, spent: Usage) -> Result<(), StoreError> {
        // Large artefacts take long to hash.
        let (rows, blobs) = if episodes.iter().any(|recorded| artefacts::has_large(&recorded.episode)) {
            off_executor(move || prepare(episodes)).await?
        } else {
            prepare(episodes)?
        };
        let spent = serde_json::json!(spent).to_string();
        self.write_with(Write::Append { run: run.clone(), rows, spent }, blobs).await
    }

    async fn judge(&self, judged: Vec<Judged>) -> Result<(), StoreError> {
        self.write(Write::Judge(judged)).await
    }

    async fn finish_run(&self, run: &RunId, summary: &serde_json::Value, spent: Usage) -> Result<(), StoreError> {
        let stopped = summary.get("stopped").is_some_and(|why| !why.is_null());
        let state = if stopped { RunState::Stopped } else { RunState::Finished };
        let (summary, spent) = (summary.to_string(), serde_json::json!(spent).to_string());
        self.write(Write::Finish { run: run.clone(), state, summary, spent }).await
    }
}

pub(crate) fn begin(transaction: &Transaction<'_>, run: &RunRecord) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO runs (id, parent, kind, environment, state_id, config, digest, planned, created_at, state)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            run.id.0,
            run.parent.as_ref().map(|parent| &parent.0),
            run.kind.name(),
            run.environment,
            run.state_id.to_string(),
            run.config.0.to_string(),
            run.digest.to_string(),
            signed(run.planned),
            signed(run.created_at),
            state_name(RunState::Open),
        ])?;
    Ok(())
}

pub(crate) fn resume(transaction: &Transaction<'_>, run: &RunId) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE runs SET summary = NULL, state = ? WHERE id = ?")?
        .execute(params![state_name(RunState::Open), run.0])?;
    Ok(())
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
    // The last writer of a key, in the order of the plan; one that deleted it leaves none. The notes of the episodes
    // stay: a run that is resumed merges them again.
    transaction.prepare_cached("DELETE FROM notes WHERE run = ?")?.execute(params![run.0])?;
    transaction
        .prepare_cached(
            "INSERT INTO notes (run, key, value) SELECT run, key, value FROM episode_notes AS last
             WHERE run = ?1 AND value IS NOT NULL AND position =
             (SELECT max(position) FROM episode_notes WHERE run = ?1 AND key = last.key)",
        )?
        .execute(params![run.0])?;
    Ok(())
}

pub(crate) fn append(
    transaction: &Transaction<'_>,
    run: &RunId,
    rows: &[EpisodeRows],
    spent: &str,
    released: &mut BTreeSet<Digest>,
) -> Result<(), Fault> {
    transaction.prepare_cached("UPDATE runs SET spent = ? WHERE id = ?")?.execute(params![spent, run.0])?;
    for row in rows.iter().filter(|row| row.recorded.replaces_existing) {
        forget(transaction, &row.recorded.episode, released)?;
    }
    let mut episodes = transaction.prepare_cached(
        "INSERT INTO episodes (run, id, position, task, split, environment, environment_digest, state_id, ending,
         reward, turns, format, created_at, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for EpisodeRows { recorded: Recorded { episode, notes, .. }, document, verdicts, blobs } in rows {
        episodes.execute(params![
            episode.run.0,
            episode.id.0,
            signed(episode.index),
            episode.task.id,
            episode.task.split,
            episode.environment.name,
            episode.environment.digest.to_string(),
            episode.state_id.to_string(),
            episode.ending.label(),
            episode.reward,
            signed(episode.turns.len() as u64),
            episode.format,
            signed(episode.created_at),
            document,
        ])?;
        for (digest, size) in blobs {
            transaction
                .prepare_cached("INSERT INTO episode_blobs (run, episode, digest, size) VALUES (?, ?, ?, ?)")?
                .execute(params![episode.run.0, episode.id.0, digest.to_string(), signed(*size)])?;
        }
        for (position, (record, document)) in verdicts.iter().enumerate() {
            write_verdict(transaction, &episode.run, &episode.id, record, Some(position), document)?;
        }
        for (key, value) in notes {
            transaction
                .prepare_cached("INSERT INTO episode_notes (run, position, key, value) VALUES (?, ?, ?, ?)")?
                .execute(params![episode.run.0, signed(episode.index), key, value])?;
        }
    }
    Ok(())
}

/// Removes the episode that is replaced.
fn forget(transaction: &Transaction<'_>, episode: &Episode, released: &mut BTreeSet<Digest>) -> Result<(), Fault> {
    let id = params![episode.run.0, episode.id.0];
    let mut blobs = transaction.prepare_cached("SELECT digest FROM episode_blobs WHERE run = ? AND episode = ?")?;
    released.extend(retention::digests(blobs.query(id)?)?);
    transaction.prepare_cached("DELETE FROM episode_blobs WHERE run = ? AND episode = ?")?.execute(id)?;
    transaction.prepare_cached("DELETE FROM verdicts WHERE run = ? AND episode = ?")?.execute(id)?;
    transaction.prepare_cached("DELETE FROM episodes WHERE run = ? AND id = ?")?.execute(id)?;
    transaction
        .prepare_cached("DELETE FROM episode_notes WHERE run = ? AND position = ?")?
        .execute(params![episode.run.0, signed(episode.index)])?;
    Ok(())
}

/// Admits a later verdict against the stored verdicts as they are now: another process may have judged meanwhile.
pub(crate) fn judge(transaction: &Transaction<'_>, judged: &Judged) -> Result<(), Fault> {
    let Judged { run, episode, record } = judged;
    let broken = |error: serde_json::Error| StoreError::Other(format!("verdicts of {run}/{episode}: {error}"));
    let known = transaction
        .prepare_cached("SELECT 1 FROM episodes WHERE run = ? AND id = ?")?
        .exists(params![run.0, episode.0])?;
    if !known {
        return Ok(());
    }
    let mut statement =
        transaction.prepare_cached("SELECT document FROM verdicts WHERE run = ? AND episode = ? ORDER BY position")?;
    let documents: Vec<String> =
        statement.query_map(params![run.0, episode.0], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut records: Vec<RewardRecord> = Vec::with_capacity(documents.len());
    for document in documents {
        records.push(serde_json::from_str(&document).map_err(broken)?);
    }
    let question = record.question();
    if !record.clone().admit(&mut records) {
        return Ok(());
    }
    if let Some(admitted) = records.iter().find(|known| known.question() == question) {
        let document = serde_json::to_string(admitted).map_err(broken)?;
        write_verdict(transaction, run, episode, admitted, None, &document)?;
    }
    transaction.prepare_cached("UPDATE episodes SET reward = ? WHERE run = ? AND id = ?")?.execute(params![
        effective_reward(&records),
        run.0,
        episode.0
    ])?;
    Ok(())
}

/// Writes a verdict at a position; without one, where a verdict of the same key stands, else behind all others.
fn write_verdict(
    transaction: &Transaction<'_>,
    run: &RunId,
    episode: &EpisodeId,
    record: &RewardRecord,
    position: Option<usize>,
    document: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO verdicts (run, episode, reward_digest, options_digest, judge, group_digest, position, document)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, (SELECT coalesce(max(position) + 1, 0) FROM verdicts
             WHERE run = ?1 AND episode = ?2)), ?8)
             ON CONFLICT DO UPDATE SET document = excluded.document",
        )?
        .execute(params![
            run.0,
            episode.0,
            record.reward.digest.to_string(),
            record.options_digest.to_string(),
            record.judge.as_deref().unwrap_or(""),
            record.group_digest.map(|digest| digest.to_string()).unwrap_or_default(),
            position.map(|position| signed(position as u64)),
            document,
        ])?;
    Ok(())
}
