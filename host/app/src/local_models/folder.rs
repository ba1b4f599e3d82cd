//! Reads model folders with another adapter, and checks target folders before writing.

use crate::{AppError, EventSink, RequestError};
use clawhost_model::tokens::TextHost;
use clawhost_model::{AdapterFolder, Dtype, ModelFolder};
use std::path::Path;

/// A model in a folder, and how it is opened.
#[derive(Debug, Clone, Copy)]
pub struct LocalSource<'a> {
    /// Its folder.
    pub folder: &'a Path,
    /// The adapter in place of the one in its folder.
    pub adapter: Option<&'a Path>,
    /// How its matrices are kept in memory. `None`: as they are stored.
    pub dtype: Option<Dtype>,
}

impl<'a> LocalSource<'a> {
    /// The model as its folder has it.
    pub fn new(folder: &'a Path) -> Self {
        Self { folder, adapter: None, dtype: None }
    }
}

/// Reads a model.
pub(super) fn read(source: LocalSource<'_>, texts: &TextHost, events: &dyn EventSink) -> Result<ModelFolder, AppError> {
    let mut model = crate::read_folder(source.folder, source.dtype, texts, events)?;
    if let Some(adapter) = source.adapter {
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
