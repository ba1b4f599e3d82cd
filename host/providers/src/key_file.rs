//! Keys from files.

use crate::ProviderError;
use clawhost_core::Secret;
use std::path::Path;

/// A key from a file that contains only the key; none if it is empty.
///
/// # Errors
/// The file cannot be read.
pub fn key_from_file(path: &Path) -> Result<Option<Secret>, ProviderError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| ProviderError::KeyFile(path.display().to_string(), error))?;
    Ok(Secret::new(&text))
}
