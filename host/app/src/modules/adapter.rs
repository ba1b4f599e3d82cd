//! Adapters (PEFT, LoRA) that travel as modules.

use super::ModuleError;
use crate::{AppError, RequestError};
use clawhost_model::AdapterFolder;
use clawhost_registry::{CONTENT_BYTES, Published, RegistryError};
use std::collections::BTreeMap;
use std::path::Path;

/// The files of an adapter in a folder that is removed with this value.
#[derive(Debug)]
pub struct AdapterFiles(tempfile::TempDir);

impl AdapterFiles {
    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Writes the files of a module. Their names are those that an adapter has, and nothing else.
    pub(super) fn write(published: &Published) -> Result<Self, ModuleError> {
        let folder =
            tempfile::tempdir().map_err(|error| RegistryError::file(Path::new("a temporary folder"), &error))?;
        for (name, bytes) in published.files().filter(|(name, _)| AdapterFolder::FILES.contains(name)) {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).map_err(|error| RegistryError::file(&path, &error))?;
        }
        Ok(Self(folder))
    }
}

/// Reads the files of an adapter that is to be published. `None`: the folder is none.
///
/// # Errors
/// A file is missing, damaged or too large, or the kind of adapter is not supported.
pub fn adapter_files(folder: &Path) -> Result<Option<BTreeMap<String, Vec<u8>>>, AppError> {
    if !AdapterFolder::is_one(folder) {
        return Ok(None);
    }
    AdapterFolder::read(folder)
        .map_err(|error| RequestError::ModelFolder { folder: folder.display().to_string(), error })?;
    let read = |name: &str| {
        let path = folder.join(name);
        let bytes = clawhost_files::read(&path, CONTENT_BYTES).map_err(|error| RegistryError::file(&path, &error))?;
        Ok((name.to_owned(), bytes))
    };
    AdapterFolder::FILES.into_iter().map(read).collect::<Result<_, AppError>>().map(Some)
}
