//! Changes of the data pool: trajectories, their steps, and the batches in which trainers hold them.

use crate::error::Fault;
use crate::integers::{signed, unsigned};
use crate::pool_rows::{BATCH, batch_row, name_of_state, trajectory};
use crate::pool_select::{self, select};
use crate::writer::Store;
use async_trait::async_trait;
use clawhost_core::{
    BatchChange, Curation, FetchRequest, NewStep, NewSteps, NewTrajectory, Picked, PoolChange, PoolOutcome,
    PoolRefusal, PoolStore, Pooled, StoreError, TRAJECTORY_STEPS, TrajectoryRow, TrajectoryState,
};
use rusqlite::{OptionalExtension as _, Transaction, params};

/// The tables of this module.
pub(crate) const TABLES: &str = "
    CREATE TABLE trajectories (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        prompt_group TEXT NOT NULL,
        channel TEXT NOT NULL,
        -- 0: open; 1: complete; 2: a batch holds it; 3: consumed.
        state INTEGER NOT NULL DEFAULT 0,
        reward REAL,
        metadata TEXT NOT NULL,
        steps INTEGER NOT NULL DEFAULT 0,
        -- The oldest version of the policy; NULL: none is known.
        policy_version INTEGER,
        created_at INTEGER NOT NULL,
        touched_at INTEGER NOT NULL,
        trainable INTEGER NOT NULL DEFAULT 1,
        quality TEXT,
        -- A JSON array; NULL: none.
        tags TEXT,
        note TEXT,
        -- The batch that holds it or held it last.
        batch INTEGER,
        -- The captured episode; NULL: its steps were submitted.
        run TEXT,
        episode TEXT,
        UNIQUE (owner, id)
    );
    -- Of what is not consumed, the groups are looked for at every fetch.
    CREATE INDEX trajectories_waiting ON trajectories (channel, owner, prompt_group) WHERE state < 3;
    CREATE INDEX trajectories_by_batch ON trajectories (batch) WHERE batch IS NOT NULL;
    CREATE INDEX trajectories_by_run ON trajectories (run) WHERE run IS NOT NULL;
    CREATE TABLE trajectory_steps (
        trajectory INTEGER NOT NULL REFERENCES trajectories(number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        trainable INTEGER NOT NULL DEFAULT 1,
        policy_version INTEGER,
        -- NULL: it is in the captured episode.
        document TEXT
    );
    CREATE UNIQUE INDEX trajectory_steps_by_position ON trajectory_steps (trajectory, position);
    -- A number is never reused, so that no trainer acknowledges another one's batch.
    CREATE TABLE batches (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        -- The key of its trainer; NULL: the admin's.
        owner TEXT,
        channel TEXT NOT NULL,
        -- 0: leased; 1: acknowledged; 2: released; 3: expired.
        state INTEGER NOT NULL DEFAULT 0,
        until INTEGER NOT NULL,
        created_at INTEGER NOT NULL
    );
    CREATE INDEX batches_held ON batches (until) WHERE state = 0;
    -- The newest version of the policy; at most one row.
    CREATE TABLE policy (
        number INTEGER PRIMARY KEY CHECK (number = 1),
        version INTEGER NOT NULL,
        at INTEGER NOT NULL
    );
";

#[async_trait]
impl PoolStore for Store {
    async fn change_pool(&self, change: PoolChange) -> Result<PoolOutcome, StoreError> {
        let door = self.checked("a trajectory");
        let change = match change {
            PoolChange::Register(mut new) => {
                new.metadata = new.metadata.map(|metadata| door.document(metadata)).transpose()?;
                PoolChange::Register(new)
            }
            PoolChange::Steps(mut all) => {
                for new in &mut all {
                    let metadata = new.trajectory.metadata.take();
                    new.trajectory.metadata = metadata.map(|metadata| door.document(metadata)).transpose()?;
                    for step in &mut new.steps {
                        step.document = door.document(std::mem::take(&mut step.document))?;
                    }
                }
                PoolChange::Steps(all)
            }
            PoolChange::Curate { owner, id, mut curation } => {
                let clean = |text: Option<String>| text.map(|text| door.record(text)).transpose();
                (curation.quality, curation.note) = (clean(curation.quality)?, clean(curation.note)?);
                curation.tags = curation.tags.map(|tags| door.record(tags)).transpose()?;
                PoolChange::Curate { owner, id, curation }
            }
            other => other,
        };
        self.pool_job(change).await
    }
}

/// Why a change was not made.
enum Stop {
    Refused(PoolRefusal),
    Fault(Fault),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl From<PoolRefusal> for Stop {
    fn from(refusal: PoolRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Makes a change, or none of it.
pub(crate) fn change(transaction: &Transaction<'_>, change: &PoolChange) -> Result<PoolOutcome, Fault> {
    transaction.execute_batch("SAVEPOINT pool")?;
    let outcome = match apply(transaction, change) {
        Ok(outcome) => outcome,
        Err(Stop::Refused(refusal)) => {
            transaction.execute_batch("ROLLBACK TO pool")?;
            PoolOutcome::Refused(refusal)
        }
        Err(Stop::Fault(fault)) => return Err(fault),
    };
    transaction.execute_batch("RELEASE pool")?;
    Ok(outcome)
}

fn apply(transaction: &Transaction<'_>, change: &PoolChange) -> Result<PoolOutcome, Stop> {
    Ok(match change {
        PoolChange::Register(new) => PoolOutcome::Trajectories(vec![register(transaction, new)?]),
        PoolChange::Steps(all) => {
            let changed = all.iter().map(|new| add_steps(transaction, new));
            PoolOutcome::Trajectories(changed.collect::<Result<_, _>>()?)
        }
        PoolChange::Complete { owner, id, reward, at } => {
            PoolOutcome::Trajectories(vec![complete(transaction, (owner, id), *reward, *at)?])
        }
        PoolChange::Curate { owner, id, curation } => {
            PoolOutcome::Trajectories(vec![curate(transaction, (owner, id), curation)?])
        }
        PoolChange::Fetch(request) => PoolOutcome::Picked(fetch(transaction, request)?),
        PoolChange::Batch { owner, number, change, now } => {
            batch(transaction, owner.as_deref(), *number, *change, *now)?
        }
        PoolChange::Publish { version, at } => {
            let newest = pool_select::policy_version(transaction)?;
            if *version <= newest {
                return Err(PoolRefusal::OldVersion { version: *version, newest }.into());
            }
            transaction
                .prepare_cached("INSERT OR REPLACE INTO policy (number, version, at) VALUES (1, ?, ?)")?
                .execute([signed(*version), signed(*at)])?;
            PoolOutcome::Policy(*version)
        }
    })
}

fn known(transaction: &Transaction<'_>, (owner, id): (&str, &str)) -> Result<TrajectoryRow, Stop> {
    trajectory(transaction, owner, id)?.ok_or_else(|| PoolRefusal::NoTrajectory(id.to_owned()).into())
}

fn register(transaction: &Transaction<'_>, new: &NewTrajectory) -> Result<TrajectoryRow, Stop> {
    let NewTrajectory { owner, id, group, channel, metadata, at } = new;
    if let Some(row) = trajectory(transaction, owner, id)? {
        if row.group != *group {
            return Err(PoolRefusal::OtherGroup { id: id.clone(), group: row.group }.into());
        }
        transaction
            .prepare_cached(
                "UPDATE trajectories SET channel = CASE state WHEN 0 THEN coalesce(?, channel) ELSE channel END,
                 metadata = coalesce(?, metadata) WHERE number = ?",
            )?
            .execute(params![channel.map(|channel| channel.name()), metadata, signed(row.number)])?;
    } else {
        transaction
            .prepare_cached(
                "INSERT INTO trajectories (owner, id, prompt_group, channel, metadata, created_at, touched_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
            )?
            .execute(params![
                owner,
                id,
                group,
                channel.unwrap_or_default().name(),
                metadata.as_deref().unwrap_or("{}"),
                signed(*at)
            ])?;
    }
    known(transaction, (owner, id))
}

fn add_steps(transaction: &Transaction<'_>, new: &NewSteps) -> Result<TrajectoryRow, Stop> {
    let NewSteps { trajectory: named, registers, steps, completes } = new;
    let (owner, id) = (named.owner.as_str(), named.id.as_str());
    let row = if *registers { register(transaction, named)? } else { known(transaction, (owner, id))? };
    if row.episode.is_some() {
        return Err(PoolRefusal::Captured(id.to_owned()).into());
    }
    let mut count = row.steps;
    for NewStep { position, policy_version, trainable, document } in steps {
        let position = position.unwrap_or(count);
        let stored: Option<String> = transaction
            .prepare_cached("SELECT document FROM trajectory_steps WHERE trajectory = ? AND position = ?")?
            .query_row([signed(row.number), signed(position)], |row| row.get(0))
            .optional()?;
        match stored {
            // A client that got no answer sends it again.
            Some(stored) if stored == *document => continue,
            Some(_) => return Err(PoolRefusal::OtherStep { id: id.to_owned(), position }.into()),
            None => {}
        }
        if row.state != TrajectoryState::Open {
            return Err(PoolRefusal::Ended(id.to_owned()).into());
        }
        if position != count {
            return Err(PoolRefusal::Gap { id: id.to_owned(), steps: count, position }.into());
        }
        if position >= TRAJECTORY_STEPS {
            return Err(PoolRefusal::TooManySteps { id: id.to_owned(), most: TRAJECTORY_STEPS }.into());
        }
        transaction
            .prepare_cached(
                "INSERT INTO trajectory_steps (trajectory, position, trainable, policy_version, document)
                 VALUES (?, ?, ?, ?, ?)",
            )?
            .execute(params![signed(row.number), signed(position), trainable, policy_version.map(signed), document])?;
        touch(transaction, row.number, *policy_version, named.at)?;
        count += 1;
    }
    if *completes {
        return complete(transaction, (owner, id), None, named.at);
    }
    known(transaction, (owner, id))
}

/// Counts a step.
fn touch(transaction: &Transaction<'_>, number: u64, version: Option<u64>, at: u64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE trajectories SET steps = steps + 1, touched_at = max(touched_at, ?2),
             policy_version = coalesce(min(policy_version, ?3), policy_version, ?3) WHERE number = ?1",
        )?
        .execute(params![signed(number), signed(at), version.map(signed)])
        .map(|_| ())
}

fn complete(
    transaction: &Transaction<'_>,
    (owner, id): (&str, &str),
    reward: Option<f64>,
    at: u64,
) -> Result<TrajectoryRow, Stop> {
    let row = known(transaction, (owner, id))?;
    let rewarded = reward.or(row.reward);
    match row.state {
        TrajectoryState::Open => {}
        // A client that got no answer ends it again.
        _ if rewarded.map(f64::to_bits) == row.reward.map(f64::to_bits) => return Ok(row),
        TrajectoryState::Complete if row.reward.is_none() => {}
        _ => return Err(PoolRefusal::OtherReward(id.to_owned()).into()),
    }
    transaction
        .prepare_cached(
            "UPDATE trajectories SET state = 1, reward = ?, touched_at = max(touched_at, ?) WHERE number = ?",
        )?
        .execute(params![rewarded, signed(at), signed(row.number)])?;
    known(transaction, (owner, id))
}

fn curate(
    transaction: &Transaction<'_>,
    (owner, id): (&str, &str),
    curation: &Curation,
) -> Result<TrajectoryRow, Stop> {
    let row = known(transaction, (owner, id))?;
    let Curation { trainable, quality, tags, note, steps } = curation;
    let tags = tags.as_ref().map(|tags| serde_json::Value::from(tags.clone()).to_string());
    transaction
        .prepare_cached(
            "UPDATE trajectories SET trainable = coalesce(?, trainable), quality = coalesce(?, quality),
             tags = coalesce(?, tags), note = coalesce(?, note) WHERE number = ?",
        )?
        .execute(params![trainable, quality, tags, note, signed(row.number)])?;
    for (position, trainable) in steps {
        let changed = transaction
            .prepare_cached("UPDATE trajectory_steps SET trainable = ? WHERE trajectory = ? AND position = ?")?
            .execute(params![trainable, signed(row.number), signed(*position)])?;
        if changed == 0 {
            return Err(PoolRefusal::NoStep { id: id.to_owned(), position: *position }.into());
        }
    }
    known(transaction, (owner, id))
}

/// Frees what batches hold whose time is over.
fn expire(transaction: &Transaction<'_>, now: u64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE trajectories SET state = 1 WHERE state = 2
             AND batch IN (SELECT number FROM batches WHERE state = 0 AND until <= ?)",
        )?
        .execute([signed(now)])?;
    transaction
        .prepare_cached("UPDATE batches SET state = 3 WHERE state = 0 AND until <= ?")?
        .execute([signed(now)])
        .map(|_| ())
}

fn fetch(transaction: &Transaction<'_>, request: &FetchRequest) -> Result<Picked, Stop> {
    expire(transaction, request.now)?;
    let mut picked = select(transaction, request)?;
    let is_enough = picked.groups.len() as u64 >= request.groups || (request.partial && !picked.groups.is_empty());
    if !is_enough {
        picked.groups.clear();
        return Ok(picked);
    }
    let until = request.now.saturating_add(request.lease_ms);
    transaction
        .prepare_cached("INSERT INTO batches (owner, channel, until, created_at) VALUES (?, ?, ?, ?)")?
        .execute(params![request.owner, request.channel.name(), signed(until), signed(request.now)])?;
    let number = unsigned(transaction.last_insert_rowid());
    let mut take = transaction.prepare_cached("UPDATE trajectories SET state = 2, batch = ? WHERE number = ?")?;
    for row in picked.groups.iter_mut().flat_map(|group| &mut group.trajectories) {
        take.execute([signed(number), signed(row.number)])?;
        (row.state, row.batch) = (TrajectoryState::Leased, Some(number));
    }
    picked.batch = Some((number, until));
    Ok(picked)
}

fn batch(
    transaction: &Transaction<'_>,
    owner: Option<&str>,
    number: u64,
    change: BatchChange,
    now: u64,
) -> Result<PoolOutcome, Stop> {
    expire(transaction, now)?;
    let (state, until): (i64, i64) = transaction
        .prepare_cached("SELECT state, until FROM batches WHERE number = ?1 AND (?2 IS NULL OR owner = ?2)")?
        .query_row(params![signed(number), owner], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or(PoolRefusal::NoBatch(number))?;
    let (becomes, freed, until) = match change {
        BatchChange::Acknowledge => (1, 3, until),
        BatchChange::Release => (2, 1, until),
        BatchChange::Extend(until) => (0, 2, signed(until)),
    };
    match state {
        0 => {}
        // A trainer that got no answer says it again.
        _ if state == becomes => return batch_outcome(transaction, number),
        _ => return Err(PoolRefusal::BatchOver { number, state: name_of_state(state) }.into()),
    }
    transaction.prepare_cached("UPDATE batches SET state = ?, until = ? WHERE number = ?")?.execute([
        becomes,
        until,
        signed(number),
    ])?;
    transaction
        .prepare_cached("UPDATE trajectories SET state = ? WHERE batch = ? AND state = 2")?
        .execute([freed, signed(number)])?;
    batch_outcome(transaction, number)
}

fn batch_outcome(transaction: &Transaction<'_>, number: u64) -> Result<PoolOutcome, Stop> {
    let row = transaction
        .prepare_cached(&format!("{BATCH} WHERE number = ?"))?
        .query_row([signed(number)], |row| batch_row(transaction, row))?;
    Ok(PoolOutcome::Batch(row))
}

/// Notes that an exchange of an episode was captured. `is_answered`: whether it is a step.
pub(crate) fn captured(
    transaction: &Transaction<'_>,
    pooled: &Pooled,
    (run, episode): (&str, &str),
    at: u64,
    is_answered: bool,
) -> rusqlite::Result<()> {
    let Pooled { owner, trajectory: id, group, policy_version } = pooled;
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO trajectories (owner, id, prompt_group, channel, metadata, created_at, touched_at)
             VALUES (?1, ?2, ?3, 'train', '{}', ?4, ?4)",
        )?
        .execute(params![owner, id, group, signed(at)])?;
    // Submitted steps are not mixed with captured ones, and side turns in the same session are no steps.
    let taken: Option<(i64, i64)> = transaction
        .prepare_cached(
            "UPDATE trajectories SET run = ?3, episode = ?4, touched_at = max(touched_at, ?5) WHERE owner = ?1 AND id = ?2
             AND state = 0 AND ((run IS NULL AND steps = 0) OR (run = ?3 AND episode = ?4)) RETURNING number, steps",
        )?
        .query_row(params![owner, id, run, episode, signed(at)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((number, steps)) = taken.filter(|(_, steps)| is_answered && unsigned(*steps) < TRAJECTORY_STEPS) {
        transaction
            .prepare_cached("INSERT INTO trajectory_steps (trajectory, position, policy_version) VALUES (?, ?, ?)")?
            .execute(params![number, steps, policy_version.map(signed)])?;
        touch(transaction, unsigned(number), *policy_version, at)?;
    }
    Ok(())
}
