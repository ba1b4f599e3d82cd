//! Describes a model.

use super::folder::{LocalSource, read};
use crate::{AppError, EventSink, RequestError};
use clawhost_core::Digest;
use clawhost_model::generate::Sampling;
use clawhost_model::tokens::TextHost;
use clawhost_model::{AdapterFolder, AdapterSettings, Dtype, LocalModelError, ModelConfig, digest};
use std::path::PathBuf;

/// The description of a model: shape, size, tokens, and the digest of its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// Its folder.
    pub folder: PathBuf,
    /// Its shape.
    pub config: ModelConfig,
    /// Number of parameters.
    pub parameters: u64,
    /// Their size in memory in bytes.
    pub memory_bytes: u64,
    /// How its embedding is kept in memory; in almost all models all matrices are kept so.
    pub dtype: Dtype,
    /// Number of tokens of its tokenizer.
    pub tokens: usize,
    /// Whether it has a chat template. Without one it completes texts and does not chat.
    pub has_chat_template: bool,
    /// Its default sampling.
    pub sampling: Sampling,
    /// The adapter in its folder.
    pub adapter: Option<AdapterSettings>,
    /// The digest of its weights.
    pub weights: Digest,
}

/// Describes the model in a folder, after a short conversation was tried. `texts`: where its tokenizer and its template are interpreted.
///
/// # Errors
/// There is no model, its tokenizer or its chat template cannot be used, or its weights give no numbers.
pub fn describe_model(
    source: LocalSource<'_>,
    texts: &TextHost,
    events: &dyn EventSink,
) -> Result<ModelDescription, AppError> {
    let model = read(source, texts, events)?;
    let folder = source.folder;
    let unusable = |error: LocalModelError| RequestError::ModelFolder { folder: folder.display().to_string(), error };
    let checked = model.check().map_err(unusable)?;
    let adapter = model.weights.has_adapter().then(|| AdapterFolder::of(&model.weights, "")).transpose()?;
    let parameters = model.config.parameters();
    Ok(ModelDescription {
        folder: folder.to_owned(),
        parameters,
        memory_bytes: model.weights.bytes(),
        dtype: model.weights.embedding.dtype(),
        tokens: checked.tokenizer.size(),
        has_chat_template: checked.template.is_some(),
        adapter: adapter.map(|adapter| adapter.settings),
        weights: digest(&model.weights),
        sampling: model.sampling,
        config: model.config,
    })
}
