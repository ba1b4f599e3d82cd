//! Rows of the data pool.

use crate::integers::{signed, unsigned};
use crate::reader::Reader;
use clawhost_core::{
    BatchRow, BatchState, Channel, ChannelCounts, EpisodeId, FetchRequest, Picked, PoolReader, RunId, StepRow,
    StoreError, TrajectoryFilter, TrajectoryRow, TrajectoryState,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

/// The columns of a trajectory.
pub(crate) const TRAJECTORY: &str =
    "SELECT number, owner, id, prompt_group, channel, state, reward, metadata, steps, policy_version, created_at,
     touched_at, trainable, quality, tags, note, batch, run, episode FROM trajectories";
/// The columns of a batch.
pub(crate) const BATCH: &str = "SELECT number, channel, state, until, created_at FROM batches";

fn wrong(column: usize, why: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.to_owned().into())
}

fn channel(row: &Row<'_>, column: usize) -> rusqlite::Result<Channel> {
    let name: String = row.get(column)?;
    Channel::ALL
        .into_iter()
        .find(|channel| channel.name() == name)
        .ok_or_else(|| wrong(column, "there is no such channel"))
}

pub(crate) fn trajectory_row(row: &Row<'_>) -> rusqlite::Result<TrajectoryRow> {
    let state = usize::from(row.get::<_, u8>(5)?);
    let state = TrajectoryState::ALL.get(state).copied().ok_or_else(|| wrong(5, "there is no such state"))?;
    let metadata: String = row.get(7)?;
    let metadata = serde_json::from_str(&metadata).map_err(|error| wrong(7, &error.to_string()))?;
    let tags: Option<String> = row.get(14)?;
    let tags =
        tags.map(|tags| serde_json::from_str(&tags)).transpose().map_err(|error| wrong(14, &error.to_string()))?;
    let (run, episode): (Option<String>, Option<String>) = (row.get(17)?, row.get(18)?);
    let number = |column| row.get::<_, Option<i64>>(column).map(|number| number.map(unsigned));
    Ok(TrajectoryRow {
        number: unsigned(row.get(0)?),
        owner: row.get(1)?,
        id: row.get(2)?,
        group: row.get(3)?,
        channel: channel(row, 4)?,
        state,
        reward: row.get(6)?,
        metadata,
        steps: unsigned(row.get(8)?),
        policy_version: number(9)?,
        created_at: unsigned(row.get(10)?),
        touched_at: unsigned(row.get(11)?),
        trainable: row.get(12)?,
        quality: row.get(13)?,
        tags: tags.unwrap_or_default(),
        note: row.get(15)?,
        batch: number(16)?,
        episode: run.map(RunId).zip(episode.map(EpisodeId)),
    })
}

pub(crate) fn trajectory(connection: &Connection, owner: &str, id: &str) -> rusqlite::Result<Option<TrajectoryRow>> {
    connection
        .prepare_cached(&format!("{TRAJECTORY} WHERE owner = ? AND id = ?"))?
        .query_row([owner, id], trajectory_row)
        .optional()
}

fn batch_state(number: i64) -> BatchState {
    match number {
        0 => BatchState::Leased,
        1 => BatchState::Acknowledged,
        2 => BatchState::Released,
        _ => BatchState::Expired,
    }
}

/// The word for the state of a batch.
pub(crate) fn name_of_state(number: i64) -> &'static str {
    match batch_state(number) {
        BatchState::Leased => "leased",
        BatchState::Acknowledged => "acknowledged",
        BatchState::Released => "released",
        BatchState::Expired => "expired",
    }
}

