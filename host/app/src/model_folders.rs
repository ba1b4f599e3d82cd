//! Folders of models: found by path or by name, read, and what they are called.

use crate::events::{Event, EventSink, Warning};
use crate::models::ModelSettings;
use crate::{AppError, RequestError};
use clawhost_model::tokens::{TemplateArguments, TextHost};
use clawhost_model::{Dtype, HubCache, ModelFolder};
use clawhost_run_config::LocalModelText;
use std::path::{Path, PathBuf};

/// The folder of a model that is named by a path, or, if there is no such path, as `OWNER/NAME` or `OWNER/NAME@REVISION` of the Hugging Face hub.
///
/// # Errors
/// The cache has no such model, or not all of it.
pub fn find_model_folder(hub: &HubCache, named: &Path) -> Result<PathBuf, AppError> {
    Ok(hub.find(named)?.into_owned())
}

impl ModelSettings {
    /// The folder of a model, by its path or its name on the Hugging Face hub.
    ///
    /// # Errors
    /// As [`find_model_folder`].
    pub fn model_folder(&self, named: &str) -> Result<PathBuf, AppError> {
        find_model_folder(&self.hub, Path::new(named))
    }
}

/// Reads a model folder without opening the model.
///
/// # Errors
/// It has no supported model.
pub fn read_folder(
    folder: &Path,
    dtype: Option<Dtype>,
    texts: &TextHost,
    events: &dyn EventSink,
) -> Result<ModelFolder, AppError> {
    let shown = folder.display().to_string();
    let of_folder = |error| RequestError::ModelFolder { folder: shown.clone(), error };
    if !ModelFolder::is_one(folder).map_err(of_folder)? {
        return Err(RequestError::NoModelFolder { folder: shown }.into());
    }
    let model = ModelFolder::read_as(folder, texts, dtype).map_err(of_folder)?;
    if !model.ignored.is_empty() {
        events.event(Event::Warning(Warning::SamplingIgnored { folder: shown, settings: model.ignored.clone() }));
    }
    Ok(model)
}

/// The name of a model, from its folder or its name on the Hugging Face hub.
pub fn folder_name(folder: &Path) -> String {
    if let Some(name) = HubCache::model_name(folder) {
        return name;
    }
    let named = folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    named.unwrap_or_else(|| "local".to_owned())
}

/// The folder of a local model, from its text.
pub(crate) fn local_folder(spec: &str) -> Option<&str> {
    LocalModelText::of(spec).map(|text| text.folder)
}

impl ModelSettings {
    /// Reads the folder of a local model with the options of its text: the number format of its weights, and arguments of its chat template.
    ///
    /// # Errors
    /// An option is invalid, or as [`read_folder`].
    pub(crate) fn read_local(
        &self,
        text: &LocalModelText<'_>,
        events: &dyn EventSink,
    ) -> Result<ModelFolder, AppError> {
        let wrong =
            |why: String| AppError::from(RequestError::Other(format!("local:{}{}: {why}", text.folder, text.options)));
        let dtype = |name: &str| Dtype::named(name).ok_or_else(|| wrong(format!("dtype is one of {}", Dtype::names())));
        let dtype = text.dtype.map(dtype).transpose()?;
        let argument = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), serde_json::from_str(value).unwrap_or_else(|_| (*value).into()))
        };
        let arguments = TemplateArguments::new(text.arguments.iter().map(argument).collect());
        let arguments = arguments.map_err(|error| wrong(error.to_string()))?;
        let model = read_folder(&self.model_folder(text.folder)?, dtype, &self.texts, events)?;
        Ok(ModelFolder { arguments, ..model })
    }
}
