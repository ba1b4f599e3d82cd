//! Names and tags of runs, and queries for runs.

use crate::error::{Fault, damaged};
use crate::integers::{Unsigned, signed, unsigned};
use crate::ledger::{EntryKind, Ledger, of_labels};
use crate::reader::{self, Reader, sql_limit};
use crate::records::state_name;
use crate::writer::Store;
use async_trait::async_trait;
use clawhost_core::{
    Digest, EpisodeTally, LabelChange, Listed, PhaseRow, RUN_TAGS, Relabelled, RunFilter, RunId, RunLabelStore,
    RunLabels, RunName, RunReader, RunRow, RunState, RunTag, StoreError,
};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params, params_from_iter};

/// The tables of this module. Labels are deleted with their run.
pub(crate) const TABLES: &str = "
    CREATE TABLE run_names (
        run TEXT PRIMARY KEY NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
        name TEXT UNIQUE NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE run_tags (
        run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
        tag TEXT NOT NULL,
        PRIMARY KEY (run, tag)
    ) WITHOUT ROWID;
";

/// Writes the labels of a new run.
pub(crate) fn label(transaction: &Transaction<'_>, run: &RunId, labels: &RunLabels) -> Result<(), Fault> {
    let RunLabels { name, tags } = labels;
    if let Some(name) = name {
        write_name(transaction, run, name)?;
    }
    for tag in tags {
        add_tag(transaction, run, tag)?;
    }
    Ok(())
}

/// Changes the labels of a run.
pub(crate) fn relabel(
    transaction: &Transaction<'_>,
    run: &RunId,
    change: &LabelChange,
    ledger: &mut Ledger<'_>,
) -> Result<Relabelled, Fault> {
    if !transaction.prepare_cached("SELECT 1 FROM runs WHERE id = ? AND parent IS NULL")?.exists([&run.0])? {
        return Ok(Relabelled::NoRun);
    }
    match change {
        LabelChange::Name(name) => {
            transaction.prepare_cached("DELETE FROM run_names WHERE run = ?")?.execute([&run.0])?;
            if let Some(name) = name {
                write_name(transaction, run, name)?;
            }
        }
        LabelChange::Tags { added, removed } => {
            let mut tags = tags_of(transaction, run)?;
            tags.retain(|tag| !removed.iter().any(|removed| removed.as_str() == tag));
            let new = added.difference(removed).filter(|new| !tags.iter().any(|tag| tag == new.as_str()));
            let new: Vec<&RunTag> = new.collect();
            // Nothing was written before: a change is applied as a whole, or not at all.
            if tags.len() + new.len() > RUN_TAGS {
                return Ok(Relabelled::TooManyTags);
            }
            for tag in removed {
                transaction
                    .prepare_cached("DELETE FROM run_tags WHERE run = ? AND tag = ?")?
                    .execute([&run.0, tag.as_str()])?;
            }
            for tag in new {
                add_tag(transaction, run, tag)?;
            }
        }
    }
    ledger.add(EntryKind::Labels, run, None, &of_labels(transaction, run)?)?;
    let found = read(transaction, run)?;
    let labels = found.decode().map_err(|why| StoreError::Other(format!("the labels of run {run}: {why}")))?;
    Ok(Relabelled::Now(labels))
}

fn write_name(transaction: &Transaction<'_>, run: &RunId, name: &RunName) -> Result<(), Fault> {
    let taken: Option<String> = transaction
        .prepare_cached("SELECT run FROM run_names WHERE name = ?")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(taken) = taken {
        return Err(StoreError::NameTaken { name: name.clone(), run: RunId(taken) }.into());
    }
    transaction
        .prepare_cached("INSERT INTO run_names (run, name) VALUES (?, ?)")?
        .execute([run.0.as_str(), name.as_str()])?;
    Ok(())
}

fn add_tag(transaction: &Transaction<'_>, run: &RunId, tag: &RunTag) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO run_tags (run, tag) VALUES (?, ?)")?
        .execute([run.0.as_str(), tag.as_str()])?;
    Ok(())
}

/// Labels as stored.
struct Stored {
    name: Option<String>,
    tags: Vec<String>,
}

impl Stored {
    fn decode(self) -> Result<RunLabels, clawhost_core::InvalidLabel> {
        Ok(RunLabels {
            name: self.name.map(RunName::try_from).transpose()?,
            tags: self.tags.into_iter().map(RunTag::try_from).collect::<Result<_, _>>()?,
        })
    }
}

fn read(connection: &Connection, run: &RunId) -> rusqlite::Result<Stored> {
    let name = connection
        .prepare_cached("SELECT name FROM run_names WHERE run = ?")?
        .query_row([&run.0], |row| row.get(0))
        .optional()?;
    Ok(Stored { name, tags: tags_of(connection, run)? })
}

fn tags_of(connection: &Connection, run: &RunId) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached("SELECT tag FROM run_tags WHERE run = ? ORDER BY tag")?
        .query_map([&run.0], |row| row.get(0))?
        .collect()
}

#[async_trait]
impl RunLabelStore for Store {
    async fn relabel(&self, run: &RunId, change: LabelChange) -> Result<Relabelled, StoreError> {
        self.change_labels(run.clone(), change).await
    }
}

