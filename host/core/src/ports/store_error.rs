//! Errors of stores.

use crate::{Digest, Hint, RunId, RunName};

/// Why reading or writing a store failed. [`StoreError::hints`] suggests remedies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, or the store's size limit is reached.
    #[error(
        "{path}: no room left: the disk is full, or the size limit of the store is reached; what was recorded before is safe"
    )]
    Full {
        /// The database.
        path: String,
    },
    /// Another process has locked the database.
    #[error("{path}: another process is writing to this database; wait for it")]
    Locked {
        /// The database.
        path: String,
    },
    /// The file is not a database, or is damaged.
    #[error("{path}: not a usable database ({why}); move the file away")]
    Corrupt {
        /// The database.
        path: String,
        /// The problem.
        why: String,
    },
    /// One record cannot be read.
    #[error("{path}: {what} is damaged ({why}); other records are not affected")]
    Damaged {
        /// The database.
        path: String,
        /// The record.
        what: String,
        /// The problem.
        why: String,
    },
    /// The database was written by a newer version.
    #[error("{path}: written by a newer clawhost (schema {found}, this one knows {known}); use that version")]
    Newer {
        /// The database.
        path: String,
        /// Schema of the database.
        found: u32,
        /// Newest schema that this program reads.
        known: u32,
    },
    /// The database was written by an older, incompatible version.
    #[error(
        "{path}: written by an older clawhost (schema {found}, this one reads {known}); keep the folder for that version, or move it away"
    )]
    Older {
        /// The database.
        path: String,
        /// Schema of the database.
        found: u32,
        /// Oldest schema that this program reads.
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
        /// The system's message.
        why: String,
    },
    /// There is no database yet.
    #[error("{path}: no episodes here yet")]
    Empty {
        /// The database.
        path: String,
    },
    /// A blob that a record refers to is missing.
    #[error("{what}: its content {digest} is missing from {folder}; restore the folder from a copy")]
    BlobMissing {
        /// The kind of record.
        what: String,
        /// The blob.
        digest: Digest,
        /// The folder of blobs.
        folder: String,
    },
    /// The content of a blob does not match its digest.
    #[error("{what}: its content {digest} in {folder} is damaged; restore the file from a copy")]
    BlobDamaged {
        /// The kind of record.
        what: String,
        /// The blob.
        digest: Digest,
        /// The folder of blobs.
        folder: String,
    },
    /// Another run has this name.
    #[error("{run} is called `{name}` already")]
    NameTaken {
        /// The name.
        name: RunName,
        /// The run that has it.
        run: RunId,
    },
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

impl StoreError {
    /// A stable identifier, for machines.
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
            Self::NameTaken { .. } => "name-taken",
            Self::Other(_) => "store",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Full { .. } => vec![Hint::MakeRoom, Hint::Resume],
            Self::Damaged { .. } => vec![Hint::command("replay --all", "names every damaged record")],
            Self::BlobMissing { .. } | Self::BlobDamaged { .. } => Vec::new(),
            Self::Empty { .. } => vec![
                Hint::command("run", "plays some"),
                Hint::command("serve", "records those of agents"),
                Hint::OtherDataFolder,
            ],
            Self::NameTaken { .. } => {
                vec![Hint::change("name"), Hint::command("runs rename RUN NAME", "gives that run another one")]
            }
            Self::Other(_) => Vec::new(),
            _ => vec![Hint::OtherDataFolder],
        }
    }
}
