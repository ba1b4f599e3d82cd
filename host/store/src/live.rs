//! Writes and reads live traffic: the exchanges of open episodes.

use crate::integers::{signed, unsigned};
use crate::keys::EpisodeKey;
use crate::reader::Reader;
use crate::writer::{Store, Write, give_way};
use crate::{feedback, forgetting, pool, routing, trials};
use async_trait::async_trait;
use clawhost_core::{
    EpisodeId, EpisodeProgress, ExchangeBatch, ExchangeOutcome, ExchangeRow, LiveReader, LiveSession, LiveStore,
    OpenEpisode, ResponseChange, ResponseRow, RunId, SpoolPlace, StoreError,
};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use std::collections::BTreeSet;

#[async_trait]
impl LiveStore for Store {
    async fn record_exchanges(&self, batch: ExchangeBatch) -> Result<(), StoreError> {
        let ExchangeBatch { exchanges, responses, through } = batch;
        let door = self.checked("an exchange");
        let clean = |mut row: ExchangeRow| -> Result<ExchangeRow, StoreError> {
            row.episode.session = door.record(row.episode.session)?;
            row.document = door.document(row.document)?;
            row.routed = row.routed.map(|routed| door.record(routed)).transpose()?;
            row.drawn = row.drawn.map(|drawn| door.record(drawn)).transpose()?;
            Ok(row)
        };
        let exchanges = exchanges.into_iter().map(clean).collect::<Result<_, _>>()?;
        let clean = |change: ResponseChange| match change {
            ResponseChange::Stored(row) => {
                Ok(ResponseChange::Stored(ResponseRow { document: door.document(row.document)?, ..row }))
            }
            deleted @ ResponseChange::Deleted { .. } => Ok::<_, StoreError>(deleted),
        };
        let responses = responses.into_iter().map(clean).collect::<Result<_, _>>()?;
        self.write(Write::Exchanges(ExchangeBatch { exchanges, responses, through })).await
    }
}

/// The number of an outcome in its column.
fn outcome_number(outcome: ExchangeOutcome) -> i64 {
    match outcome {
        ExchangeOutcome::Failed => 0,
        ExchangeOutcome::Incomplete => 1,
        ExchangeOutcome::Complete => 2,
    }
}

/// Whether an episode is recorded.
fn has_ended(transaction: &Transaction<'_>, (run, id): (&str, &str)) -> rusqlite::Result<bool> {
    transaction
        .prepare_cached("SELECT 1 FROM runs r JOIN episodes e ON e.run = r.number WHERE r.id = ? AND e.id = ?")?
        .exists(params![run, EpisodeKey::of(id)])
}

