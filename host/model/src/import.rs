//! Imports a model: reads it whole, checks it, and copies it unchanged.

use crate::chat_folder::TOOL_TEMPLATE;
use crate::folder::{ADAPTER, BASE};
use crate::tokens::TextHost;
use crate::weight_files::{file, shards};
use crate::{AdapterFolder, LocalModelError, ModelFolder, gguf};
use std::path::Path;

/// The files of a model other than its weights. This crate reads some of them; other programs read the rest.
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
    /// Checks a folder (every weight by name and shape, and all of it by a short answer) and copies its files: no weight
    /// is rounded or renamed. `adapter` is checked against the model and put into its folder.
    ///
    /// # Errors
    /// As [`ModelFolder::read`] and [`AdapterFolder::attach`], or the target cannot be written. Nothing is written
    /// before everything is checked.
    pub fn import(
        source: &Path,
        target: &Path,
        adapter: Option<&Path>,
        texts: &TextHost,
    ) -> Result<Self, LocalModelError> {
        if let Some(found) = gguf::file_of(source) {
            let why = "a GGUF file is used where it lies; an export writes a folder of it".to_owned();
            return Err(LocalModelError::Format { folder: found, why });
        }
        let mut model = Self::read(source, texts)?;
        model.check()?;
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
        let (tools, to) = (source.join(TOOL_TEMPLATE), target.join(TOOL_TEMPLATE));
        if tools.exists() {
            to.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| file(&to, error))?;
            std::fs::copy(&tools, &to).map_err(|error| file(&to, error))?;
        }
        if model.weights.has_adapter() {
            AdapterFolder::bound(&model.weights, BASE)?.write(&target.join(ADAPTER))?;
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TinyModel;

    #[test]
    fn an_import_keeps_the_template_for_tools() {
        let folder = tempfile::tempdir().unwrap();
        let [source, target] = ["source", "target"].map(|name| folder.path().join(name));
        let made = TinyModel::default().make().unwrap();
        ModelFolder { tool_template: Some("with tools".into()), ..made }.write(&source).unwrap();
        ModelFolder::import(&source, &target, None, &TextHost::InProcess).unwrap();
        for place in [&source, &target] {
            assert_eq!(
                ModelFolder::read(place, &TextHost::InProcess).unwrap().tool_template.as_deref(),
                Some("with tools")
            );
        }
        // As older models have them: both in one list.
        std::fs::remove_dir_all(target.join("additional_chat_templates")).unwrap();
        std::fs::remove_file(target.join("chat_template.jinja")).unwrap();
        let told = r#"{"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]}"#;
        std::fs::write(target.join("tokenizer_config.json"), told).unwrap();
        let read = ModelFolder::read(&target, &TextHost::InProcess).unwrap();
        assert_eq!((read.template.as_deref(), read.tool_template.as_deref()), (Some("plain"), Some("tools")));
    }
}
