//! Where answers of live traffic are that clients name, and feedback that waits for the end of its session.

use crate::compressor::Compressor;
use crate::dictionaries::Loaded;
use crate::error::Fault;
use crate::integers::{signed, unsigned};
use crate::ledger::Ledger;
use crate::reader::Reader;
use crate::records;
use crate::writer::Store;
use async_trait::async_trait;
use clawhost_core::{
    Admission, AnswerPlace, Episode, EpisodeId, ExchangeOutcome, ExchangeRow, FeedbackKept, FeedbackReader,
    FeedbackStore, Judged, LiveSession, RunId, StoreError, WaitingFeedback,
};
use rusqlite::types::Type;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

/// The tables of this module.
pub(crate) const TABLES: &str = "
    -- Answers of live traffic by the ids that their clients know.
    CREATE TABLE answers (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        owner TEXT NOT NULL,
        user TEXT,
        run TEXT NOT NULL,
        episode TEXT NOT NULL,
        turn INTEGER NOT NULL
    );
    -- An endpoint may use an id again; the newest answer has the largest number.
    CREATE INDEX answers_by_id ON answers (id, owner, number);
    CREATE INDEX answers_by_episode ON answers (run, episode);
    -- Live sessions by their names; the newest has the largest number.
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        owner TEXT NOT NULL,
        user TEXT,
        run TEXT NOT NULL,
        episode TEXT NOT NULL
    );
    CREATE INDEX sessions_by_name ON sessions (name, owner, number);
    CREATE INDEX sessions_by_episode ON sessions (run, episode);
    -- Feedback about open episodes. A number is never reused, so that none is taken for another.
    CREATE TABLE feedback (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        run TEXT NOT NULL,
        episode TEXT NOT NULL,
        at INTEGER NOT NULL,
        key TEXT,
        record TEXT NOT NULL
    );
    CREATE INDEX feedback_by_episode ON feedback (run, episode);
";

/// Most feedback that waits for one episode: a person gives one or two for each turn.
const WAITING: u64 = 1_000;

/// A session has begun.
pub(crate) fn opened(
    transaction: &Transaction<'_>,
    owner: &str,
    session: &LiveSession,
    (run, episode): (&str, &str),
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT INTO sessions (name, owner, user, run, episode) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![session.session, owner, session.user, run, episode])?;
    Ok(())
}

/// An exchange was recorded that was not before.
pub(crate) fn answered(transaction: &Transaction<'_>, row: &ExchangeRow) -> rusqlite::Result<()> {
    let Some(id) = row.answer_id.as_ref().filter(|_| row.outcome == ExchangeOutcome::Complete) else { return Ok(()) };
    let (run, episode) = (&row.episode.run.0, &row.episode.id.0);
    transaction
        .prepare_cached(
            "INSERT INTO answers (id, owner, user, run, episode, turn) VALUES (?1, ?2, ?6, ?3, ?4,
             (SELECT count(*) FROM exchanges WHERE run = ?3 AND episode = ?4 AND outcome = 2 AND position < ?5))",
        )?
        .execute(params![id, row.owner, run, episode, row.position, row.episode.session.user])?;
    Ok(())
}

