//! Which models there are: those in the Hugging Face cache, and the adapters that were pulled.

use crate::{AppError, Modules};
use clawhost_model::{CachedModel, HubCache};
use clawhost_package::ModuleKind;
use clawhost_registry::{Document, Reference, Registry, facts, versions};
use serde::Serialize;
use std::path::PathBuf;

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListedKind {
    /// A whole model.
    Model,
    /// An adapter (PEFT, LoRA), which needs its model.
    Adapter,
}

impl ListedKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Adapter => "adapter",
        }
    }
}

/// A model or an adapter that is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedModel {
    /// Its name: where a model's folder, or an adapter, can stand.
    pub name: String,
    /// Its commit, or its version.
    pub version: String,
    /// Branches and tags of the commit.
    pub revisions: Vec<String>,
    /// What it is.
    pub kind: ListedKind,
    /// The kind of model that its `config.json` names. `None`: none is known.
    pub architecture: Option<String>,
    /// Bytes of its files.
    pub bytes: u64,
    /// The folder of its files; of an adapter, the file of its weights.
    pub path: PathBuf,
    /// What is missing of it.
    pub missing: Option<String>,
}

impl From<CachedModel> for ListedModel {
    fn from(model: CachedModel) -> Self {
        let CachedModel { name, commit, revisions, architecture, bytes, folder, missing } = model;
        let (version, kind, path) = (commit, ListedKind::Model, folder);
        Self { name, version, revisions, kind, architecture, bytes, path, missing }
    }
}

/// Lists what is here: models by name, then adapters. A module that cannot be read is left out.
///
/// # Errors
/// The folder of pulled modules cannot be read.
pub async fn list_models(hub: &HubCache, modules: &Modules) -> Result<Vec<ListedModel>, AppError> {
    let mut all: Vec<ListedModel> = hub.models().into_iter().map(ListedModel::from).collect();
    let shelf = modules.shelf();
    for name in shelf.modules().await? {
        for version in versions(shelf, &name).await.unwrap_or_default() {
            let Some(bytes) = shelf.manifest(&name, &Reference::Tag(version.to_string())).await? else { continue };
            let what = format!("{name} {version}");
            let (Ok(facts), Ok(document)) = (facts(&name, &version, &bytes), Document::read(&what, &bytes)) else {
                continue;
            };
            let weights = document.layers.iter().max_by_key(|layer| layer.size);
            let Some(weights) = weights.filter(|_| facts.kind == ModuleKind::Adapter) else { continue };
            all.push(ListedModel {
                path: shelf.blob_path(&name, &weights.digest),
                bytes: document.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size)),
                name: name.to_string(),
                version: version.to_string(),
                revisions: Vec::new(),
                kind: ListedKind::Adapter,
                architecture: None,
                missing: None,
            });
        }
    }
    Ok(all)
}