/// A list of this many placeholders.
fn places(number: usize) -> String {
    vec!["?"; number].join(", ")
}

impl RunReader for Reader {
    fn select_runs(&self, filter: &RunFilter) -> Result<Listed<RunRow>, StoreError> {
        let RunFilter { tags, states, kinds, begun_from, begun_to, limit } = filter;
        let text = |text: &str| Value::Text(text.to_owned());
        let mut condition = "parent IS NULL".to_owned();
        let mut values: Vec<Value> = Vec::new();
        for tag in tags {
            condition.push_str(" AND EXISTS (SELECT 1 FROM run_tags WHERE run = runs.id AND tag = ?)");
            values.push(text(tag.as_str()));
        }
        if !states.is_empty() {
            condition.push_str(&format!(" AND state IN ({})", places(states.len())));
            values.extend(states.iter().map(|state| text(state_name(*state))));
        }
        if !kinds.is_empty() {
            condition.push_str(&format!(" AND kind IN ({})", places(kinds.len())));
            values.extend(kinds.iter().map(|kind| text(kind.name())));
        }
        if let Some(from) = begun_from {
            condition.push_str(" AND created_at >= ?");
            values.push(Value::Integer(signed(*from)));
        }
        if let Some(to) = begun_to {
            condition.push_str(" AND created_at <= ?");
            values.push(Value::Integer(signed(*to)));
        }
        condition.push_str(" ORDER BY number DESC LIMIT ?");
        values.push(Value::Integer(sql_limit(*limit)));
        self.list_runs_where(&condition, params_from_iter(values))
    }

    fn labels(&self, run: &RunId) -> Result<RunLabels, StoreError> {
        let found = self.query(|connection| read(connection, run))?;
        found.decode().map_err(|why| damaged(self.path(), &format!("the labels of run {run}"), &why))
    }

    fn run_named(&self, name: &RunName) -> Result<Option<RunId>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT run FROM run_names WHERE name = ?")?
                .query_row([name.as_str()], |row| Ok(RunId(row.get(0)?)))
                .optional()
        })
    }

    fn runs_beginning(&self, text: &str, limit: u64) -> Result<Vec<RunId>, StoreError> {
        self.query(|connection| {
            // Uses the index of ids: no text sorts after the last character.
            connection
                .prepare_cached(
                    "SELECT id FROM runs WHERE id >= ?1 AND id < ?1 || char(1114111) AND parent IS NULL
                     ORDER BY number DESC LIMIT ?2",
                )?
                .query_map(params![text, sql_limit(Some(limit))], |row| Ok(RunId(row.get(0)?)))?
                .collect()
        })
    }

    fn finished_run(&self, digest: &Digest) -> Result<Option<RunId>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT id FROM runs WHERE digest = ? AND parent IS NULL AND state = ? ORDER BY number DESC LIMIT 1",
                )?
                .query_row([digest.to_string().as_str(), state_name(RunState::Finished)], |row| Ok(RunId(row.get(0)?)))
                .optional()
        })
    }

    fn phases(&self, run: &RunId) -> Result<Vec<PhaseRow>, StoreError> {
        type Columns = (String, String, Unsigned, i64, i64, Option<f64>);
        let rows: Vec<Columns> = self.query_record(&format!("a phase of {run}"), |connection| {
            connection
                .prepare_cached(
                    "SELECT r.id, r.state, r.planned, count(e.number), count(e.reward),
                            avg(CASE typeof(e.reward) WHEN 'real' THEN e.reward END)
                     FROM runs r LEFT JOIN episodes e ON e.run = r.number WHERE r.parent = ? GROUP BY r.number ORDER BY r.number",
                )?
                .query_map([&run.0], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
                })?
                .collect()
        })?;
        rows.into_iter()
            .map(|(id, state, planned, episodes, scored, reward_mean)| {
                Ok(PhaseRow {
                    state: reader::state(self.path(), &format!("run {id}"), &state)?,
                    planned: planned.0,
                    episodes: unsigned(episodes),
                    scored: unsigned(scored),
                    reward_mean,
                    id: RunId(id),
                })
            })
            .collect()
    }

    fn tally(&self, run: &RunId, now: u64) -> Result<EpisodeTally, StoreError> {
        type Columns = (String, bool, i64, i64, i64);
        let rows: Vec<Columns> = self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT ending, failure_kind IS NOT NULL, count(*), count(reward),
                            count(CASE WHEN pending_until > ?2 THEN 1 END)
                     FROM episode_rows WHERE run = ?1 OR parent = ?1 GROUP BY ending",
                )?
                .query_map(params![run.0, signed(now)], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
                })?
                .collect()
        })?;
        let mut tally = EpisodeTally::default();
        for (ending, is_failure, episodes, scored, pending) in rows {
            tally.episodes += unsigned(episodes);
            tally.scored += unsigned(scored);
            tally.pending += unsigned(pending);
            if is_failure {
                tally.failed += unsigned(episodes);
            }
            tally.endings.insert(ending, unsigned(episodes));
        }
        Ok(tally)
    }
}
