//! Small JSON files of the data folder that commands change: read through one door, written whole or not at all.

use crate::workspace::make;
use crate::{AppError, RequestError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write as _;
use std::path::Path;

/// Largest size in bytes: thousands of entries.
const BYTES: u64 = 1 << 20;

fn unusable(path: &Path, why: impl std::fmt::Display) -> AppError {
    RequestError::File { path: path.display().to_string(), why: why.to_string() }.into()
}

/// The document of a file, if there is one. `format`: the one that this program reads.
///
/// # Errors
/// The file is damaged, has another format, or cannot be read.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    format: u32,
    format_of: impl Fn(&T) -> u32,
) -> Result<Option<T>, AppError> {
    if !path.exists() {
        return Ok(None);
    }
    let text = clawhost_files::read_text(path, BYTES).map_err(|error| unusable(path, error))?;
    let document: T = serde_json::from_str(&text).map_err(|error| unusable(path, error))?;
    let found = format_of(&document);
    if found != format {
        return Err(unusable(path, format!("format {found}; this program reads format {format}")));
    }
    Ok(Some(document))
}

/// Replaces a file of a folder. Only its owner may read it.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(folder: &Path, name: &str, document: &impl Serialize) -> Result<(), AppError> {
    make(folder)?;
    let path = folder.join(name);
    let text = serde_json::to_string_pretty(document).map_err(|error| unusable(&path, error))?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| unusable(&path, error))?;
    file.write_all(text.as_bytes()).map_err(|error| unusable(&path, error))?;
    file.persist(&path).map_err(|error| unusable(&path, error.error))?;
    Ok(())
}
