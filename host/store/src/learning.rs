//! Checkpoints, iterations and phases of learning runs.

use crate::documents::{self, Form, Kind};
use crate::error::{Fault, damaged};
use crate::integers::{signed, unsigned};
use crate::ledger::{EntryKind, Ledger, of_checkpoint};
use crate::playbooks::{add_version, write_ledger};
use crate::reader::Reader;
use crate::records::state_name;
use crate::writer::{Content, NewBlob, Store, Write, off_executor};
use async_trait::async_trait;
use clawhost_core::{
    Checkpoint, Digest, Episode, EpisodeFilter, EpisodeReader as _, LargeState, LearningStore, PhaseState,
    PlaybookLedger, PlaybookReader as _, PlaybookVersion, RunId, RunRow, RunState, StoreError, recorded_root,
};
use rusqlite::{OptionalExtension as _, Transaction, params};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A checkpoint prepared for its rows: large state is replaced by digests and sizes.
pub(crate) struct CheckpointRows {
    checkpoint: Checkpoint,
    state: Form,
    /// `None`: the iteration has none.
    report: Option<Form>,
    /// By name. `None`: unchanged.
    large: BTreeMap<String, Option<(Digest, u64)>>,
}

fn prepare(mut checkpoint: Checkpoint) -> Result<(CheckpointRows, Vec<NewBlob>), StoreError> {
    let (mut large, mut blobs) = (BTreeMap::new(), Vec::new());
    for (name, state) in std::mem::take(&mut checkpoint.large) {
        let reference = match state {
            LargeState::Unchanged => None,
            LargeState::Written(bytes) => {
                let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
                blobs.push(NewBlob { digest, content: Content::State(bytes) });
                Some((digest, size))
            }
        };
        large.insert(name, reference);
    }
    let form = |kind, what: &str, value: &serde_json::Value| {
        documents::encode_alone(kind, &value.to_string())
            .map_err(|error| StoreError::Other(format!("the {what} of {}: {error}", checkpoint.run)))
    };
    let state = form(Kind::State, "checkpoint", &checkpoint.state)?;
    let report = match checkpoint.report.is_null() {
        true => None,
        false => Some(form(Kind::Report, "report", &checkpoint.report)?),
    };
    Ok((CheckpointRows { checkpoint, state, report, large }, blobs))
}

/// Writes the end of an iteration. Adds blobs that lost a reference to `released`.
pub(crate) fn checkpoint(
    transaction: &Transaction<'_>,
    rows: &CheckpointRows,
    released: &mut BTreeSet<Digest>,
    entries: &mut Ledger<'_>,
) -> Result<(), Fault> {
    let Checkpoint { run, iteration, versions, ledger, spent, state, report, .. } = &rows.checkpoint;
    let spent = serde_json::json!(spent).to_string();
    transaction.prepare_cached("UPDATE runs SET spent = ? WHERE id = ?")?.execute(params![spent, run.0])?;
    transaction
        .prepare_cached("INSERT OR REPLACE INTO checkpoints (run, iteration, state) VALUES (?, ?, ?)")?
        .execute(params![run.0, signed(*iteration), rows.state])?;
    write_large(transaction, run, &rows.large, released)?;
    let digest = of_checkpoint(transaction, run, *iteration, &state.to_string())?;
    entries.add(EntryKind::Checkpoint, run, None, &digest)?;
    if let Some(form) = &rows.report {
        let digest = Digest::of(report.to_string().as_bytes());
        entries.add(EntryKind::Report, run, Some(&iteration.to_string()), &digest)?;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO iterations (run, number, report) VALUES (?, ?, ?)")?
            .execute(params![run.0, signed(*iteration), form])?;
    }
    versions.iter().try_for_each(|new| add_version(transaction, new))?;
    ledger.iter().try_for_each(|new| write_ledger(transaction, new))?;
    Ok(())
}

