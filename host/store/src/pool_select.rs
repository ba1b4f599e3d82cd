//! Which groups of the data pool are ready. A fetch and its preview ask the same question.

use crate::integers::{signed, unsigned};
use crate::pool_rows::{TRAJECTORY, trajectory_row};
use clawhost_core::{FetchRequest, Picked, PickedGroup};
use rusqlite::{Connection, OptionalExtension as _, params};

/// Whether a trajectory may be taken: it has ended, no batch holds it at the time ?2, somebody wants to train on it, none of its tokens is
/// older than the version ?3, and its captured episode is recorded.
const USABLE: &str = "(trainable AND (policy_version IS NULL OR policy_version >= ?3)
    AND (state = 1 OR (state = 2 AND (SELECT until FROM batches WHERE batches.number = trajectories.batch) <= ?2))
    AND NOT EXISTS (SELECT 1 FROM open_episodes o WHERE o.run = trajectories.run AND o.id = trajectories.episode))";

/// The newest version of the policy; 0: none was published.
pub(crate) fn policy_version(connection: &Connection) -> rusqlite::Result<u64> {
    let version: Option<i64> =
        connection.prepare_cached("SELECT version FROM policy")?.query_row([], |row| row.get(0)).optional()?;
    Ok(version.map_or(0, unsigned))
}

/// The groups that are ready, the oldest first. A group behind one that is not ready does not wait for it.
pub(crate) fn select(connection: &Connection, request: &FetchRequest) -> rusqlite::Result<Picked> {
    let FetchRequest { owner, channel, groups, members, least_members, dead_after_ms, max_staleness, now, .. } =
        request;
    let newest = policy_version(connection)?;
    let oldest = max_staleness.map_or(0, |most| newest.saturating_sub(most));
    let dead_before = now.saturating_sub(*dead_after_ms);
    let common = params![channel.name(), signed(*now), signed(oldest), owner];
    let stale: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM trajectories WHERE channel = ?1 AND state IN (1, 2) AND trainable AND ?2 >= 0
             AND policy_version < ?3 AND (?4 IS NULL OR owner = ?4)",
        )?
        .query_row(common, |row| row.get(0))?;
    let mut ready = connection.prepare_cached(&format!(
        "SELECT owner, prompt_group, sum(usable) FROM (
            SELECT number, owner, prompt_group, {USABLE} AS usable, state = 0 AND touched_at > ?7 AS alive, touched_at
            FROM trajectories WHERE channel = ?1 AND state < 3 AND (?4 IS NULL OR owner = ?4)
         ) GROUP BY owner, prompt_group
         HAVING sum(usable) >= ?5 OR (sum(usable) >= ?6 AND sum(alive) = 0 AND max(touched_at) <= ?7)
         ORDER BY min(number) LIMIT ?8"
    ))?;
    let found = ready.query_map(
        params![
            channel.name(),
            signed(*now),
            signed(oldest),
            owner,
            signed(*members),
            signed((*least_members).max(1)),
            signed(dead_before),
            signed(*groups)
        ],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, unsigned(row.get(2)?))),
    )?;
    let mut taken = connection.prepare_cached(&format!(
        "{TRAJECTORY} WHERE channel = ?1 AND state < 3 AND owner = ?4 AND prompt_group = ?5 AND {USABLE}
         ORDER BY number LIMIT ?6"
    ))?;
    let mut picked = Picked { policy_version: newest, stale: unsigned(stale), ..Picked::default() };
    for group in found {
        let (owner, group, usable) = group?;
        let rows = taken.query_map(
            params![channel.name(), signed(*now), signed(oldest), owner, group, signed(*members)],
            trajectory_row,
        )?;
        let trajectories = rows.collect::<rusqlite::Result<_>>()?;
        picked.ready += 1;
        picked.groups.push(PickedGroup { owner, group, short: usable < *members, trajectories });
    }
    Ok(picked)
}
