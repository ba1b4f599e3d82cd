//! Converts errors of SQLite, JSON and the file system to the store's errors.

use clawhost_core::StoreError;
use rusqlite::ErrorCode;
use std::io;
use std::path::Path;

/// The store's error for a SQLite error.
pub(crate) fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Corrupt { path, why: error.to_string() }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly { path }
        }
        _ => StoreError::Other(format!("{path}: {error}")),
    }
}

/// The error for a record that cannot be read.
pub(crate) fn damaged(path: &Path, what: &str, why: &impl ToString) -> StoreError {
    StoreError::Damaged { path: path.display().to_string(), what: what.to_owned(), why: why.to_string() }
}

/// What is wrong with a row that has a value of the wrong type. `None`: the error is another one.
pub(crate) fn wrong_type(error: &rusqlite::Error) -> Option<String> {
    match error {
        rusqlite::Error::InvalidColumnType(_, column, found) => {
            Some(format!("its column {column} has a value of the type {found}"))
        }
        rusqlite::Error::IntegralValueOutOfRange(_, number) => Some(format!("a column has the number {number}")),
        rusqlite::Error::FromSqlConversionFailure(_, _, why) => Some(format!("a column cannot be read: {why}")),
        rusqlite::Error::Utf8Error(..) => Some("a column has a text that is not UTF-8".to_owned()),
        _ => None,
    }
}

/// The store's error for a row: a value of the wrong type is damage of its record.
pub(crate) fn explain_row(path: &Path, what: &str, error: &rusqlite::Error) -> StoreError {
    wrong_type(error).map_or_else(|| explain(path, error), |why| damaged(path, what, &why))
}

/// The store's error for a file system error.
pub(crate) fn file(path: &Path, error: &io::Error) -> StoreError {
    let path = path.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::Full { path }
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path },
        _ => StoreError::Folder { path, why: error.to_string() },
    }
}

/// Why a transaction was not committed.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    pub(crate) fn explain(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => explain(path, &error),
            Self::Store(error) => error,
        }
    }
}
