//! Adapters (PEFT, LoRA) that travel as modules.

use super::{ModuleError, Modules};
use crate::{AppError, RequestError};
use clawhost_model::{AdapterFolder, AdapterSettings};
use clawhost_package::{ModuleKind, ModuleName, ModuleRequest};
use clawhost_registry::{CONTENT_BYTES, Facts, Published, Registry, RegistryError, Signer, find, pull};
use semver::Version;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// An adapter that was pulled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PulledAdapter {
    /// Its name.
    pub name: ModuleName,
    /// Its version.
    pub version: Version,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its settings.
    pub settings: AdapterSettings,
    /// The model that it was trained on, as its author says.
    pub base: String,
    /// Who signed it. `None`: nobody who is trusted, which the policy permits.
    pub signer: Option<Signer>,
}

impl Modules {
    /// Pulls an adapter from a registry, and keeps it. Pins nothing. What is no adapter that can be used is not kept.
    ///
    /// # Errors
    /// As [`Self::pull`], or it is no adapter, or of a kind that is not supported.
    pub async fn pull_adapter(
        &self,
        registry: &dyn Registry,
        request: &ModuleRequest,
    ) -> Result<PulledAdapter, AppError> {
        let found = find(registry, request, &self.trust()?).await?;
        let Facts { name, version, kind, .. } = found.facts.clone();
        if kind != ModuleKind::Adapter {
            return Err(ModuleError::OtherKind { name, version, kind, needed: "an adapter" }.into());
        }
        let pulled = pull(registry, found).await?;
        let published = &pulled.published;
        let file = |name: &str| published.files().find(|(known, _)| *known == name).map_or(&[][..], |(_, bytes)| bytes);
        let AdapterFolder { settings, base, .. } = AdapterFolder::of_files(AdapterFolder::FILES.map(file))?;
        let (bytes, signer) = (published.bytes(), pulled.found.signer.clone());
        pulled.keep(self.shelf()).await?;
        Ok(PulledAdapter { name, version, bytes, settings, base, signer })
    }
}

/// The files of an adapter in a folder that is removed with this value.
#[derive(Debug)]
pub struct AdapterFiles(tempfile::TempDir);

impl AdapterFiles {
    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Writes the files of a module. Their names are those that an adapter has, and nothing else.
    pub(super) fn write(published: &Published) -> Result<Self, ModuleError> {
        let folder =
            tempfile::tempdir().map_err(|error| RegistryError::file(Path::new("a temporary folder"), &error))?;
        for (name, bytes) in published.files().filter(|(name, _)| AdapterFolder::FILES.contains(name)) {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).map_err(|error| RegistryError::file(&path, &error))?;
        }
        Ok(Self(folder))
    }
}

/// Reads the files of an adapter that is to be published. `None`: the folder is none.
///
/// # Errors
/// A file is missing, damaged or too large, or the kind of adapter is not supported.
pub fn adapter_files(folder: &Path) -> Result<Option<BTreeMap<String, Vec<u8>>>, AppError> {
    if !AdapterFolder::is_one(folder) {
        return Ok(None);
    }
    AdapterFolder::read(folder)
        .map_err(|error| RequestError::ModelFolder { folder: folder.display().to_string(), error })?;
    let read = |name: &str| {
        let path = folder.join(name);
        let bytes = clawhost_files::read(&path, CONTENT_BYTES).map_err(|error| RegistryError::file(&path, &error))?;
        Ok((name.to_owned(), bytes))
    };
    AdapterFolder::FILES.into_iter().map(read).collect::<Result<_, AppError>>().map(Some)
}
