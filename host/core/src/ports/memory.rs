//! The ports for memory: what is remembered for a user, an agent, a team or a project.

use crate::StoreError;
use async_trait::async_trait;

/// Something that is remembered for a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// The scope, as text.
    pub scope: String,
    /// Its id, unique in the scope.
    pub id: String,
    /// Unix time in milliseconds at which it was written.
    pub at: u64,
    /// Unix time in milliseconds from which it is not used. `None`: it has no end.
    pub expires_at: Option<u64>,
    /// The id of what replaced it, which is used in its place.
    pub superseded_by: Option<String>,
    /// Its content as JSON text. A store does not interpret it.
    pub document: String,
}

/// Writes memory.
#[async_trait]
pub trait MemoryStore: Send + Sync {
    /// Writes an item; one of the same scope and id is replaced. `supersedes`: the id of an item of the scope in whose place it is used.
    /// Durable when this returns.
    ///
    /// # Errors
    /// The store cannot be written. Nothing was changed then. Likewise below.
    async fn remember(&self, row: MemoryRow, supersedes: Option<String>) -> Result<(), StoreError>;
    /// Removes an item. What it had replaced is used again. Returns whether there was one.
    async fn forget_memory(&self, scope: String, id: String) -> Result<bool, StoreError>;
}

/// Reads memory.
pub trait MemoryReader {
    /// The items of a scope, oldest first.
    ///
    /// # Errors
    /// The store cannot be read; likewise below.
    fn memories(&self, scope: &str) -> Result<Vec<MemoryRow>, StoreError>;
    /// Whether one of these scopes has an item. Quick enough for the way of a request.
    fn has_memories(&self, scopes: &[String]) -> Result<bool, StoreError>;
    /// Items of all scopes that were written behind a number, which grows, the oldest first and at most `limit`.
    fn memories_behind(&self, number: u64, limit: usize) -> Result<Vec<(u64, MemoryRow)>, StoreError>;
    /// The number of the newest item; 0 without one.
    fn newest_memory(&self) -> Result<u64, StoreError>;
    /// The scopes that have an item of this id.
    fn scopes_with(&self, id: &str) -> Result<Vec<String>, StoreError>;
    /// The scopes that have items, with their number.
    fn memory_scopes(&self) -> Result<Vec<(String, u64)>, StoreError>;
}
