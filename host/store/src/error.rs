//! From SQLite's errors to ours.

use clawhost_core::StoreError;
use rusqlite::ErrorCode;
use std::path::Path;

/// What a SQLite error means to the person at the keyboard.
pub(crate) fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let name = path.display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(name),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(name),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(name, error.to_string()),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StoreError::ReadOnly(name),
        _ => StoreError::Other(format!("{name}: {error}")),
    }
}

/// A document that cannot be read back.
pub(crate) fn document(path: &Path, what: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Damaged(path.display().to_string(), what.to_owned(), error.to_string())
}