/// Records exchanges. What is stored already, open or as an episode, stays as it is: a crash may repeat the call.
pub(crate) fn record(transaction: &Transaction<'_>, batch: &ExchangeBatch) -> rusqlite::Result<()> {
    let ExchangeBatch { exchanges: rows, responses, through } = batch;
    let mut open = transaction.prepare_cached(
        "INSERT OR IGNORE INTO open_episodes (run, id, position, session, agent, alias, user, project, opened_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let mut insert = transaction.prepare_cached(
        "INSERT OR IGNORE INTO exchanges (run, episode, position, at, outcome, document) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    // Answers that came too late for their session.
    let mut late = BTreeSet::new();
    for row in rows {
        give_way();
        let ExchangeRow { episode, position, at, outcome, document, pooled, routed, drawn, .. } = row;
        let OpenEpisode { run, id, index, session, opened_at } = episode;
        let LiveSession { session: name, agent, alias, user, project } = session;
        let opened =
            open.execute(params![run.0, id.0, signed(*index), name, agent, alias, user, project, signed(*opened_at)])?;
        // An answer whose session ended at the same moment: its episode cannot be opened again.
        if opened > 0 && has_ended(transaction, (&run.0, &id.0))? {
            transaction
                .prepare_cached("DELETE FROM open_episodes WHERE run = ? AND id = ?")?
                .execute([&run.0, &id.0])?;
            late.extend(row.answer_id.as_ref().map(|answer| (&row.owner, answer)));
            continue;
        }
        if opened > 0 && row.is_main {
            feedback::opened(transaction, &row.owner, session, (&run.0, &id.0))?;
        }
        let added = insert.execute(params![run.0, id.0, position, signed(*at), outcome_number(*outcome), document])?;
        if added > 0 {
            feedback::answered(transaction, row)?;
        }
        if let Some(pooled) = pooled.as_ref().filter(|_| added > 0) {
            let is_answered = *outcome == ExchangeOutcome::Complete;
            pool::captured(transaction, pooled, (&run.0, &id.0), *at, is_answered)?;
        }
        if let Some(routed) = routed.as_ref().filter(|_| added > 0) {
            routing::routed(transaction, routed, (&run.0, &id.0), *at)?;
        }
        if let Some(drawn) = drawn.as_ref().filter(|_| added > 0) {
            trials::drawn(transaction, drawn, (&run.0, &id.0), *at)?;
        }
    }
    for change in responses {
        match change {
            // Nothing else of it is recorded, so nobody could say whose it is.
            ResponseChange::Stored(row) if late.contains(&(&row.owner, &row.id)) => 0,
            ResponseChange::Stored(ResponseRow { owner, id, run, at, document }) => transaction
                .prepare_cached(
                    "INSERT OR IGNORE INTO responses (owner, id, run, at, document) VALUES (?, ?, ?, ?, ?)",
                )?
                .execute(params![owner, id, run.0, signed(*at), document])?,
            ResponseChange::Deleted { owner, id } => {
                transaction.prepare_cached("DELETE FROM responses WHERE owner = ? AND id = ?")?.execute([owner, id])?
            }
        };
    }
    transaction
        .prepare_cached("INSERT OR REPLACE INTO spool (number, segment, offset) VALUES (1, ?, ?)")?
        .execute(params![signed(through.segment), signed(through.offset)])?;
    Ok(())
}

fn progress(row: &Row<'_>) -> rusqlite::Result<EpisodeProgress> {
    let episode = OpenEpisode {
        run: RunId(row.get(0)?),
        id: EpisodeId(row.get(1)?),
        index: unsigned(row.get(2)?),
        session: LiveSession {
            session: row.get(3)?,
            agent: row.get(4)?,
            alias: row.get(5)?,
            user: row.get(10)?,
            project: row.get(11)?,
        },
        opened_at: unsigned(row.get(6)?),
    };
    let complete = outcome_number(ExchangeOutcome::Complete);
    let is_complete = row.get::<_, Option<i64>>(8)? == Some(complete);
    let last_at = row.get::<_, Option<i64>>(9)?.map_or(episode.opened_at, unsigned);
    Ok(EpisodeProgress { turns: unsigned(row.get(7)?), is_complete, last_at, episode })
}

/// The columns of [`progress`], of `o` in `open_episodes`.
macro_rules! progress_of {
    ($from:literal) => {
        concat!(
            "SELECT o.run, o.id, o.position, o.session, o.agent, o.alias, o.opened_at,
             (SELECT count(*) FROM exchanges x WHERE x.run = o.run AND x.episode = o.id AND x.outcome = 2),
             (SELECT outcome FROM exchanges x WHERE x.run = o.run AND x.episode = o.id ORDER BY x.position DESC LIMIT 1),
             (SELECT max(at) FROM exchanges x WHERE x.run = o.run AND x.episode = o.id), o.user, o.project ",
            $from
        )
    };
}

impl LiveReader for Reader {
    fn open_episodes(&self, run: Option<&RunId>) -> Result<Vec<EpisodeProgress>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(progress_of!(
                    "FROM open_episodes o JOIN runs r ON r.id = o.run
                     WHERE ?1 IS NULL OR o.run = ?1 ORDER BY r.number DESC, o.position"
                ))?
                .query_map([run.map(|run| &run.0)], progress)?
                .collect()
        })
    }

    fn newest_open(&self, limit: usize) -> Result<Vec<EpisodeProgress>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(progress_of!(
                    "FROM (SELECT run, id, (SELECT at FROM exchanges x WHERE x.run = y.run AND x.episode = y.id
                           ORDER BY position DESC LIMIT 1) AS last FROM open_episodes y ORDER BY last DESC LIMIT ?) n
                     JOIN open_episodes o ON o.run = n.run AND o.id = n.id ORDER BY n.last DESC"
                ))?
                .query_map([signed(limit as u64)], progress)?
                .collect()
        })
    }

    fn open_session(&self, run: &RunId, episode: &EpisodeId) -> Result<Option<LiveSession>, StoreError> {
        self.query(|connection| {
            let session = |row: &Row<'_>| {
                Ok(LiveSession {
                    session: row.get(0)?,
                    agent: row.get(1)?,
                    alias: row.get(2)?,
                    user: row.get(3)?,
                    project: row.get(4)?,
                })
            };
            connection
                .prepare_cached(
                    "SELECT session, agent, alias, user, project FROM open_episodes WHERE run = ? AND id = ?",
                )?
                .query_row([&run.0, &episode.0], session)
                .optional()
        })
    }

    fn exchanges(&self, run: &RunId, episode: &EpisodeId) -> Result<Vec<String>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT document FROM exchanges WHERE run = ? AND episode = ? ORDER BY position")?
                .query_map([&run.0, &episode.0], |row| row.get(0))?
                .collect()
        })
    }

    fn response(&self, owner: &str, id: &str) -> Result<Option<String>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT document FROM responses WHERE owner = ? AND id = ?")?
                .query_row([owner, id], |row| row.get(0))
                .optional()
        })
    }

    fn spool_place(&self) -> Result<SpoolPlace, StoreError> {
        self.query(|connection| {
            let place =
                |row: &Row<'_>| Ok(SpoolPlace { segment: unsigned(row.get(0)?), offset: unsigned(row.get(1)?) });
            let stored =
                connection.prepare_cached("SELECT segment, offset FROM spool")?.query_row([], place).optional()?;
            Ok(stored.unwrap_or_default())
        })
    }

    fn ended_after(&self, number: u64, limit: usize) -> Result<Vec<(u64, Option<String>)>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT number, CASE WHEN live THEN run || '/' || id END FROM episode_rows WHERE number > ?
                     ORDER BY number LIMIT ?",
                )?
                .query_map([signed(number), signed(limit as u64)], |row| Ok((row.get(0).map(unsigned)?, row.get(1)?)))?
                .collect()
        })
    }

    fn newest_ended(&self) -> Result<u64, StoreError> {
        self.query(|connection| {
            let newest: Option<i64> =
                connection.prepare_cached("SELECT max(number) FROM episodes")?.query_row([], |row| row.get(0))?;
            Ok(newest.map_or(0, unsigned))
        })
    }

    fn next_position(&self, run: &RunId) -> Result<u64, StoreError> {
        self.query(|connection| {
            let next = |row: &Row<'_>| row.get(0).map(unsigned);
            connection.prepare_cached(forgetting::NEXT_POSITION)?.query_row([&run.0], next)
        })
    }
}
