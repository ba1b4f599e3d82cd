//! Reads model folders with another adapter, and checks target folders before writing.

use crate::{AppError, EventSink, RequestError};
use clawhost_model::tokens::TextHost;
use clawhost_model::{AdapterFolder, ModelFolder};
use std::path::Path;

/// A model with its own or the given adapter.
pub(super) fn read(
    folder: &Path,
    adapter: Option<&Path>,
    texts: &TextHost,
    events: &dyn EventSink,
) -> Result<ModelFolder, AppError> {
    let mut model = crate::read_folder(folder, texts, events)?;
    if let Some(adapter) = adapter {
        model.weights = AdapterFolder::read(adapter)?.attach(&model.weights)?;
    }
    Ok(model)
}

/// Refuses to write a model into a folder with other contents.
pub(super) fn check_empty(folder: &Path, can_overwrite: bool) -> Result<(), AppError> {
    let unusable =
        |error: std::io::Error| RequestError::File { path: folder.display().to_string(), why: error.to_string() };
    if folder.exists() && std::fs::read_dir(folder).map_err(unusable)?.next().is_some() {
        return Err(RequestError::NotEmpty { folder: folder.display().to_string(), can_overwrite }.into());
    }
    Ok(())
}
