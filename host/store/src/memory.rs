//! What is remembered for users, agents, teams and projects.

use crate::integers::{signed, unsigned};
use crate::reader::Reader;
use crate::writer::Store;
use async_trait::async_trait;
use clawhost_core::{MemoryReader, MemoryRow, MemoryStore, StoreError};
use rusqlite::{Row, Transaction, params};

/// The tables of this module.
pub(crate) const TABLES: &str = "
    CREATE TABLE memories (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        scope TEXT NOT NULL,
        id TEXT NOT NULL,
        at INTEGER NOT NULL,
        -- NULL: it has no end.
        expires_at INTEGER,
        -- The id of what is used in its place.
        superseded_by TEXT,
        document TEXT NOT NULL,
        UNIQUE (scope, id)
    );
    CREATE INDEX memories_by_id ON memories (id);
";

fn write(transaction: &Transaction<'_>, row: &MemoryRow, supersedes: Option<&str>) -> rusqlite::Result<()> {
    let MemoryRow { scope, id, at, expires_at, superseded_by, document } = row;
    transaction
        .prepare_cached(
            "INSERT INTO memories (scope, id, at, expires_at, superseded_by, document) VALUES (?, ?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET at = excluded.at, expires_at = excluded.expires_at,
             superseded_by = excluded.superseded_by, document = excluded.document",
        )?
        .execute(params![scope, id, signed(*at), expires_at.map(signed), superseded_by, document])?;
    if let Some(former) = supersedes.filter(|former| former != id) {
        transaction.prepare_cached("UPDATE memories SET superseded_by = ? WHERE scope = ? AND id = ?")?.execute([
            id.as_str(),
            scope,
            former,
        ])?;
    }
    Ok(())
}

/// Removes an item. Returns whether there was one.
pub(crate) fn forget(transaction: &Transaction<'_>, scope: &str, id: &str) -> rusqlite::Result<bool> {
    // What it had replaced is used again, unless it was replaced itself.
    transaction
        .prepare_cached(
            "UPDATE memories SET superseded_by = (SELECT superseded_by FROM memories WHERE scope = ?1 AND id = ?2)
             WHERE scope = ?1 AND superseded_by = ?2",
        )?
        .execute([scope, id])?;
    let removed =
        transaction.prepare_cached("DELETE FROM memories WHERE scope = ? AND id = ?")?.execute([scope, id])?;
    Ok(removed > 0)
}

#[async_trait]
impl MemoryStore for Store {
    async fn remember(&self, row: MemoryRow, supersedes: Option<String>) -> Result<(), StoreError> {
        let document = self.checked("memory").document(row.document)?;
        let row = MemoryRow { document, ..row };
        self.change(move |transaction| write(transaction, &row, supersedes.as_deref())).await
    }

    async fn forget_memory(&self, scope: String, id: String) -> Result<bool, StoreError> {
        self.change(move |transaction| forget(transaction, &scope, &id)).await
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<MemoryRow> {
    Ok(MemoryRow {
        scope: row.get(0)?,
        id: row.get(1)?,
        at: unsigned(row.get(2)?),
        expires_at: row.get::<_, Option<i64>>(3)?.map(unsigned),
        superseded_by: row.get(4)?,
        document: row.get(5)?,
    })
}

impl MemoryReader for Reader {
    fn memories(&self, scope: &str) -> Result<Vec<MemoryRow>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT scope, id, at, expires_at, superseded_by, document FROM memories WHERE scope = ? ORDER BY number",
                )?
                .query_map([scope], row)?
                .collect()
        })
    }

    fn has_memories(&self, scopes: &[String]) -> Result<bool, StoreError> {
        if scopes.is_empty() {
            return Ok(false);
        }
        let places = vec!["?"; scopes.len()].join(", ");
        self.query(|connection| {
            connection
                .prepare_cached(&format!("SELECT EXISTS (SELECT 1 FROM memories WHERE scope IN ({places}))"))?
                .query_row(rusqlite::params_from_iter(scopes), |row| row.get(0))
        })
    }

    fn memories_behind(&self, number: u64, limit: usize) -> Result<Vec<(u64, MemoryRow)>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT scope, id, at, expires_at, superseded_by, document, number FROM memories
                     WHERE number > ? ORDER BY number LIMIT ?",
                )?
                .query_map(params![signed(number), signed(limit as u64)], |columns| {
                    Ok((unsigned(columns.get(6)?), row(columns)?))
                })?
                .collect()
        })
    }

    fn newest_memory(&self) -> Result<u64, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT coalesce(max(number), 0) FROM memories")?
                .query_row([], |row| row.get(0).map(unsigned))
        })
    }

    fn scopes_with(&self, id: &str) -> Result<Vec<String>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT scope FROM memories WHERE id = ?")?
                .query_map([id], |row| row.get(0))?
                .collect()
        })
    }

    fn memory_scopes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.query(|connection| {
            connection
                .prepare_cached("SELECT scope, count(*) FROM memories GROUP BY scope ORDER BY scope")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1).map(unsigned)?)))?
                .collect()
        })
    }
}
