//! Writes runs, episodes, notes and verdicts.

use crate::artefacts;
use crate::error::Fault;
use crate::integers::signed;
use crate::retention;
use crate::writer::{Content, NewBlob, Store, Write, off_executor};
use async_trait::async_trait;
use clawhost_core::{
    Admission, Digest, Episode, EpisodeId, EpisodeState, EpisodeStore, ExpectedVerdict, Judged, NotAdmitted,
    OpenEpisode, Recorded, RewardRecord, RewardRule, RunId, RunRecord, RunState, StoreError, Usage, admit,
};
use rusqlite::{OptionalExtension as _, Transaction, params};
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

    async fn open_episode(&self, episode: &OpenEpisode) -> Result<(), StoreError> {
        self.write(Write::Open(episode.clone())).await
    }

    async fn judge(&self, judged: Vec<Judged>) -> Result<Vec<Admission>, StoreError> {
        self.add_verdicts(judged).await
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
         reward, turns, format, created_at, live, expects, pending_until, revision, document)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let mut closed = transaction.prepare_cached("DELETE FROM open_episodes WHERE run = ? AND id = ?")?;
    for EpisodeRows { recorded: Recorded { episode, notes, .. }, document, verdicts, blobs } in rows {
        if episode.origin.session().is_some() {
            closed.execute(params![episode.run.0, episode.id.0])?;
        }
        let environment = episode.simulated().map(|simulated| simulated.environment.digest.to_string());
        let expects = (!episode.expects.is_empty()).then(|| serde_json::json!(episode.expects).to_string());
        episodes.execute(params![
            episode.run.0,
            episode.id.0,
            signed(episode.index),
            episode.task.id,
            episode.task.split,
            episode.origin.name(),
            environment.unwrap_or_default(),
            episode.state_id.to_string(),
            episode.ending.label(),
            episode.reward,
            signed(episode.turns.len() as u64),
            episode.format,
            signed(episode.created_at),
            episode.origin.session().is_some(),
            expects,
            pending_until(episode.state(0)),
            episode.revision(),
            document,
        ])?;
        for (digest, size) in blobs {
            transaction
                .prepare_cached("INSERT INTO episode_blobs (run, episode, digest, size) VALUES (?, ?, ?, ?)")?
                .execute(params![episode.run.0, episode.id.0, digest.to_string(), signed(*size)])?;
        }
        for (position, (record, document)) in verdicts.iter().enumerate() {
            write_verdict(transaction, &episode.run, &episode.id, record, position, document)?;
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

/// Records that a live episode has begun.
pub(crate) fn open(transaction: &Transaction<'_>, episode: &OpenEpisode) -> rusqlite::Result<()> {
    let OpenEpisode { run, id, index, session, opened_at } = episode;
    transaction
        .prepare_cached(
            "INSERT INTO open_episodes (run, id, position, session, agent, alias, opened_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            run.0,
            id.0,
            signed(*index),
            session.session,
            session.agent,
            session.alias,
            signed(*opened_at)
        ])?;
    Ok(())
}

/// Until when an episode waits. Taken at time 0 it does not depend on the clock: the state at any time follows from it.
fn pending_until(state: EpisodeState) -> Option<i64> {
    match state {
        EpisodeState::Pending { until } => Some(signed(until)),
        EpisodeState::Open | EpisodeState::Decided => None,
    }
}

/// What decides whether a later verdict counts, as the row of its episode has it.
struct JudgedRow {
    is_live: bool,
    expects: Option<String>,
    ending: String,
}

/// Adds a later verdict to the stored verdicts as they are now: another process may have judged meanwhile.
pub(crate) fn judge(transaction: &Transaction<'_>, judged: &Judged) -> Result<Admission, Fault> {
    let Judged { run, episode, record, at, key } = judged;
    let broken = |error: serde_json::Error| StoreError::Other(format!("verdicts of {run}/{episode}: {error}"));
    let row = transaction
        .prepare_cached("SELECT live, expects, ending FROM episodes WHERE run = ? AND id = ?")?
        .query_row(params![run.0, episode.0], |row| {
            Ok(JudgedRow { is_live: row.get(0)?, expects: row.get(1)?, ending: row.get(2)? })
        })
        .optional()?;
    let Some(JudgedRow { is_live, expects, ending }) = row else {
        return Ok(Admission::Refused(NotAdmitted::NoEpisode));
    };
    if ending.starts_with(FAILED) {
        return Ok(Admission::Refused(NotAdmitted::NotComplete));
    }
    let expects: Vec<ExpectedVerdict> =
        expects.as_deref().map_or(Ok(Vec::new()), serde_json::from_str).map_err(broken)?;
    let mut statement =
        transaction.prepare_cached("SELECT document FROM verdicts WHERE run = ? AND episode = ? ORDER BY position")?;
    let documents: Vec<String> =
        statement.query_map(params![run.0, episode.0], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut records: Vec<RewardRecord> = Vec::with_capacity(documents.len() + 1);
    for document in documents {
        records.push(serde_json::from_str(&document).map_err(broken)?);
    }
    let rule = RewardRule { is_live, expects: &expects };
    let admission = admit(record.clone(), (*at, key.clone()), rule, &mut records);
    let Admission::Added { revision, reward } = admission else { return Ok(admission) };
    if let Some((position, added)) = records.iter().enumerate().next_back() {
        let document = serde_json::to_string(added).map_err(broken)?;
        write_verdict(transaction, run, episode, added, position, &document)?;
    }
    transaction
        .prepare_cached("UPDATE episodes SET reward = ?, revision = ?, pending_until = ? WHERE run = ? AND id = ?")?
        .execute(params![reward, revision, pending_until(EpisodeState::at(&expects, &records, 0)), run.0, episode.0])?;
    Ok(admission)
}

/// What the label of an ending begins with that is none: see [`Ending::label`](clawhost_core::Ending::label).
const FAILED: &str = "failed";

/// Writes a verdict at a position that is free.
fn write_verdict(
    transaction: &Transaction<'_>,
    run: &RunId,
    episode: &EpisodeId,
    record: &RewardRecord,
    position: usize,
    document: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO verdicts (run, episode, position, reward_digest, document) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![run.0, episode.0, signed(position as u64), record.reward.digest.to_string(), document])?;
    Ok(())
}