fn keep(transaction: &Transaction<'_>, feedback: &WaitingFeedback, record: &str) -> rusqlite::Result<FeedbackKept> {
    let WaitingFeedback { run, episode, at, key, .. } = feedback;
    let is_open = transaction
        .prepare_cached("SELECT 1 FROM open_episodes WHERE run = ? AND id = ?")?
        .exists([&run.0, &episode.0])?;
    if !is_open {
        return Ok(FeedbackKept::Ended);
    }
    if let Some(key) = key {
        let known: Option<String> = transaction
            .prepare_cached("SELECT record FROM feedback WHERE run = ? AND episode = ? AND key = ?")?
            .query_row([&run.0, &episode.0, key], |row| row.get(0))
            .optional()?;
        match known {
            Some(known) if known == record => return Ok(FeedbackKept::Repeated),
            Some(_) => return Ok(FeedbackKept::KeyReused),
            None => {}
        }
    }
    let waiting: u64 = transaction
        .prepare_cached("SELECT count(*) FROM feedback WHERE run = ? AND episode = ?")?
        .query_row([&run.0, &episode.0], |row| row.get(0).map(unsigned))?;
    if waiting >= WAITING {
        return Ok(FeedbackKept::TooMuch);
    }
    transaction
        .prepare_cached("INSERT INTO feedback (run, episode, at, key, record) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![run.0, episode.0, signed(*at), key, record])?;
    Ok(FeedbackKept::Waits)
}

/// Adds the feedback that waited for an episode, in the order in which it came, in the transaction that records the episode: no later feedback
/// can come before it. What the episode refuses or nobody can read keeps waiting, and is due.
pub(crate) fn add_waiting(
    transaction: &Transaction<'_>,
    Episode { run, id, .. }: &Episode,
    compressor: &Compressor,
    ledger: &mut Ledger<'_>,
) -> Result<(), Fault> {
    let found: Vec<Option<WaitingFeedback>> = transaction
        .prepare_cached(
            "SELECT number, run, episode, at, key, record FROM feedback WHERE run = ? AND episode = ? ORDER BY number",
        )?
        .query_map([&run.0, &id.0], |row| Ok(waiting(row).ok()))?
        .collect::<rusqlite::Result<_>>()?;
    // Of verdicts that are stored already.
    let dictionaries = Loaded::default();
    for WaitingFeedback { number, run, episode, record, at, key } in found.into_iter().flatten() {
        let judged = Judged { run, episode, record, at, key };
        match records::judge(transaction, &judged, (compressor, &dictionaries), ledger)? {
            Admission::Added { .. } | Admission::Unchanged { .. } => {
                transaction.prepare_cached("DELETE FROM feedback WHERE number = ?")?.execute([signed(number)])?;
            }
            Admission::Refused(_) => {}
        }
    }
    Ok(())
}

#[async_trait]
impl FeedbackStore for Store {
    async fn keep_feedback(&self, feedback: WaitingFeedback) -> Result<FeedbackKept, StoreError> {
        let door = self.checked("feedback");
        let (record, key) = (door.record(feedback.record)?, door.record(feedback.key)?);
        let text = serde_json::to_string(&record).map_err(|error| StoreError::Other(format!("feedback: {error}")))?;
        let feedback = WaitingFeedback { record, key, ..feedback };
        self.change(move |transaction| keep(transaction, &feedback, &text)).await
    }

    async fn drop_feedback(&self, numbers: Vec<u64>) -> Result<(), StoreError> {
        self.change(move |transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM feedback WHERE number = ?")?;
            numbers.iter().try_for_each(|number| delete.execute([signed(*number)]).map(drop))
        })
        .await
    }
}

fn place(row: &Row<'_>) -> rusqlite::Result<AnswerPlace> {
    let turn: Option<i64> = row.get(4)?;
    Ok(AnswerPlace {
        owner: row.get(0)?,
        user: row.get(1)?,
        run: RunId(row.get(2)?),
        episode: EpisodeId(row.get(3)?),
        turn: turn.and_then(|turn| u32::try_from(turn).ok()),
    })
}

fn waiting(row: &Row<'_>) -> rusqlite::Result<WaitingFeedback> {
    let record: String = row.get(5)?;
    let record = serde_json::from_str(&record)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(5, Type::Text, Box::new(error)))?;
    Ok(WaitingFeedback {
        number: unsigned(row.get(0)?),
        run: RunId(row.get(1)?),
        episode: EpisodeId(row.get(2)?),
        at: unsigned(row.get(3)?),
        key: row.get(4)?,
        record,
    })
}

/// The places that a query finds by a name.
fn places(reader: &Reader, query: &str, name: &str) -> Result<Vec<AnswerPlace>, StoreError> {
    reader.query(|connection| connection.prepare_cached(query)?.query_map([name], place)?.collect())
}

impl FeedbackReader for Reader {
    fn answer_places(&self, id: &str) -> Result<Vec<AnswerPlace>, StoreError> {
        let query = "SELECT owner, user, run, episode, turn, max(number) AS newest FROM answers WHERE id = ?
                     GROUP BY owner, user ORDER BY newest DESC";
        places(self, query, id)
    }

    fn session_places(&self, session: &str) -> Result<Vec<AnswerPlace>, StoreError> {
        let query = "SELECT owner, user, run, episode, NULL, max(number) AS newest FROM sessions WHERE name = ?
                     GROUP BY owner, user ORDER BY newest DESC";
        places(self, query, session)
    }

    fn waiting_feedback(&self, run: &RunId, episode: &EpisodeId) -> Result<Vec<WaitingFeedback>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT number, run, episode, at, key, record FROM feedback
                     WHERE run = ? AND episode = ? ORDER BY number",
                )?
                .query_map([&run.0, &episode.0], waiting)?
                .collect()
        })
    }

    fn due_feedback(&self, limit: usize) -> Result<Vec<WaitingFeedback>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT f.number, f.run, f.episode, f.at, f.key, f.record FROM feedback f
                     WHERE NOT EXISTS (SELECT 1 FROM open_episodes o WHERE o.run = f.run AND o.id = f.episode)
                     ORDER BY f.number LIMIT ?",
                )?
                .query_map([signed(limit as u64)], waiting)?
                .collect()
        })
    }
}
