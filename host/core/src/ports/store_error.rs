//! Why nothing could be stored or read.

use crate::{Digest, Hint};

/// Why nothing could be stored or read. [`StoreError::hints`] says what may mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, or the store has reached its size limit.
    #[error(
        "{path}: no room left: the disk is full, or the size limit of the store is reached; what was recorded before is safe"
    )]
    Full {
        /// The database.
        path: String,
    },
    /// Another process holds the database.
    #[error("{path}: another process is writing to this database; wait for it")]
    Locked {
        /// The database.
        path: String,
    },
    /// The file is not a database, or a damaged one.
    #[error("{path}: not a usable database ({why}); move the file away")]
    Corrupt {
        /// The database.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// One record cannot be read.
    #[error("{path}: {what} is damaged ({why}); other records are not affected")]
    Damaged {
        /// The database.
        path: String,
        /// The record.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// It was written by a newer version.
    #[error("{path}: written by a newer clawhost (schema {found}, this one knows {known}); use that version")]
    Newer {
        /// The database.
        path: String,
        /// Its schema.
        found: u32,
        /// The newest schema that this program knows.
        known: u32,
    },
    /// It was written by a version before the first release, whose records this one does not read.
    #[error(
        "{path}: written by an older clawhost (schema {found}, this one reads {known}); keep the folder for that version, or move it away"
    )]
    Older {
        /// The database.
        path: String,
        /// Its schema.
        found: u32,
        /// The oldest schema that this program reads.
        known: u32,
    },
    /// The file cannot be written.
    #[error("{path}: cannot be written; check the permissions of the folder")]
    ReadOnly {
        /// The database or its folder.
        path: String,
    },
    /// The folder cannot be used.
    #[error("{path}: {why}")]
    Folder {
        /// The folder.
        path: String,
        /// The system's words.
        why: String,
    },
    /// There is no database yet.
    #[error("{path}: no episodes here yet")]
    Empty {
        /// The database.
        path: String,
    },
    /// A blob that a record refers to is gone.
    #[error("{what}: its content {digest} is missing from {folder}; restore the folder from a copy")]
    BlobMissing {
        /// What the record is.
        what: String,
        /// The blob.
        digest: Digest,
        /// Where blobs lie.
        folder: String,
    },
    /// A blob does not hold what its digest names.
    #[error("{what}: its content {digest} in {folder} is damaged; restore the file from a copy")]
    BlobDamaged {
        /// What the record is.
        what: String,
        /// The blob.
        digest: Digest,
        /// Where blobs lie.
        folder: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl StoreError {
    /// A stable name, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "store-full",
            Self::Locked { .. } => "store-locked",
            Self::Corrupt { .. } => "store-corrupt",
            Self::Damaged { .. } => "record-damaged",
            Self::Newer { .. } => "store-newer",
            Self::Older { .. } => "store-older",
            Self::ReadOnly { .. } => "store-read-only",
            Self::Folder { .. } => "data-folder",
            Self::Empty { .. } => "store-empty",
            Self::BlobMissing { .. } => "blob-missing",
            Self::BlobDamaged { .. } => "blob-damaged",
            Self::Other(_) => "store",
        }
    }

    /// What may mend it.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Full { .. } => vec![Hint::MakeRoom, Hint::Resume],
            Self::Damaged { .. } => vec![Hint::command("replay --all", "names every damaged record")],
            Self::BlobMissing { .. } | Self::BlobDamaged { .. } => Vec::new(),
            Self::Empty { .. } => vec![Hint::command("run", "plays some"), Hint::OtherDataFolder],
            Self::Other(_) => Vec::new(),
            _ => vec![Hint::OtherDataFolder],
        }
    }
}
