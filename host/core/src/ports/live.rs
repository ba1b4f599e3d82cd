//! The ports for live traffic: exchanges of agents are recorded one by one, and become an episode when their session ends.

use super::{Pooled, RoutedExchange, SessionDraw};
use crate::{EpisodeId, LiveSession, RunId, StoreError};
use async_trait::async_trait;
use serde::Serialize;

/// A live episode in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEpisode {
    /// The run that it will belong to.
    pub run: RunId,
    /// Its id.
    pub id: EpisodeId,
    /// Its position in the run.
    pub index: u64,
    /// Its session.
    pub session: LiveSession,
    /// Unix time in milliseconds.
    pub opened_at: u64,
}

/// How far a live episode is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeProgress {
    /// The episode.
    pub episode: OpenEpisode,
    /// Answered exchanges.
    pub turns: u64,
    /// Whether the last exchange was answered whole.
    pub is_complete: bool,
    /// Unix time of the last exchange in milliseconds.
    pub last_at: u64,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeOutcome {
    /// With an error.
    Failed,
    /// The answer broke off.
    Incomplete,
    /// With a whole answer.
    Complete,
}

/// One exchange of a live episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeRow {
    /// The episode. Its first exchange opens it.
    pub episode: OpenEpisode,
    /// Position in the session, from 0. An exchange that is stored already stays as it is.
    pub position: u32,
    /// Unix time in milliseconds.
    pub at: u64,
    /// How it ended.
    pub outcome: ExchangeOutcome,
    /// The exchange as JSON text. A store does not interpret it.
    pub document: String,
    /// Where it belongs in the data pool, if it belongs there.
    pub pooled: Option<Pooled>,
    /// What it adds to the decision of a router about its session, if one decided.
    pub routed: Option<RoutedExchange>,
    /// What was drawn for its session, if something was.
    pub drawn: Option<SessionDraw>,
    /// Name of the key whose client asked; empty without one.
    pub owner: String,
    /// Id of the answer, as the client knows it, if there is one.
    pub answer_id: Option<String>,
    /// Whether its episode is a conversation, and not a side turn or a repetition.
    pub is_main: bool,
}

/// A place in the files from which exchanges are taken over: everything before it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SpoolPlace {
    /// Number of the file.
    pub segment: u64,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// A response that a client may read, continue or delete by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseRow {
    /// Name of the key whose client may; empty without keys.
    pub owner: String,
    /// Its id. A response that is stored already stays as it is.
    pub id: String,
    /// The run of its exchange.
    pub run: RunId,
    /// Unix time in milliseconds.
    pub at: u64,
    /// The response with its input as JSON text. A store does not interpret it.
    pub document: String,
}

/// A change of the responses that clients may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseChange {
    /// One is stored.
    Stored(ResponseRow),
    /// A client deleted one. Its exchange stays.
    Deleted {
        /// Name of the client's key.
        owner: String,
        /// Its id.
        id: String,
    },
}

/// What is taken over at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExchangeBatch {
    /// Exchanges.
    pub exchanges: Vec<ExchangeRow>,
    /// Changes of responses, in order.
    pub responses: Vec<ResponseChange>,
    /// Everything before this place is part of this batch or of earlier ones.
    pub through: SpoolPlace,
}

/// Writes live traffic.
#[async_trait]
pub trait LiveStore: Send + Sync {
    /// Records a batch in one transaction. Durable when this returns.
    ///
    /// # Errors
    /// The store cannot be written. Nothing was recorded then.
    async fn record_exchanges(&self, batch: ExchangeBatch) -> Result<(), StoreError>;
}

/// Reads live traffic.
pub trait LiveReader {
    /// Live episodes in progress, of one run or of all, newest run first.
    ///
    /// # Errors
    /// The store cannot be read; likewise for all methods below.
    fn open_episodes(&self, run: Option<&RunId>) -> Result<Vec<EpisodeProgress>, StoreError>;
    /// Those of all runs that were answered last, the latest first, at most `limit`.
    fn newest_open(&self, limit: usize) -> Result<Vec<EpisodeProgress>, StoreError>;
    /// The session of a live episode in progress. `None`: there is no such episode, or it has ended.
    fn open_session(&self, run: &RunId, episode: &EpisodeId) -> Result<Option<LiveSession>, StoreError>;
    /// The exchanges of a live episode in progress as JSON texts, in order.
    fn exchanges(&self, run: &RunId, episode: &EpisodeId) -> Result<Vec<String>, StoreError>;
    /// The document of a response of a key's client.
    fn response(&self, owner: &str, id: &str) -> Result<Option<String>, StoreError>;
    /// The place up to which exchanges were taken over.
    fn spool_place(&self) -> Result<SpoolPlace, StoreError>;
    /// The episodes behind a number, which grows, the oldest first and at most `limit`: live ones with their names as `RUN/EPISODE`.
    fn ended_after(&self, number: u64, limit: usize) -> Result<Vec<(u64, Option<String>)>, StoreError>;
    /// The number of the newest episode; 0 without one.
    fn newest_ended(&self) -> Result<u64, StoreError>;
    /// The first position of a run behind those of its episodes, ended or in progress.
    fn next_position(&self, run: &RunId) -> Result<u64, StoreError>;
}
