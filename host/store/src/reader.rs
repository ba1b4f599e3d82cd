//! Reads runs and episodes: lists and complete records.

use crate::artefacts::{self, Unreadable};
use crate::blobs::Blobs;
use crate::columns;
use crate::dictionaries::Loaded;
use crate::documents::{self, Around, Form, Kind};
use crate::episode_filter::{self, Selected};
use crate::episode_rows;
use crate::error::{self, damaged, explain, explain_row, wrong_type};
use crate::integers::{Unsigned, signed, unsigned};
use crate::keys::EpisodeKey;
use crate::records::state_name;
use crate::schema;
use clawhost_core::{
    DamagedRecord, Digest, Discrepancy, EPISODE_FORMAT, Episode, EpisodeFilter, EpisodeId, EpisodeOrder, EpisodeReader,
    EpisodeRow, Listed, RewardRecord, RunId, RunKind, RunRow, RunState, SpecDocument, StoreError, Usage,
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params, params_from_iter};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A read-only connection to a database.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Connection,
    blobs: Blobs,
    dictionaries: Loaded,
}

const EPISODE_COLUMNS: &str =
    "run, id, environment, task, ending, reward, turns, created_at, live, pending_until, revision";

fn episode_row(row: &Row<'_>) -> rusqlite::Result<EpisodeRow> {
    Ok(EpisodeRow {
        run: row.get(0)?,
        id: row.get(1)?,
        environment: row.get(2)?,
        task: row.get(3)?,
        ending: row.get(4)?,
        reward: row.get(5)?,
        turns: row.get::<_, Unsigned>(6)?.0,
        created_at: row.get::<_, Unsigned>(7)?.0,
        live: row.get(8)?,
        pending_until: row.get::<_, Option<Unsigned>>(9)?.map(|until| until.0),
        revision: row.get(10)?,
    })
}

/// A row, or the record that it cannot give.
type Readable<T> = Result<T, DamagedRecord>;

/// A row that has a value of the wrong type does not hide the others.
fn lenient<T>(read: rusqlite::Result<T>, record: impl FnOnce() -> String) -> rusqlite::Result<Readable<T>> {
    match read {
        Ok(row) => Ok(Ok(row)),
        Err(error) => match wrong_type(&error) {
            Some(why) => Ok(Err(DamagedRecord { record: record(), why })),
            None => Err(error),
        },
    }
}

/// A name in a row, if it is one.
fn named(row: &Row<'_>, column: &str) -> Option<String> {
    row.get(column).ok()
}

/// What a row is called that has no readable name.
fn numbered(row: &Row<'_>) -> String {
    format!("(row {})", row.get::<_, i64>("number").unwrap_or_default())
}

/// A run with all its phases. The cost is the largest recorded one: every record of a learning run and its phases
/// counts from the beginning of the run.
const RUN_COLUMNS: &str = "id, kind, environment, state_id, config, digest, created_at, state, summary, basis, planned, pruned,
    (SELECT part.spent FROM runs AS part WHERE (part.id = runs.id OR part.parent = runs.id) AND part.spent IS NOT NULL
     ORDER BY json_extract(part.spent, '$.prompt_tokens') + json_extract(part.spent, '$.completion_tokens') DESC LIMIT 1)
    AS spent,
    (SELECT avg(CASE typeof(reward) WHEN 'real' THEN reward END) FROM episodes
     WHERE run IN (SELECT number FROM runs AS part WHERE part.id = runs.id OR part.parent = runs.id)) AS reward_mean,
    (SELECT count(reward) FROM episodes
     WHERE run IN (SELECT number FROM runs AS part WHERE part.id = runs.id OR part.parent = runs.id)) AS scored";

/// A row of a run before its documents are decoded.
struct RunColumns {
    id: String,
    kind: String,
    environment: String,
    state_id: String,
    config: String,
    digest: String,
    basis: String,
    created_at: Unsigned,
    state: String,
    summary: Option<String>,
    planned: Unsigned,
    spent: Option<String>,
    reward_mean: Option<f64>,
    scored: i64,
    pruned: bool,
}

