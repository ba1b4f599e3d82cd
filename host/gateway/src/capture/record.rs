//! A record of the spool: what the store needs to know on a first line, and the exchange behind it.

use clawhost_capture::{Answer, Exchange};
use clawhost_core::{EpisodeId, ExchangeOutcome, ExchangeRow, LiveSession, OpenEpisode, RunId};
use serde::{Deserialize, Serialize};

/// What a session is called in records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) run: RunId,
    pub(crate) episode: EpisodeId,
    pub(crate) index: u64,
    pub(crate) session: LiveSession,
    /// Unix time in milliseconds.
    pub(crate) opened_at: u64,
}

#[derive(Serialize, Deserialize)]
struct Head {
    run: RunId,
    episode: EpisodeId,
    index: u64,
    session: LiveSession,
    opened_at: u64,
    position: u32,
    at: u64,
    outcome: u8,
}

/// The bytes of a record.
pub(crate) fn write(label: &Label, exchange: &Exchange) -> serde_json::Result<Vec<u8>> {
    let outcome = match exchange.answer {
        Answer::Failed { .. } => 0,
        Answer::Incomplete { .. } => 1,
        Answer::Complete(_) => 2,
    };
    let head = Head {
        run: label.run.clone(),
        episode: label.episode.clone(),
        index: label.index,
        session: label.session.clone(),
        opened_at: label.opened_at,
        position: exchange.position,
        at: exchange.at,
        outcome,
    };
    let mut bytes = Vec::with_capacity(2048);
    serde_json::to_writer(&mut bytes, &head)?;
    bytes.push(b'\n');
    serde_json::to_writer(&mut bytes, exchange)?;
    Ok(bytes)
}

/// The row of a record. `None`: it is no record of this program.
pub(crate) fn row(record: Vec<u8>) -> Option<ExchangeRow> {
    let mut text = String::from_utf8(record).ok()?;
    let line = text.find('\n')?;
    let head: Head = serde_json::from_str(text.get(..line)?).ok()?;
    let outcome = match head.outcome {
        0 => ExchangeOutcome::Failed,
        1 => ExchangeOutcome::Incomplete,
        _ => ExchangeOutcome::Complete,
    };
    text.drain(..=line);
    let Head { run, episode: id, index, session, opened_at, position, at, .. } = head;
    let episode = OpenEpisode { run, id, index, session, opened_at };
    Some(ExchangeRow { episode, position, at, outcome, document: text })
}
