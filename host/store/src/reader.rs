//! Reading: lists, whole episodes, exports.

use crate::error::{document, explain};
use crate::schema;
use clawhost_core::{Digest, EPISODE_FORMAT, Episode, RewardRecord, StoreError, Usage};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// An episode as its row keeps it: without its verdicts, which have rows of their own.
pub(crate) struct Stored<'a>(pub(crate) &'a Episode);

impl Serialize for Stored<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.verdicts.is_empty() {
            return self.0.serialize(serializer);
        }
        Episode { verdicts: Vec::new(), ..self.0.clone() }.serialize(serializer)
    }
}

/// Which episodes.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this run; none: of all.
    pub run: Option<String>,
    /// At most so many, newest run first; none: all.
    pub limit: Option<u64>,
}

/// A line of a list of episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeRow {
    /// The run.
    pub run: String,
    /// The episode.
    pub id: String,
    /// The environment's name.
    pub environment: String,
    /// The task.
    pub task: String,
    /// How it ended.
    pub ending: String,
    /// None: not scored.
    pub reward: Option<f64>,
    /// How many turns.
    pub turns: u64,
    /// Milliseconds since 1970.
    pub created_at: u64,
}

/// A line of a list of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// The run.
    pub id: String,
    /// The configuration that acted.
    pub state_id: String,
    /// What was asked for.
    pub config: serde_json::Value,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// What it came to when it ended; none: it did not finish.
    pub summary: Option<serde_json::Value>,
    /// Mean reward of its episodes as they are now; none if none is scored.
    pub reward_mean: Option<f64>,
    /// How many of its episodes are scored now.
    pub scored: u64,
}

/// A kept plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlugin {
    /// Its own name.
    pub name: String,
    /// Its world.
    pub world: String,
    /// The component.
    pub bytes: Vec<u8>,
}

/// The reader's end of a database.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Connection,
}

/// id, state id, config, time, summary, mean reward, scored episodes.
type RunColumns = (String, String, String, i64, Option<String>, Option<f64>, i64);

const EPISODE_COLUMNS: &str = "run, id, environment, task, ending, reward, turns, created_at";

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn episode_row(row: &Row<'_>) -> rusqlite::Result<EpisodeRow> {
    Ok(EpisodeRow {
        run: row.get(0)?,
        id: row.get(1)?,
        environment: row.get(2)?,
        task: row.get(3)?,
        ending: row.get(4)?,
        reward: row.get(5)?,
        turns: unsigned(row.get(6)?),
        created_at: unsigned(row.get(7)?),
    })
}

impl Reader {
    /// Opens the database of a data folder.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(crate::FILE);
        let connection = schema::open_for_reading(&path)?;
        Ok(Self { path, connection })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    fn fail(&self, error: &rusqlite::Error) -> StoreError {
        explain(&self.path, error)
    }

