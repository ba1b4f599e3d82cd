//! Readers of the data folder that are kept open: opening one costs more than what is read.

use crate::AppError;
use clawhost_store::Reader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most idle readers: as many as usually read at once. More are opened when they are needed, and closed again.
const IDLE: usize = 8;

/// Readers of a data folder.
#[derive(Clone)]
pub(super) struct Readers {
    folder: PathBuf,
    idle: Arc<Mutex<Vec<Reader>>>,
}

impl Readers {
    /// Readers of a folder, with one that is open.
    pub(super) fn with(folder: &Path, reader: Reader) -> Self {
        Self { folder: folder.to_owned(), idle: Arc::new(Mutex::new(vec![reader])) }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads.
    ///
    /// # Errors
    /// The data folder cannot be read, or those of `read`.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Reader) -> Result<T, AppError>) -> Result<T, AppError> {
        let kept = self.idle().pop();
        let reader = kept.map_or_else(|| Reader::open(&self.folder), Ok)?;
        let found = read(&reader);
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(reader);
        }
        found
    }
}
