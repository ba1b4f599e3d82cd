//! A model of somebody else's taken over: read whole, checked, and copied as it is.

use crate::folder::{ADAPTER, BASE};
use crate::weight_files::{file, shards};
use crate::{AdapterFolder, LocalModelError, ModelFolder};
use std::path::Path;

/// What belongs to a model beside its weights. What runs here reads some of it; other programs read the rest.
const BESIDE: [&str; 9] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
];

impl ModelFolder {
    /// Checks a folder, every weight by name and shape, its tokenizer and its template, and copies its files: no weight is
    /// rounded or renamed. `adapter` is checked against the model and put beside it.
    ///
    /// # Errors
    /// As [`ModelFolder::read`] and [`AdapterFolder::attach`], or the target cannot be written; nothing is written before all is checked.
    pub fn import(source: &Path, target: &Path, adapter: Option<&Path>) -> Result<Self, LocalModelError> {
        let mut model = Self::read(source)?;
        model.tokenizer()?;
        if model.template.is_some() {
            model.chat_template()?;
        }
        if let Some(adapter) = adapter {
            model.weights = AdapterFolder::read(adapter)?.attach(&model.weights)?;
        }
        std::fs::create_dir_all(target).map_err(|error| file(target, error))?;
        let (weights, index) = shards(source)?;
        let beside = BESIDE.iter().map(|name| source.join(name)).filter(|path| path.exists());
        for path in beside.chain(index).chain(weights) {
            let to = target.join(path.file_name().unwrap_or_default());
            std::fs::copy(&path, &to).map_err(|error| file(&to, error))?;
        }
        if model.weights.has_adapter() {
            AdapterFolder::of(&model.weights, BASE)?.write(&target.join(ADAPTER))?;
        }
        Ok(model)
    }
}