    /// Runs of this digest that did not come to their end, newest first, each with what its models cost: none of them has all
    /// that it would have.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unfinished(&self, digest: &Digest) -> Result<Vec<(String, Usage)>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(String, Option<String>)>> {
            self.connection
                .prepare_cached(
                    "SELECT id, (SELECT part.spent FROM runs AS part
                      WHERE (part.id = runs.id OR part.parent = runs.id) AND part.spent IS NOT NULL
                      ORDER BY json_extract(part.spent, '$.prompt_tokens') + json_extract(part.spent, '$.completion_tokens')
                      DESC LIMIT 1)
                     FROM runs WHERE digest = ? AND parent IS NULL AND
                     (summary IS NULL OR json_extract(summary, '$.stopped') IS NOT NULL) ORDER BY rowid DESC",
                )?
                .query_map([digest.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        };
        let spent = |text: Option<String>| match text {
            Some(text) => serde_json::from_str(&text).map_err(|error| document(&self.path, "a run", &error)),
            None => Ok(Usage::default()),
        };
        let rows = read().map_err(|error| self.fail(&error))?;
        rows.into_iter().map(|(id, text)| Ok((id, spent(text)?))).collect()
    }

    /// Whether there is such a run, or such a phase of one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn has_run(&self, id: &str) -> Result<bool, StoreError> {
        self.connection
            .prepare_cached("SELECT 1 FROM runs WHERE id = ?")
            .and_then(|mut statement| statement.exists([id]))
            .map_err(|error| self.fail(&error))
    }

    /// What a run was asked to do; none: there is no such run.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn config(&self, run: &str) -> Result<Option<serde_json::Value>, StoreError> {
        let text: Option<String> = self
            .connection
            .prepare_cached("SELECT config FROM runs WHERE id = ?")
            .and_then(|mut statement| statement.query_row([run], |row| row.get(0)).optional())
            .map_err(|error| self.fail(&error))?;
        text.map(|text| serde_json::from_str(&text).map_err(|error| document(&self.path, "a run", &error))).transpose()
    }

    /// Runs, newest first; those that a learning run is made of are no runs of their own.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn runs(&self, limit: Option<u64>) -> Result<Vec<RunRow>, StoreError> {
        let read = || -> rusqlite::Result<Vec<RunColumns>> {
            let mut statement = self.connection.prepare(
                "SELECT id, state_id, config, created_at, summary,
                 (SELECT avg(reward) FROM episodes
                  WHERE run IN (SELECT id FROM runs AS part WHERE part.id = runs.id OR part.parent = runs.id)),
                 (SELECT count(reward) FROM episodes
                  WHERE run IN (SELECT id FROM runs AS part WHERE part.id = runs.id OR part.parent = runs.id))
                 FROM runs WHERE parent IS NULL ORDER BY rowid DESC LIMIT ?",
            )?;
            let columns = |row: &Row<'_>| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
            };
            statement.query_map([sql_limit(limit)], columns)?.collect()
        };
        let rows = read().map_err(|error| self.fail(&error))?;
        let json = |text: &str| serde_json::from_str(text).map_err(|error| document(&self.path, "a run", &error));
        rows.into_iter()
            .map(|(id, state_id, config, created_at, summary, reward_mean, scored)| {
                let summary = summary.as_deref().map(json).transpose()?;
                let (config, created_at, scored) = (json(&config)?, unsigned(created_at), unsigned(scored));
                Ok(RunRow { id, state_id, config, created_at, summary, reward_mean, scored })
            })
            .collect()
    }

    /// Episodes: newest run first, in order inside a run.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn episodes(&self, filter: &Filter) -> Result<Vec<EpisodeRow>, StoreError> {
        let read = || -> rusqlite::Result<Vec<EpisodeRow>> {
            let limit = sql_limit(filter.limit);
            match &filter.run {
                // By the index of the run; of a learning run, phase by phase.
                Some(run) => self
                    .connection
                    .prepare_cached(&format!(
                        "SELECT {EPISODE_COLUMNS} FROM (SELECT e.*, r.rowid AS run_order FROM runs r
                         JOIN episodes e ON e.run = r.id WHERE r.id = ?1 OR r.parent = ?1)
                         ORDER BY run_order, position LIMIT ?2"
                    ))?
                    .query_map(params![run, limit], episode_row)?
                    .collect(),
                None => self
                    .connection
                    .prepare_cached(&format!(
                        "SELECT {EPISODE_COLUMNS} FROM (SELECT e.*, r.rowid AS run_order FROM episodes e
                         JOIN runs r ON r.id = e.run) ORDER BY run_order DESC, position LIMIT ?"
                    ))?
                    .query_map([limit], episode_row)?
                    .collect(),
            }
        };
        read().map_err(|error| self.fail(&error))
    }

    /// One episode, by its id or by `RUN/ID`; without a run, of equal ids that of the newest run.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn episode(&self, name: &str) -> Result<Option<Episode>, StoreError> {
        let (run, id) = match name.split_once('/') {
            Some((run, id)) => (Some(run), id),
            None => (None, name),
        };
        let read = || -> rusqlite::Result<Option<(String, String, Option<f64>)>> {
            let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            match run {
                Some(run) => self
                    .connection
                    .prepare_cached("SELECT run, document, reward FROM episodes WHERE run = ? AND id = ?")?
                    .query_row([run, id], columns)
                    .optional(),
                // Run by run, each by its index: the newest that has it.
                None => self
                    .connection
                    .prepare_cached(
                        "SELECT e.run, e.document, e.reward FROM runs r CROSS JOIN episodes e ON e.run = r.id AND e.id = ?
                         ORDER BY r.rowid DESC LIMIT 1",
                    )?
                    .query_row([id], columns)
                    .optional(),
            }
        };
        match read().map_err(|error| self.fail(&error))? {
            Some((run, text, reward)) => {
                let mut episode = self.assemble(&run, id, &text)?;
                // A verdict that was made good later may have changed it.
                episode.reward = reward;
                Ok(Some(episode))
            }
            None => Ok(None),
        }
    }

    fn assemble(&self, run: &str, id: &str, text: &str) -> Result<Episode, StoreError> {
        let what = format!("episode {run}/{id}");
        let mut episode: Episode = serde_json::from_str(text).map_err(|error| document(&self.path, &what, &error))?;
        if episode.format > EPISODE_FORMAT {
            return Err(StoreError::Newer(self.path.display().to_string(), episode.format, EPISODE_FORMAT));
        }
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection
                .prepare_cached("SELECT document FROM verdicts WHERE run = ? AND episode = ? ORDER BY position")?
                .query_map([run, id], |row| row.get(0))?
                .collect()
        };
        for text in read().map_err(|error| self.fail(&error))? {
            let record: RewardRecord =
                serde_json::from_str(&text).map_err(|error| document(&self.path, &what, &error))?;
            episode.verdicts.push(record);
        }
        Ok(episode)
    }

    /// Hands every matching episode to `each`, one at a time, so that any number fits into memory.
    ///
    /// # Errors
    /// The database cannot be read, or `each` says stop by returning an error.
    pub fn export<E>(
        &self,
        filter: &Filter,
        mut each: impl FnMut(Episode) -> Result<(), E>,
    ) -> Result<Result<u64, E>, StoreError> {
        let mut count = 0;
        for row in self.episodes(filter)? {
            if let Some(episode) = self.episode(&format!("{}/{}", row.run, row.id))? {
                if let Err(stop) = each(episode) {
                    return Ok(Err(stop));
                }
                count += 1;
            }
        }
        Ok(Ok(count))
    }

    /// A kept plugin.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn plugin(&self, digest: &Digest) -> Result<Option<StoredPlugin>, StoreError> {
        self.connection
            .prepare_cached("SELECT name, world, bytes FROM plugins WHERE digest = ?")
            .and_then(|mut statement| {
                let columns =
                    |row: &Row<'_>| Ok(StoredPlugin { name: row.get(0)?, world: row.get(1)?, bytes: row.get(2)? });
                statement.query_row([digest.to_string()], columns).optional()
            })
            .map_err(|error| self.fail(&error))
    }

    /// Looks for damage in the whole file; the first that is found, in words.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn check(&self) -> Result<Option<String>, StoreError> {
        let found: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| self.fail(&error))?;
        Ok((found != "ok").then_some(found))
    }

    /// Notes that a run left.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn notes(&self, run: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
            self.connection
                .prepare_cached("SELECT key, value FROM notes WHERE run = ? ORDER BY key")?
                .query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        };
        read().map_err(|error| self.fail(&error))
    }
}

fn sql_limit(limit: Option<u64>) -> i64 {
    // A negative limit means none.
    limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}
