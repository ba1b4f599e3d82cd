//! Decisions of routers about live sessions, until they are settled.

use crate::integers::{signed, unsigned};
use crate::keys::EpisodeKey;
use crate::reader::Reader;
use crate::writer::{Store, Write};
use async_trait::async_trait;
use clawhost_core::{
    EpisodeId, RoutedExchange, RoutedMarks, RoutedOutcome, RoutedSession, RoutingReader, RoutingStore, RunId,
    StoreError,
};
use rusqlite::{Row, Transaction, params};

/// The table of this module.
pub(crate) const TABLE: &str = "
    -- A number is never reused, so that no mark of an older decision is taken for one of a newer.
    CREATE TABLE routed (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        router TEXT NOT NULL,
        run TEXT NOT NULL,
        -- As in the table of episodes.
        episode NOT NULL,
        at INTEGER NOT NULL,
        decision TEXT NOT NULL,
        -- Tokens of the first and of the second model.
        first INTEGER NOT NULL DEFAULT 0,
        second INTEGER NOT NULL DEFAULT 0,
        -- Requests that the model did not answer.
        failures INTEGER NOT NULL DEFAULT 0,
        -- 1: its cost was counted.
        spent INTEGER NOT NULL DEFAULT 0,
        UNIQUE (run, episode, router)
    );
    CREATE INDEX routed_by_router ON routed (router, number);
";

#[async_trait]
impl RoutingStore for Store {
    async fn mark_routed(&self, marks: RoutedMarks) -> Result<(), StoreError> {
        self.write(Write::Routed(marks)).await
    }
}

/// Adds an exchange to the decision about its session, which it may bring.
pub(crate) fn routed(
    transaction: &Transaction<'_>,
    routed: &RoutedExchange,
    (run, episode): (&str, &str),
    at: u64,
) -> rusqlite::Result<()> {
    let RoutedExchange { router, decision, has_failed, tokens: [first, second] } = routed;
    let episode = EpisodeKey::of(episode);
    if let Some(decision) = decision {
        transaction
            .prepare_cached("INSERT OR IGNORE INTO routed (router, run, episode, at, decision) VALUES (?, ?, ?, ?, ?)")?
            .execute(params![router, run, episode, signed(at), decision])?;
    }
    transaction
        .prepare_cached(
            "UPDATE routed SET first = first + ?, second = second + ?, failures = failures + ?
             WHERE run = ? AND episode = ? AND router = ?",
        )?
        .execute(params![signed(*first), signed(*second), has_failed, run, episode, router])?;
    Ok(())
}

/// Marks decisions.
pub(crate) fn mark(transaction: &Transaction<'_>, marks: &RoutedMarks) -> rusqlite::Result<()> {
    let mut spent = transaction.prepare_cached("UPDATE routed SET spent = 1 WHERE number = ?")?;
    for number in &marks.spent {
        spent.execute([signed(*number)])?;
    }
    let mut settled = transaction.prepare_cached("DELETE FROM routed WHERE number = ?")?;
    for number in &marks.settled {
        settled.execute([signed(*number)])?;
    }
    Ok(())
}

fn session(row: &Row<'_>) -> rusqlite::Result<RoutedSession> {
    let episode: EpisodeKey = row.get(2)?;
    let (reward, is_failed): (Option<f64>, bool) = (row.get(9)?, row.get(10)?);
    let outcome = match reward {
        Some(reward) => RoutedOutcome::Rewarded(reward),
        None if is_failed => RoutedOutcome::Failed,
        None => RoutedOutcome::Unknown,
    };
    Ok(RoutedSession {
        number: unsigned(row.get(0)?),
        run: RunId(row.get(1)?),
        episode: EpisodeId(episode.0),
        at: unsigned(row.get(3)?),
        decision: row.get(4)?,
        tokens: [unsigned(row.get(5)?), unsigned(row.get(6)?)],
        is_spent: row.get(7)?,
        has_ended: row.get(8)?,
        outcome,
    })
}

impl RoutingReader for Reader {
    fn due_routed(&self, router: &str, now: u64, expires: u64, limit: usize) -> Result<Vec<RoutedSession>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT * FROM (
                       SELECT w.number, w.run, w.episode, w.at, w.decision, w.first, w.second, w.spent,
                         e.number IS NOT NULL AS ended,
                         CASE WHEN coalesce(e.pending_until, 0) <= ?2 THEN e.reward END AS reward,
                         coalesce(e.turns = 0 AND w.failures > 0, 0) AS failed
                       FROM routed w LEFT JOIN runs r ON r.id = w.run
                       LEFT JOIN episodes e ON e.run = r.number AND e.id = w.episode
                       WHERE w.router = ?1)
                     WHERE at < ?3 OR (ended AND (NOT spent OR reward IS NOT NULL OR failed))
                     ORDER BY number LIMIT ?4",
                )?
                .query_map(params![router, signed(now), signed(expires), signed(limit as u64)], session)?
                .collect()
        })
    }

    fn waiting_routed(&self, router: &str) -> Result<u64, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT count(*) FROM routed WHERE router = ?")?
                .query_row([router], |row| row.get(0).map(unsigned))
        })
    }
}
