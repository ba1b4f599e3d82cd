//! Import and export of models (transformers) and adapters (PEFT).

use super::folder::{LocalSource, check_empty, read};
use crate::{AppError, EventSink, RequestError};
use clawhost_core::Digest;
use clawhost_model::tokens::TextHost;
use clawhost_model::{LocalModelError, ModelFolder, Stored, digest};
use std::path::{Path, PathBuf};

/// A model that was imported or exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchanged {
    /// The folder that was written.
    pub folder: PathBuf,
    /// The name of its architecture.
    pub architecture: &'static str,
    /// Number of parameters.
    pub parameters: u64,
    /// Whether it has an adapter.
    pub has_adapter: bool,
    /// The digest of its weights.
    pub weights: Digest,
}

impl Exchanged {
    fn of(model: &ModelFolder, folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            architecture: model.config.architecture.name(),
            parameters: model.config.parameters(),
            has_adapter: model.weights.has_adapter(),
            weights: digest(&model.weights),
        }
    }
}

/// Imports a Hugging Face model: every weight is checked by name and shape, then its files are copied, with the
/// adapter, if one is given.
///
/// # Errors
/// The source is not a supported model, the adapter does not fit, or the target is not empty or cannot be written.
pub fn import_model(
    source: &Path,
    target: &Path,
    adapter: Option<&Path>,
    texts: &TextHost,
) -> Result<Exchanged, AppError> {
    let shown = source.display().to_string();
    if !source.is_dir() && !ModelFolder::is_one(source).unwrap_or_default() {
        let why = format!("{shown} is not a folder; download all files of the model first");
        return Err(RequestError::Target(why).into());
    }
    check_empty(target, false)?;
    let refused = |error: LocalModelError| match &error {
        // The error names the file. An error in the target is not the request's fault.
        LocalModelError::File { path, .. } if !path.starts_with(source) => AppError::from(error),
        LocalModelError::File { .. } => RequestError::Other(error.to_string()).into(),
        _ => RequestError::ModelFolder { folder: shown.clone(), error }.into(),
    };
    let model = ModelFolder::import(source, target, adapter, texts).map_err(refused)?;
    Ok(Exchanged::of(&model, target))
}

/// The settings of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The model's folder.
    pub source: PathBuf,
    /// The target: a new or an empty folder.
    pub target: PathBuf,
    /// An adapter that replaces the one in the model's folder.
    pub adapter: Option<PathBuf>,
    /// Whether the adapter is merged into the weights.
    pub merge: bool,
    /// The number format of the weights.
    pub stored: Stored,
    /// Largest size of a weight file. `None`: one file.
    pub shard_bytes: Option<u64>,
}

/// Exports a model for transformers, with its adapter for PEFT, or merged.
///
/// # Errors
/// There is no such model, there is no adapter to merge, or the target is not empty or cannot be written.
pub fn export_model(export: &Export, events: &dyn EventSink) -> Result<Exchanged, AppError> {
    check_empty(&export.target, false)?;
    // Their texts are copied, and not interpreted.
    let source = LocalSource { folder: &export.source, adapter: export.adapter.as_deref(), dtype: None };
    let mut model = read(source, &TextHost::InProcess, events)?;
    if export.merge {
        if !model.weights.has_adapter() {
            return Err(RequestError::NoAdapter { folder: export.source.display().to_string() }.into());
        }
        model.weights = model.weights.merged();
    }
    model.write_as(&export.target, export.stored, export.shard_bytes)?;
    Ok(Exchanged::of(&model, &export.target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_models::{NewModel, create_model};
    use crate::{ErrorKind, Silent};

    #[test]
    fn a_model_is_imported_and_exported_with_equal_weights() {
        let folder = tempfile::tempdir().unwrap();
        let [made, imported, exported] = ["made", "imported", "exported"].map(|name| folder.path().join(name));
        let created = create_model(&NewModel { width: 16, ..NewModel::new(&made) }).unwrap();
        assert_eq!(import_model(&made, &imported, None, &TextHost::InProcess).unwrap().weights, created.weights);
        let export = Export {
            source: imported,
            target: exported,
            adapter: None,
            merge: false,
            stored: Stored::F32,
            shard_bytes: None,
        };
        assert_eq!(export_model(&export, &Silent).unwrap().weights, created.weights);
        let refused = |export: &Export, expect: &str| {
            let error = export_model(export, &Silent).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        };
        refused(&export, "is not empty; name a new folder");
        refused(&Export { target: folder.path().join("merged"), merge: true, ..export }, "has no adapter to merge");
        let [nowhere, target] = ["nowhere", "x"].map(|name| folder.path().join(name));
        let error = import_model(&nowhere, &target, None, &TextHost::InProcess).unwrap_err();
        assert!(error.to_string().contains("is not a folder; download all files"), "{error}");
    }
}