impl RunColumns {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            kind: row.get("kind")?,
            environment: row.get("environment")?,
            state_id: row.get("state_id")?,
            config: row.get("config")?,
            digest: row.get("digest")?,
            basis: row.get("basis")?,
            created_at: row.get("created_at")?,
            state: row.get("state")?,
            summary: row.get("summary")?,
            planned: row.get("planned")?,
            spent: row.get("spent")?,
            reward_mean: row.get("reward_mean")?,
            scored: row.get("scored")?,
            pruned: row.get("pruned")?,
        })
    }

    fn decode(self, path: &Path) -> Result<RunRow, StoreError> {
        let what = format!("run {}", self.id);
        let json = |error: serde_json::Error| damaged(path, &what, &error);
        Ok(RunRow {
            kind: kind(path, &what, &self.kind)?,
            environment: self.environment,
            state_id: self.state_id,
            config: SpecDocument(serde_json::from_str(&self.config).map_err(json)?),
            digest: self.digest.parse().map_err(|error| damaged(path, &what, &error))?,
            basis: serde_json::from_str(&self.basis).map_err(json)?,
            created_at: self.created_at.0,
            state: state(path, &what, &self.state)?,
            summary: self.summary.as_deref().map(serde_json::from_str).transpose().map_err(json)?,
            planned: self.planned.0,
            spent: self.spent.as_deref().map_or(Ok(Usage::default()), serde_json::from_str).map_err(json)?,
            reward_mean: self.reward_mean,
            scored: unsigned(self.scored),
            pruned: self.pruned,
            id: RunId(self.id),
        })
    }
}

/// The kind of a run by its name in a row.
pub(crate) fn kind(path: &Path, what: &str, name: &str) -> Result<RunKind, StoreError> {
    let found = RunKind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| damaged(path, what, &format!("`{name}` is not a kind of run")))
}

/// The state of a run by its name in a row.
pub(crate) fn state(path: &Path, what: &str, name: &str) -> Result<RunState, StoreError> {
    let all = [RunState::Finished, RunState::Stopped, RunState::Open];
    let found = all.into_iter().find(|state| state_name(*state) == name);
    found.ok_or_else(|| damaged(path, what, &format!("`{name}` is not a state of a run")))
}

/// The columns of an episode.
#[derive(PartialEq)]
struct EpisodeColumns {
    number: i64,
    run: String,
    document: Form,
    dictionary: Option<i64>,
    around: Around,
    reward: Option<f64>,
}

impl EpisodeColumns {
    const SQL: &str = "SELECT e.number, r.id, e.document, e.dictionary, e.reward, s.format, e.position, e.created_at
        FROM runs r CROSS JOIN episodes e ON e.run = r.number LEFT JOIN settings s ON s.number = e.setting";

    fn read(row: &Row<'_>, id: &str) -> rusqlite::Result<Self> {
        let run: String = row.get(1)?;
        let (format, index, created_at) = (row.get(5)?, row.get::<_, Unsigned>(6)?.0, row.get::<_, Unsigned>(7)?.0);
        Ok(Self {
            number: row.get(0)?,
            document: row.get(2)?,
            dictionary: row.get(3)?,
            reward: row.get(4)?,
            around: episode_rows::around(format, id, &run, index, created_at),
            run,
        })
    }
}

