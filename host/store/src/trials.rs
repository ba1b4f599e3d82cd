//! What was drawn for live sessions, and the trials of playbooks.

use crate::error::Fault;
use crate::integers::{signed, unsigned};
use crate::playbooks::add_version;
use crate::reader::Reader;
use crate::writer::Store;
use async_trait::async_trait;
use clawhost_core::{
    EnteredDraw, EpisodeId, RunId, SessionDraw, StoreError, StoredDraw, StoredTrials, TrialsChange, TrialsReader,
    TrialsStore, WaitingDraw,
};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

/// The tables of this module.
pub(crate) const TABLES: &str = "
    -- What was drawn for live sessions when they began.
    CREATE TABLE drawn (
        -- Never used again, so that no session is taken for another.
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        playbook TEXT NOT NULL,
        run TEXT NOT NULL,
        episode TEXT NOT NULL,
        at INTEGER NOT NULL,
        document TEXT NOT NULL,
        -- The place of the session among those that have entered the trials; NULL: it waits for its deadline.
        place INTEGER,
        -- Its reward at its deadline; NULL: there was none.
        reward REAL,
        UNIQUE (run, episode)
    );
    CREATE INDEX drawn_waiting ON drawn (playbook, at, number) WHERE place IS NULL;
    CREATE INDEX drawn_entered ON drawn (playbook, place) WHERE place IS NOT NULL;
    CREATE TABLE trials (
        playbook TEXT PRIMARY KEY,
        state TEXT,
        -- How far reflection is.
        progress TEXT
    );
";

/// Most sessions of a playbook that are kept after they have entered. They take some 300 bytes each, and say what an effect of a hundredth of reward
/// needs; the oldest leave.
const MOST_ENTERED: u64 = 200_000;

/// Keeps what was drawn for a session. The first draw counts: a session that is guided anew later belongs to what it began with.
pub(crate) fn drawn(
    transaction: &Transaction<'_>,
    draw: &SessionDraw,
    (run, episode): (&str, &str),
    at: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR IGNORE INTO drawn (playbook, run, episode, at, document) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![draw.playbook, run, episode, signed(at), draw.document])?;
    Ok(())
}

fn change(transaction: &Transaction<'_>, change: &TrialsChange) -> Result<(), Fault> {
    let TrialsChange { playbook, enters, state, progress, version } = change;
    let last: Option<i64> = transaction
        .prepare_cached("SELECT max(place) FROM drawn WHERE playbook = ? AND place IS NOT NULL")?
        .query_row([playbook], |row| row.get(0))?;
    let mut last = last.map_or(0, unsigned);
    let mut enter = transaction
        .prepare_cached("UPDATE drawn SET place = ?, reward = ? WHERE number = ? AND playbook = ? AND place IS NULL")?;
    for (number, reward) in enters {
        let entered = enter.execute(params![signed(last + 1), reward, signed(*number), playbook])?;
        last += u64::from(entered > 0);
    }
    transaction
        .prepare_cached("DELETE FROM drawn WHERE playbook = ? AND place <= ?")?
        .execute(params![playbook, signed(last.saturating_sub(MOST_ENTERED))])?;
    if state.is_some() || progress.is_some() {
        transaction
            .prepare_cached(
                "INSERT INTO trials (playbook, state, progress) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET
                 state = coalesce(excluded.state, state), progress = coalesce(excluded.progress, progress)",
            )?
            .execute(params![playbook, state, progress])?;
    }
    version.iter().try_for_each(|version| add_version(transaction, version))
}

#[async_trait]
impl TrialsStore for Store {
    async fn change_trials(&self, new: TrialsChange) -> Result<(), StoreError> {
        let door = self.checked("live trials");
        let state = new.state.map(|state| door.document(state)).transpose()?;
        let version = new.version.map(|version| self.checked("a playbook").version(version)).transpose()?;
        let progress = new.progress.map(|progress| door.document(progress)).transpose()?;
        let new = TrialsChange { state, progress, version, ..new };
        self.change_checked(move |transaction| change(transaction, &new)).await
    }
}

fn waiting(row: &Row<'_>) -> rusqlite::Result<WaitingDraw> {
    Ok(WaitingDraw {
        number: unsigned(row.get(0)?),
        run: RunId(row.get(1)?),
        episode: EpisodeId(row.get(2)?),
        at: unsigned(row.get(3)?),
        document: row.get(4)?,
    })
}

impl TrialsReader for Reader {
    fn trials(&self, playbook: &str) -> Result<StoredTrials, StoreError> {
        let known = self.query(|connection| {
            connection
                .prepare_cached("SELECT state, progress FROM trials WHERE playbook = ?")?
                .query_row([playbook], |row| Ok(StoredTrials { state: row.get(0)?, progress: row.get(1)? }))
                .optional()
        })?;
        Ok(known.unwrap_or_default())
    }

    fn waiting_draws(&self, playbook: &str, at: u64, limit: usize) -> Result<Vec<WaitingDraw>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT number, run, episode, at, document FROM drawn
                     WHERE playbook = ? AND place IS NULL AND at <= ? ORDER BY at, number LIMIT ?",
                )?
                .query_map(params![playbook, signed(at), signed(limit as u64)], waiting)?
                .collect()
        })
    }

    fn entered_draws(&self, playbook: &str, behind: u64, limit: usize) -> Result<Vec<EnteredDraw>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT place, document, reward FROM drawn
                     WHERE playbook = ? AND place > ? ORDER BY place LIMIT ?",
                )?
                .query_map(params![playbook, signed(behind), signed(limit as u64)], |row| {
                    Ok(EnteredDraw { place: unsigned(row.get(0)?), document: row.get(1)?, reward: row.get(2)? })
                })?
                .collect()
        })
    }

    fn count_waiting_draws(&self, playbook: &str) -> Result<u64, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT count(*) FROM drawn WHERE playbook = ? AND place IS NULL")?
                .query_row([playbook], |row| row.get(0).map(unsigned))
        })
    }

    fn draw_of(&self, run: &RunId, episode: &EpisodeId) -> Result<Option<StoredDraw>, StoreError> {
        let stored = |row: &Row<'_>| {
            let (number, place): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(StoredDraw { number: unsigned(number), has_entered: place.is_some(), document: row.get(2)? })
        };
        self.query(|connection| {
            connection
                .prepare_cached("SELECT number, place, document FROM drawn WHERE run = ? AND episode = ?")?
                .query_row([&run.0, &episode.0], stored)
                .optional()
        })
    }

    fn tried_playbooks(&self) -> Result<Vec<String>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT playbook FROM trials ORDER BY playbook")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }
}
