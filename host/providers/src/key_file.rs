//! Keys from files.

use crate::ProviderError;
use clawhost_core::Secret;
use std::path::Path;

/// Largest file with a key. Keys have up to a few hundred characters.
const KEY_FILE_BYTES: u64 = 64 << 10;

/// A key from a file that contains only the key; none if it is empty.
///
/// # Errors
/// The file cannot be read.
pub fn key_from_file(path: &Path) -> Result<Option<Secret>, ProviderError> {
    let text = clawhost_files::read_text(path, KEY_FILE_BYTES)
        .map_err(|error| ProviderError::KeyFile(path.display().to_string(), error))?;
    Ok(Secret::new(&text))
}
