//! Documents of the OCI image specification 1.1: manifests, indexes, descriptors. Fields that are not needed are left out when they are read.

use crate::RegistryError;
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Media types.
pub mod media {
    /// A manifest of the OCI image specification.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// An index of the OCI image specification.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// The empty configuration of the OCI image specification: `{}`.
    pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
    /// A component, in the layout of the CNCF for WebAssembly artefacts.
    pub const WASM: &str = "application/wasm";
    /// The configuration of a component, in the same layout.
    pub const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
    /// A playbook.
    pub const PLAYBOOK: &str = "application/vnd.clawhost.playbook.v1+json";
    /// A file of an adapter; its title is the file's name.
    pub const ADAPTER_FILE: &str = "application/vnd.clawhost.adapter.file.v1";
    /// The payload of a signature of cosign.
    pub const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
    /// A signed in-toto statement.
    pub const DSSE: &str = "application/vnd.dsse.envelope.v1+json";
    /// A text for people.
    pub const MARKDOWN: &str = "text/markdown";
    /// The readme of a module, in a list of what is attached to it.
    pub const README: &str = "application/vnd.clawhost.readme.v1";
    /// The licence of a module, in the same list.
    pub const LICENSE: &str = "application/vnd.clawhost.license.v1";
    /// Which versions of a module are withdrawn or deprecated.
    pub const STATUS: &str = "application/vnd.clawhost.status.v1+json";
}

/// Most layers of a manifest, and most manifests of an index.
const LIST: usize = 1024;

/// Content by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Facts about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// In lists of referrers: what the manifest is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
}

impl Descriptor {
    /// The descriptor of content.
    pub fn of(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content),
            size: content.len() as u64,
            annotations: BTreeMap::new(),
            artifact_type: None,
        }
    }

    /// The same with a fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.annotations.insert(name.to_owned(), value.into());
        self
    }
}

/// A manifest: what a module consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The version of the format: 2.
    pub schema_version: u32,
    /// [`media::MANIFEST`].
    pub media_type: String,
    /// What it is about, for what is not a component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Its configuration.
    pub config: Descriptor,
    /// Its content.
    pub layers: Vec<Descriptor>,
    /// The manifest that this one is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// Facts about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A list of manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// The version of the format: 2.
    pub schema_version: u32,
    /// [`media::INDEX`].
    #[serde(default)]
    pub media_type: String,
    /// The manifests.
    #[serde(default)]
    pub manifests: Vec<Descriptor>,
}

impl Default for Index {
    fn default() -> Self {
        Self { schema_version: 2, media_type: media::INDEX.to_owned(), manifests: Vec::new() }
    }
}

/// Reads a document that has a list.
fn read<T: serde::de::DeserializeOwned>(
    what: &str,
    bytes: &[u8],
    length: impl Fn(&T) -> usize,
) -> Result<T, RegistryError> {
    let document = serde_json::from_slice(bytes).map_err(|error| RegistryError::malformed(what, error))?;
    match length(&document) {
        0..=LIST => Ok(document),
        long => Err(RegistryError::malformed(what, format!("it lists {long} entries; {LIST} at most are read"))),
    }
}

impl Document {
    /// A manifest without facts.
    pub fn new(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        let media_type = media::MANIFEST.to_owned();
        let (artifact_type, subject, annotations) = (None, None, BTreeMap::new());
        Self { schema_version: 2, media_type, artifact_type, config, layers, subject, annotations }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It is none.
    pub fn read(what: &str, bytes: &[u8]) -> Result<Self, RegistryError> {
        let document: Self = read(what, bytes, |document: &Self| document.layers.len())?;
        match document.media_type == media::MANIFEST {
            true => Ok(document),
            false => Err(RegistryError::malformed(what, format!("it has the media type `{}`", document.media_type))),
        }
    }

    /// The manifest as it is stored.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Index {
    /// Reads an index.
    ///
    /// # Errors
    /// It is none.
    pub fn read(what: &str, bytes: &[u8]) -> Result<Self, RegistryError> {
        read(what, bytes, |index: &Self| index.manifests.len())
    }

    /// The index as it is stored.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Adds a manifest, if it is not listed.
    pub fn add(&mut self, descriptor: Descriptor) {
        if !self.manifests.iter().any(|one| one.digest == descriptor.digest) {
            self.manifests.push(descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_written_and_read() {
        let layer = Descriptor::of(media::WASM, b"component").with("a", "b");
        let mut document = Document::new(Descriptor::of(media::EMPTY, b"{}"), vec![layer]);
        document.subject = Some(Descriptor::of(media::MANIFEST, b"other"));
        assert_eq!(Document::read("it", &document.bytes()), Ok(document));
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let document = Document::new(Descriptor::of(media::EMPTY, b"{}"), Vec::new());
        let check = |text: String, expect: &str| {
            let error = Document::read("the manifest of a/x", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("the manifest of a/x") && error.contains(expect), "{error}");
        };
        let text = String::from_utf8(document.bytes()).unwrap();
        check("{".to_owned(), "EOF");
        check(text.replace("sha256", "sha512"), "is not a digest");
        check(text.replace("image.manifest", "image.index"), "it has the media type");
        check(text.replace("\"size\":2", "\"size\":-2"), "invalid value");
        let layers = vec![Descriptor::of(media::WASM, b""); LIST + 1];
        let long = Document::new(Descriptor::of(media::EMPTY, b"{}"), layers);
        check(String::from_utf8(long.bytes()).unwrap(), "it lists 1025 entries");
    }
}