fn write_large(
    transaction: &Transaction<'_>,
    run: &RunId,
    large: &BTreeMap<String, Option<(Digest, u64)>>,
    released: &mut BTreeSet<Digest>,
) -> Result<(), Fault> {
    let before: BTreeMap<String, String> = transaction
        .prepare_cached("SELECT name, digest FROM large_states WHERE run = ?")?
        .query_map([&run.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, reference) in large {
        let Some((digest, size)) = reference else {
            if !before.contains_key(name) {
                return Err(StoreError::Other(format!(
                    "the checkpoint of {run} leaves its state {name} unchanged, but no checkpoint holds one"
                ))
                .into());
            }
            continue;
        };
        transaction
            .prepare_cached("INSERT OR REPLACE INTO large_states (run, name, digest, size) VALUES (?, ?, ?, ?)")?
            .execute(params![run.0, name, digest.to_string(), signed(*size)])?;
    }
    for (name, digest) in before {
        if !large.contains_key(&name) {
            transaction
                .prepare_cached("DELETE FROM large_states WHERE run = ? AND name = ?")?
                .execute([&run.0, &name])?;
        }
        if large.get(&name).is_none_or(Option::is_some) {
            released.extend(digest.parse::<Digest>().ok());
        }
    }
    Ok(())
}

impl Reader {
    /// The value of a document of a kind without dictionaries. `what` names the record.
    pub(crate) fn json(&self, kind: Kind, form: &Form, what: &str) -> Result<serde_json::Value, StoreError> {
        let text = documents::decode_alone(kind, form).map_err(|why| damaged(self.path(), what, &why))?;
        serde_json::from_str(&text).map_err(|why| damaged(self.path(), what, &why))
    }

    fn last_checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError> {
        let row: Option<(i64, Form)> = self.query(|connection| {
            connection
                .prepare_cached("SELECT iteration, state FROM checkpoints WHERE run = ?")?
                .query_row([&run.0], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })?;
        row.map(|(iteration, form)| {
            let what = format!("the checkpoint of {run}");
            let state = self.json(Kind::State, &form, &what)?;
            Ok((unsigned(iteration), state))
        })
        .transpose()
    }

    fn large_state(&self, run: &RunId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let what = format!("the state {name} of {run}");
        let row = || -> Result<Option<(String, i64)>, StoreError> {
            self.query(|connection| {
                connection
                    .prepare_cached("SELECT digest, size FROM large_states WHERE run = ? AND name = ?")?
                    .query_row([&run.0, name], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()
            })
        };
        self.with_blobs(row, |(digest, size)| {
            let digest = digest.parse().map_err(|error| damaged(self.path(), &what, &error))?;
            self.blobs().get(&what, &digest, unsigned(*size))
        })
    }

    fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError> {
        let rows: Vec<Form> = self.query(|connection| {
            connection
                .prepare_cached("SELECT report FROM iterations WHERE run = ? ORDER BY number")?
                .query_map([&run.0], |row| row.get(0))?
                .collect()
        })?;
        let what = format!("an iteration of {run}");
        rows.iter().map(|form| self.json(Kind::Report, form, &what)).collect()
    }
}

#[async_trait]
impl LearningStore for Store {
    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let checkpoint = self.checked("a checkpoint").checkpoint(checkpoint)?;
        let (rows, blobs) = off_executor(move || prepare(checkpoint)).await?;
        self.write_with(Write::Checkpoint(Box::new(rows)), blobs).await
    }

    async fn last_checkpoint(&self, run: &RunId) -> Result<Option<(u64, serde_json::Value)>, StoreError> {
        let run = run.clone();
        self.read(move |reader| reader.last_checkpoint(&run)).await
    }

    async fn large_state(&self, run: &RunId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (run, name) = (run.clone(), name.to_owned());
        self.read(move |reader| reader.large_state(&run, &name)).await
    }

    async fn iterations(&self, run: &RunId) -> Result<Vec<serde_json::Value>, StoreError> {
        let run = run.clone();
        self.read(move |reader| reader.iterations(&run)).await
    }

    async fn phase(&self, phase: &RunId) -> Result<PhaseState, StoreError> {
        let phase = phase.clone();
        let state = self.read(move |reader| reader.state(&phase)).await?;
        Ok(match state {
            None => PhaseState::Absent,
            Some(RunState::Finished) => PhaseState::Finished,
            Some(RunState::Open | RunState::Stopped) => PhaseState::Open,
        })
    }

    async fn episodes(&self, phase: &RunId) -> Result<Vec<Arc<Episode>>, StoreError> {
        let filter = EpisodeFilter::of(phase);
        self.read(move |reader| {
            let mut episodes = Vec::new();
            for row in reader.episodes(&filter)? {
                episodes.extend(reader.episode_of(&row.run, &row.id)?.map(Arc::new));
            }
            Ok(episodes)
        })
        .await
    }

    async fn content_roots(&self, run: &RunId) -> Result<BTreeMap<String, Digest>, StoreError> {
        let run = run.clone();
        self.read(move |reader| {
            let phases = reader.runs_where("parent = ? AND state = ?", [&run.0, state_name(RunState::Finished)])?;
            let root = |row: RunRow| Some((row.id.phase_of(&run)?.to_owned(), recorded_root(row.summary.as_ref()?)?));
            Ok(phases.into_iter().filter_map(root).collect())
        })
        .await
    }

    async fn playbook(&self, name: &str) -> Result<Option<PlaybookVersion>, StoreError> {
        let name = name.to_owned();
        self.read(move |reader| reader.newest_version(&name)).await
    }

    async fn ledger(&self, name: &str) -> Result<Option<PlaybookLedger>, StoreError> {
        let name = name.to_owned();
        self.read(move |reader| reader.ledger(&name)).await
    }

    async fn add_version(&self, version: PlaybookVersion, ledger: Option<PlaybookLedger>) -> Result<(), StoreError> {
        let door = self.checked("a playbook");
        let (version, ledger) = (door.version(version)?, door.ledger(ledger)?);
        self.write(Write::Version(Box::new(version), ledger)).await
    }
}
