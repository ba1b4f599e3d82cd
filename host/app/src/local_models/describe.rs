//! What a model is.

use super::folder::read;
use crate::{AppError, EventSink, RequestError};
use clawhost_core::Digest;
use clawhost_model::generate::Sampling;
use clawhost_model::{AdapterFolder, AdapterSettings, LocalModelError, ModelConfig, digest};
use std::path::{Path, PathBuf};

/// Bytes of a parameter while a model runs.
const PARAMETER_BYTES: u64 = 4;

/// What a model is: its shape, its size, its tokens, and the digest of its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// Its folder.
    pub folder: PathBuf,
    /// Its shape.
    pub config: ModelConfig,
    /// How many parameters it has.
    pub parameters: u64,
    /// Bytes that they take in memory while it runs.
    pub memory_bytes: u64,
    /// Tokens of its tokenizer.
    pub tokens: usize,
    /// Whether it has a chat template; else it continues texts, and does not chat.
    pub has_chat_template: bool,
    /// How it is sampled, unless chosen otherwise.
    pub sampling: Sampling,
    /// The adapter in its folder.
    pub adapter: Option<AdapterSettings>,
    /// Names its weights.
    pub weights: Digest,
}

/// Describes the model in a folder.
///
/// # Errors
/// There is none, or its tokenizer or its chat template cannot be used.
pub fn describe_model(folder: &Path, events: &dyn EventSink) -> Result<ModelDescription, AppError> {
    let model = read(folder, None, events)?;
    let unusable = |error: LocalModelError| RequestError::ModelFolder { folder: folder.display().to_string(), error };
    let tokenizer = model.tokenizer().map_err(unusable)?;
    let has_chat_template = model.template.is_some();
    if has_chat_template {
        model.chat_template(&tokenizer).map_err(unusable)?;
    }
    let adapter = model.weights.has_adapter().then(|| AdapterFolder::of(&model.weights, "")).transpose()?;
    let parameters = model.config.parameters();
    Ok(ModelDescription {
        folder: folder.to_owned(),
        parameters,
        memory_bytes: parameters.saturating_mul(PARAMETER_BYTES),
        tokens: tokenizer.size(),
        has_chat_template,
        adapter: adapter.map(|adapter| adapter.settings),
        weights: digest(&model.weights),
        sampling: model.sampling,
        config: model.config,
    })
}
