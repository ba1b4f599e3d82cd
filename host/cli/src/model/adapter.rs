//! Where an adapter comes from: a folder, or a module by its name.

use crate::context::Context;
use clawhost_app::{AdapterFiles, AppError, Modules};
use std::path::{Path, PathBuf};

/// An adapter that was found. The files of a module are there as long as this value is.
pub(super) enum Located {
    /// None is asked for: the one in the model's folder.
    Own,
    Folder(PathBuf),
    Module(AdapterFiles),
}

impl Located {
    /// Finds an adapter.
    ///
    /// # Errors
    /// It is a module that cannot be used.
    pub(super) async fn find(context: &Context, adapter: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = adapter else { return Ok(Self::Own) };
        match Modules::named(&path.to_string_lossy()).map_err(AppError::from)? {
            None => Ok(Self::Folder(path.to_owned())),
            Some(module) => {
                let modules = Modules::new(&context.folder()?, context.registry()?.as_ref());
                Ok(Self::Module(modules.adapter(&module).await.map_err(AppError::from)?))
            }
        }
    }

    /// Its folder.
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Own => None,
            Self::Folder(folder) => Some(folder),
            Self::Module(files) => Some(files.folder()),
        }
    }
}
