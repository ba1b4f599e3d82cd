//! Versions that were withdrawn or are deprecated: a small document of each module, which its publisher changes.
//!
//! It is a hint of the publisher and not signed: a registry that lies here can hide a version, which it can anyway. It never makes one usable.

use crate::document::{Descriptor, Document, media};
use crate::{Reference, Registry, RegistryError};
use clawhost_package::ModuleName;
use semver::Version;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tag of the document. Versions have no such tag: they begin with a digit.
const TAG: &str = "status";
/// Largest document in bytes: thousands of versions.
const STATUS_BYTES: u64 = 1 << 20;
/// Longest reason in bytes.
const WHY_BYTES: usize = 500;

/// The state of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// It is not chosen any more. Locks that pin it keep working.
    Yanked {
        /// The reason.
        why: String,
    },
    /// It is still chosen, and a warning says why it should not be used.
    Deprecated {
        /// The reason.
        why: String,
    },
}

/// The states of versions; versions without one are in good standing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statuses {
    versions: BTreeMap<Version, State>,
}

impl Statuses {
    /// The state of a version.
    pub fn of(&self, version: &Version) -> Option<&State> {
        self.versions.get(version)
    }

    /// Whether a version was withdrawn.
    pub fn is_yanked(&self, version: &Version) -> bool {
        matches!(self.of(version), Some(State::Yanked { .. }))
    }
}

/// The states of a module's versions.
///
/// # Errors
/// The registry cannot be read, or the document is damaged.
pub async fn statuses(registry: &dyn Registry, module: &ModuleName) -> Result<Statuses, RegistryError> {
    let what = format!("the status of {module}");
    let Some(bytes) = registry.manifest(module, &Reference::Tag(TAG.to_owned())).await? else {
        return Ok(Statuses::default());
    };
    let document = Document::read(&what, &bytes)?;
    match &document.layers[..] {
        [only] if only.media_type == media::STATUS && only.size <= STATUS_BYTES => {
            let bytes = registry.blob(module, only).await?;
            serde_json::from_slice(&bytes).map_err(|error| RegistryError::malformed(what, error))
        }
        _ => Err(RegistryError::malformed(what, "it has other layers")),
    }
}

/// Sets the state of a version; `None`: it is in good standing again.
///
/// # Errors
/// The registry cannot be read or written, or the reason is too long.
pub async fn set_status(
    registry: &dyn Registry,
    module: &ModuleName,
    version: &Version,
    state: Option<State>,
) -> Result<(), RegistryError> {
    if let Some(State::Yanked { why } | State::Deprecated { why }) = &state
        && why.len() > WHY_BYTES
    {
        return Err(RegistryError::malformed("the reason", format!("it has more than {WHY_BYTES} bytes")));
    }
    let mut statuses = statuses(registry, module).await?;
    match state {
        Some(state) => statuses.versions.insert(version.clone(), state),
        None => statuses.versions.remove(version),
    };
    let text = serde_json::to_vec(&statuses).map_err(|error| RegistryError::malformed("a status", error))?;
    let mut document = Document::new(Descriptor::of(media::EMPTY, b"{}"), vec![Descriptor::of(media::STATUS, &text)]);
    document.artifact_type = Some(media::STATUS.to_owned());
    registry.push_blob(module, b"{}").await?;
    registry.push_blob(module, &text).await?;
    registry.push_manifest(module, media::MANIFEST, Some(TAG), &document.bytes()).await
}