impl Reader {
    /// Opens the database of a data folder.
    ///
    /// # Errors
    /// The database does not exist, or cannot be read.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(crate::FILE);
        let connection = schema::open_for_reading(&path)?;
        Ok(Self { path, connection, blobs: Blobs::new(folder), dictionaries: Loaded::default() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    pub(crate) fn query<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        read(&self.connection).map_err(|error| explain(&self.path, &error))
    }

    /// Reads a row, then the blobs that it refers to. If another process replaces both meanwhile, it reads again.
    pub(crate) fn with_blobs<R: PartialEq, T>(
        &self,
        row: impl Fn() -> Result<Option<R>, StoreError>,
        fetch: impl Fn(&R) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let mut found = row()?;
        while let Some(columns) = found {
            match fetch(&columns) {
                Err(missing @ StoreError::BlobMissing { .. }) => {
                    found = row()?;
                    if found.as_ref() == Some(&columns) {
                        return Err(missing);
                    }
                }
                other => return other.map(Some),
            }
        }
        Ok(None)
    }

    /// Runs that match a condition, newest first.
    pub(crate) fn runs_where(&self, condition: &str, values: impl Params) -> Result<Vec<RunRow>, StoreError> {
        let Listed { rows, damaged } = self.list_runs_where(condition, values)?;
        match damaged.into_iter().next() {
            Some(DamagedRecord { record, why }) => Err(error::damaged(&self.path, &format!("run {record}"), &why)),
            None => Ok(rows),
        }
    }

    /// The same, with the runs that cannot be read.
    pub(crate) fn list_runs_where(&self, condition: &str, values: impl Params) -> Result<Listed<RunRow>, StoreError> {
        let read: Vec<Readable<RunColumns>> = self.query(|connection| {
            connection
                .prepare_cached(&format!("SELECT {RUN_COLUMNS}, number FROM runs WHERE {condition}"))?
                .query_map(values, |row| {
                    lenient(RunColumns::read(row), || named(row, "id").unwrap_or_else(|| numbered(row)))
                })?
                .collect()
        })?;
        let mut listed = Listed { rows: Vec::new(), damaged: Vec::new() };
        for one in read {
            match one.map(|columns| (columns.id.clone(), columns.decode(&self.path))) {
                Ok((_, Ok(row))) => listed.rows.push(row),
                Ok((record, Err(StoreError::Damaged { why, .. }))) => {
                    listed.damaged.push(DamagedRecord { record, why })
                }
                Ok((_, Err(error))) => return Err(error),
                Err(damaged) => listed.damaged.push(damaged),
            }
        }
        Ok(listed)
    }

    /// A query about one record: a value of the wrong type is damage of it.
    pub(crate) fn query_record<T>(
        &self,
        what: &str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        read(&self.connection).map_err(|error| explain_row(&self.path, what, &error))
    }

    /// The state of a run or a phase. `None`: the id is unknown.
    pub(crate) fn state(&self, id: &RunId) -> Result<Option<RunState>, StoreError> {
        let name: Option<String> = self.query(|connection| {
            connection
                .prepare_cached("SELECT state FROM runs WHERE id = ?")?
                .query_row([&id.0], |row| row.get(0))
                .optional()
        })?;
        name.map(|name| state(&self.path, &format!("run {id}"), &name)).transpose()
    }

    /// One episode by its run and its id.
    pub(crate) fn episode_of(&self, run: &str, id: &str) -> Result<Option<Episode>, StoreError> {
        let name = format!("{run}/{id}");
        self.read_episode("WHERE r.id = ?2 AND e.id = ?1", params![EpisodeKey::of(id), run], (id, &name))
    }

    fn read_episode(
        &self,
        condition: &str,
        values: impl Params + Copy,
        (id, name): (&str, &str),
    ) -> Result<Option<Episode>, StoreError> {
        let row = || {
            self.query_record(&format!("episode {name}"), |connection| {
                connection
                    .prepare_cached(&format!("{} {condition}", EpisodeColumns::SQL))?
                    .query_row(values, |row| EpisodeColumns::read(row, id))
                    .optional()
            })
        };
        self.with_blobs(row, |columns| self.assemble(columns, id))
    }

    /// The text of a stored document.
    fn document(
        &self,
        kind: Kind,
        (form, dictionary): (&Form, Option<i64>),
        around: &Around,
        what: &str,
    ) -> Result<String, StoreError> {
        let dictionary = self.query(|connection| self.dictionaries.get(connection, dictionary))?;
        dictionary
            .and_then(|dictionary| documents::decode(kind, form, around, dictionary.as_deref()))
            .map_err(|why| damaged(&self.path, what, &why))
    }

    fn assemble(&self, columns: &EpisodeColumns, id: &str) -> Result<Episode, StoreError> {
        let EpisodeColumns { number, run, document, dictionary, around, reward } = columns;
        let what = format!("episode {run}/{id}");
        let sizes = self.blob_sizes(*number, &what)?;
        let document = self.document(Kind::Episode, (document, *dictionary), around, &what)?;
        let mut episode = artefacts::read(&document, &what, &sizes, &self.blobs).map_err(|why| match why {
            Unreadable::Document(error) => damaged(&self.path, &what, &error),
            Unreadable::Blob(error) => error,
        })?;
        if episode.format > EPISODE_FORMAT {
            let (path, found, known) = (self.path.display().to_string(), episode.format, EPISODE_FORMAT);
            return Err(StoreError::Newer { path, found, known });
        }
        for text in self.verdict_texts(*number, &what)? {
            let record: RewardRecord =
                serde_json::from_str(&text).map_err(|error| damaged(&self.path, &what, &error))?;
            episode.verdicts.push(record);
        }
        // A later verdict may have changed it.
        episode.reward = *reward;
        Ok(episode)
    }

    /// The texts of an episode's verdicts, in order.
    fn verdict_texts(&self, number: i64, what: &str) -> Result<Vec<String>, StoreError> {
        let verdicts: Vec<(Form, Option<i64>)> = self.query_record(what, |connection| {
            connection
                .prepare_cached(
                    "SELECT document, dictionary FROM verdicts WHERE number BETWEEN ? AND ? ORDER BY number",
                )?
                .query_map(episode_rows::verdict_numbers(number), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })?;
        let text = |(form, dictionary): (Form, Option<i64>)| {
            self.document(Kind::Verdict, (&form, dictionary), &Around::default(), what)
        };
        verdicts.into_iter().map(text).collect()
    }

    /// The text of an episode's document, and the texts of its verdicts, as they were before compression.
    pub(crate) fn texts_of(&self, run: &RunId, id: &EpisodeId) -> Result<Option<(String, Vec<String>)>, StoreError> {
        let what = format!("episode {run}/{id}");
        let columns = self.query_record(&what, |connection| {
            connection
                .prepare_cached(&format!("{} WHERE r.id = ?2 AND e.id = ?1", EpisodeColumns::SQL))?
                .query_row(params![EpisodeKey::of(&id.0), run.0], |row| EpisodeColumns::read(row, &id.0))
                .optional()
        })?;
        let Some(EpisodeColumns { number, document, dictionary, around, .. }) = columns else { return Ok(None) };
        let document = self.document(Kind::Episode, (&document, dictionary), &around, &what)?;
        Ok(Some((document, self.verdict_texts(number, &what)?)))
    }

    /// The blobs that an episode refers to, with their sizes.
    fn blob_sizes(&self, number: i64, what: &str) -> Result<BTreeMap<Digest, u64>, StoreError> {
        let rows: Vec<(String, Unsigned)> = self.query_record(what, |connection| {
            connection
                .prepare_cached("SELECT digest, size FROM episode_blobs WHERE episode = ?")?
                .query_map([number], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })?;
        rows.into_iter()
            .map(|(digest, size)| {
                let digest = digest.parse().map_err(|error| damaged(&self.path, what, &error));
                Ok((digest?, size.0))
            })
            .collect()
    }
}

impl EpisodeReader for Reader {
    fn runs(&self, limit: Option<u64>) -> Result<Vec<RunRow>, StoreError> {
        self.runs_where("parent IS NULL ORDER BY number DESC LIMIT ?", [sql_limit(limit)])
    }

    fn run(&self, id: &RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self.runs_where("id = ?", [&id.0])?.into_iter().next())
    }

    fn resumable(&self, digest: &Digest) -> Result<Vec<RunRow>, StoreError> {
        let condition = "digest = ? AND parent IS NULL AND state != ? AND pruned = 0 ORDER BY number DESC";
        self.runs_where(condition, params![digest.to_string(), state_name(RunState::Finished)])
    }

    fn episodes(&self, filter: &EpisodeFilter) -> Result<Vec<EpisodeRow>, StoreError> {
        let Listed { rows, damaged } = self.list_episodes(filter)?;
        match damaged.into_iter().next() {
            Some(DamagedRecord { record, why }) => Err(error::damaged(&self.path, &format!("episode {record}"), &why)),
            None => Ok(rows),
        }
    }

    fn list_episodes(&self, filter: &EpisodeFilter) -> Result<Listed<EpisodeRow>, StoreError> {
        let Selected { condition, values } = episode_filter::select(filter);
        // Within one run in its order, within a learning run phase by phase. Of several runs the newest first.
        let runs = if filter.run.is_some() { "run_number" } else { "run_number DESC" };
        let order = match filter.order {
            EpisodeOrder::OfRuns => format!("{runs}, position"),
            EpisodeOrder::LiveNewestFirst => {
                format!("{runs}, iif(live, -created_at, 0), iif(live, -position, position)")
            }
            EpisodeOrder::NewestFirst => "created_at DESC, number DESC".to_owned(),
        };
        let read: Vec<Readable<EpisodeRow>> = self.query(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {EPISODE_COLUMNS}, number FROM episode_rows WHERE {condition} ORDER BY {order} LIMIT ? OFFSET ?"
                ))?
                .query_map(params_from_iter(values), |row| {
                    lenient(episode_row(row), || {
                        let run = named(row, "run").unwrap_or_default();
                        format!("{run}/{}", named(row, "id").unwrap_or_else(|| numbered(row)))
                    })
                })?
                .collect()
        })?;
        let mut listed = Listed { rows: Vec::new(), damaged: Vec::new() };
        for one in read {
            match one {
                Ok(row) => listed.rows.push(row),
                Err(damaged) => listed.damaged.push(damaged),
            }
        }
        Ok(listed)
    }

    fn count_episodes(&self, filter: &EpisodeFilter) -> Result<u64, StoreError> {
        let Selected { condition, values } =
            episode_filter::select(&EpisodeFilter { limit: None, skip: 0, ..filter.clone() });
        let counted: i64 = self.query(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT count(*) FROM (SELECT 1 FROM episode_rows WHERE {condition} LIMIT ? OFFSET ?)"
                ))?
                .query_row(params_from_iter(values), |row| row.get(0))
        })?;
        Ok(unsigned(counted))
    }

    fn columns_unlike(&self, episode: &Episode) -> Result<Vec<Discrepancy>, StoreError> {
        columns::unlike(self, episode)
    }

    fn episode(&self, name: &str) -> Result<Option<Episode>, StoreError> {
        match name.split_once('/') {
            Some((run, id)) => self.episode_of(run, id),
            // Run by run, each by its index: the newest run that has the episode.
            None => self.read_episode(
                "WHERE e.id = ?1 ORDER BY r.number DESC LIMIT 1",
                params![EpisodeKey::of(name)],
                (name, name),
            ),
        }
    }

    fn runs_of_episode(&self, id: &str) -> Result<Vec<RunId>, StoreError> {
        self.query(|connection| {
            // Run by run, each by its index.
            connection
                .prepare_cached(
                    "SELECT r.id FROM runs r CROSS JOIN episodes e ON e.run = r.number AND e.id = ?1 ORDER BY r.number DESC",
                )?
                .query_map([EpisodeKey::of(id)], |row| Ok(RunId(row.get(0)?)))?
                .collect()
        })
    }

    fn notes(&self, run: &RunId) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT key, value FROM notes WHERE run = ? ORDER BY key")?
                .query_map([&run.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    fn check(&self) -> Result<Option<String>, StoreError> {
        let found: String =
            self.query(|connection| connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)))?;
        Ok((found != "ok").then_some(found))
    }
}

pub(crate) fn sql_limit(limit: Option<u64>) -> i64 {
    // A negative limit means none.
    limit.map_or(-1, signed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn missing() -> StoreError {
        StoreError::BlobMissing { what: "x".into(), digest: Digest::of(b"x"), folder: "y".into() }
    }

    #[test]
    fn a_row_whose_blob_disappeared_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        drop(schema::open(&folder.path().join(crate::FILE)).unwrap());
        let reader = Reader::open(folder.path()).unwrap();
        let read = |rows: &[Option<u32>], present: u32| {
            let rows = RefCell::new(rows.iter().copied());
            let row = || Ok(rows.borrow_mut().next().flatten());
            reader.with_blobs(row, |found| if *found == present { Ok(*found) } else { Err(missing()) })
        };
        assert_eq!(read(&[Some(1), Some(2)], 2), Ok(Some(2)));
        assert_eq!(read(&[Some(1), Some(2), Some(3)], 3), Ok(Some(3)));
        assert_eq!(read(&[Some(1), None], 2), Ok(None), "the record was removed");
        assert_eq!(read(&[Some(1), Some(1)], 2), Err(missing()));
    }
}
