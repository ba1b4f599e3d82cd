//! The store as the gateway needs it.

use clawhost_core::{EpisodeStore, FeedbackStore, LiveStore, PoolStore, StoreError, StoreReader};
use std::sync::Arc;

/// Opens readers of what is stored.
pub type OpenReader = Box<dyn Fn() -> Result<Box<dyn StoreReader>, StoreError> + Send + Sync>;

/// Writes and reads captured episodes.
pub struct CaptureStore {
    /// Writes runs and episodes.
    pub episodes: Arc<dyn EpisodeStore>,
    /// Writes exchanges.
    pub live: Arc<dyn LiveStore>,
    /// Writes the data pool.
    pub pool: Arc<dyn PoolStore>,
    /// Writes feedback that waits.
    pub feedback: Arc<dyn FeedbackStore>,
    /// Opens a reader.
    pub reader: OpenReader,
}

impl CaptureStore {
    /// A reader of what is stored.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn reader(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        (self.reader)()
    }
}