pub(crate) fn batch_row(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<BatchRow> {
    let number: i64 = row.get(0)?;
    let trajectories = connection
        .prepare_cached("SELECT id FROM trajectories WHERE batch = ? ORDER BY number")?
        .query_map([number], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(BatchRow {
        number: unsigned(number),
        channel: channel(row, 1)?,
        state: batch_state(row.get(2)?),
        until: unsigned(row.get(3)?),
        created_at: unsigned(row.get(4)?),
        trajectories,
    })
}

impl PoolReader for Reader {
    fn trajectories(&self, filter: &TrajectoryFilter) -> Result<Vec<TrajectoryRow>, StoreError> {
        let TrajectoryFilter { owner, channel, group, state, trainable, quality, after, limit } = filter;
        self.query(|connection| {
            connection
                .prepare_cached(&format!(
                    "{TRAJECTORY} WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR channel = ?2)
                     AND (?3 IS NULL OR prompt_group = ?3) AND (?4 IS NULL OR state = ?4) AND (?5 IS NULL OR trainable = ?5)
                     AND (?6 IS NULL OR quality = ?6) AND number > ?7 ORDER BY number LIMIT ?8"
                ))?
                .query_map(
                    params![
                        owner,
                        channel.map(Channel::name),
                        group,
                        state.map(|state| state as i64),
                        trainable,
                        quality,
                        signed(after.unwrap_or(0)),
                        signed(*limit)
                    ],
                    trajectory_row,
                )?
                .collect()
        })
    }

    fn trajectory(&self, owner: &str, id: &str) -> Result<Option<TrajectoryRow>, StoreError> {
        self.query(|connection| trajectory(connection, owner, id))
    }

    fn steps(&self, trajectory: u64, from: u64, limit: u64) -> Result<Vec<StepRow>, StoreError> {
        self.query(|connection| {
            let step = |row: &Row<'_>| {
                let policy_version = row.get::<_, Option<i64>>(2)?.map(unsigned);
                Ok(StepRow {
                    position: unsigned(row.get(0)?),
                    trainable: row.get(1)?,
                    policy_version,
                    document: row.get(3)?,
                })
            };
            connection
                .prepare_cached(
                    "SELECT position, trainable, policy_version, document FROM trajectory_steps WHERE trajectory = ? AND position >= ?
                     ORDER BY position LIMIT ?",
                )?
                .query_map([signed(trajectory), signed(from), signed(limit)], step)?
                .collect()
        })
    }

    fn preview(&self, request: &FetchRequest) -> Result<Picked, StoreError> {
        self.query(|connection| crate::pool_select::select(connection, request))
    }

    fn batches(&self, owner: Option<&str>, limit: u64) -> Result<Vec<BatchRow>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(&format!("{BATCH} WHERE ?1 IS NULL OR owner = ?1 ORDER BY number DESC LIMIT ?2"))?
                .query_map(params![owner, signed(limit)], |row| batch_row(connection, row))?
                .collect()
        })
    }

    fn pool_counts(&self, owner: Option<&str>) -> Result<Vec<ChannelCounts>, StoreError> {
        self.query(|connection| {
            let count = |row: &Row<'_>, column| row.get::<_, i64>(column).map(unsigned);
            let counts = |row: &Row<'_>| {
                Ok(ChannelCounts {
                    channel: channel(row, 0)?,
                    open: count(row, 1)?,
                    complete: count(row, 2)?,
                    leased: count(row, 3)?,
                    consumed: count(row, 4)?,
                    untrainable: count(row, 5)?,
                    groups: count(row, 6)?,
                    steps: count(row, 7)?,
                })
            };
            connection
                .prepare_cached(
                    "SELECT channel, sum(state = 0), sum(state = 1), sum(state = 2), sum(state = 3), sum(trainable = 0),
                     count(DISTINCT owner || char(0) || prompt_group), sum(steps) FROM trajectories
                     WHERE ?1 IS NULL OR owner = ?1 GROUP BY channel ORDER BY channel",
                )?
                .query_map([owner], counts)?
                .collect()
        })
    }

    fn policy_version(&self) -> Result<u64, StoreError> {
        self.query(crate::pool_select::policy_version)
    }
}
