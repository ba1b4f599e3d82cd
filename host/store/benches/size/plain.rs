//! The same episodes as plain JSON text, in tables with text ids as keys: the baseline of the comparison.

use clawhost_core::{Episode, Recorded};
use rusqlite::{Connection, params};
use std::path::Path;

const TABLES: &str = "
    CREATE TABLE episodes (
        run TEXT NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, task TEXT NOT NULL, split TEXT NOT NULL,
        environment TEXT NOT NULL, environment_digest TEXT NOT NULL, state_id TEXT NOT NULL, ending TEXT NOT NULL, reward REAL,
        turns INTEGER NOT NULL, format INTEGER NOT NULL, created_at INTEGER NOT NULL, document TEXT NOT NULL
    );
    CREATE UNIQUE INDEX episodes_by_id ON episodes (run, id);
    CREATE TABLE verdicts (
        run TEXT NOT NULL, episode TEXT NOT NULL, position INTEGER NOT NULL, reward_digest TEXT NOT NULL,
        document TEXT NOT NULL, PRIMARY KEY (run, episode, position)
    ) WITHOUT ROWID;
";

/// A database of plain documents.
pub(crate) struct Plain(Connection);

impl Plain {
    pub(crate) fn create(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection.pragma_update(None, "wal_autocheckpoint", 4_000).unwrap();
        connection.execute_batch(TABLES).unwrap();
        Self(connection)
    }

    /// Writes a batch in one transaction.
    pub(crate) fn append(&mut self, batch: &[Recorded]) {
        let transaction = self.0.transaction().unwrap();
        for Recorded { episode, .. } in batch {
            let plain = Episode { verdicts: Vec::new(), ..Episode::clone(episode) };
            let environment = &episode.simulated().unwrap().environment;
            transaction
                .prepare_cached("INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                .unwrap()
                .execute(params![
                    episode.run.0,
                    episode.id.0,
                    episode.index.cast_signed(),
                    episode.task.id,
                    episode.task.split,
                    environment.name,
                    environment.digest.to_string(),
                    episode.state_id.to_string(),
                    episode.ending.label(),
                    episode.reward,
                    episode.turns.len().cast_signed(),
                    episode.format,
                    episode.created_at.cast_signed(),
                    serde_json::to_string(&plain).unwrap(),
                ])
                .unwrap();
            for (position, verdict) in episode.verdicts.iter().enumerate() {
                let document = serde_json::to_string(verdict).unwrap();
                let reward = verdict.reward.digest.to_string();
                transaction
                    .prepare_cached("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?)")
                    .unwrap()
                    .execute(params![episode.run.0, episode.id.0, position.cast_signed(), reward, document])
                    .unwrap();
            }
        }
        transaction.commit().unwrap();
    }

    pub(crate) fn episode(&self, run: &str, id: &str) -> Episode {
        let sql = "SELECT document FROM episodes WHERE run = ? AND id = ?";
        let text: String = self.0.prepare_cached(sql).unwrap().query_row([run, id], |row| row.get(0)).unwrap();
        let mut episode: Episode = serde_json::from_str(&text).unwrap();
        let sql = "SELECT document FROM verdicts WHERE run = ? AND episode = ? ORDER BY position";
        let mut statement = self.0.prepare_cached(sql).unwrap();
        for text in statement.query_map([run, id], |row| row.get::<_, String>(0)).unwrap() {
            episode.verdicts.push(serde_json::from_str(&text.unwrap()).unwrap());
        }
        episode
    }
}
