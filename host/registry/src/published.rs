//! The layout of published modules: which documents and contents a module consists of.
//!
//! A component is one layer `application/wasm` with the configuration of the CNCF layout for WebAssembly artefacts, so that other tools pull it.

use crate::port::length;
use crate::{Descriptor, Document, Registry, RegistryError, media};
use clawhost_core::Digest;
use clawhost_package::{ModuleKind, ModuleName};
use semver::Version;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Annotations of a manifest.
const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const DESCRIPTION: &str = "org.opencontainers.image.description";
const LICENSES: &str = "org.opencontainers.image.licenses";
const KIND: &str = "vnd.clawhost.kind";
/// Most files of an adapter.
const FILES: usize = 16;
/// Files that an adapter consists of. A name from a registry never becomes a path in any other way.
const ADAPTER_FILES: [&str; 4] =
    ["adapter_config.json", "adapter_model.safetensors", "README.md", "tokenizer_config.json"];

/// What is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A component, with its imports and exports.
    Component {
        /// The component.
        bytes: Vec<u8>,
        /// What it imports.
        imports: Vec<String>,
        /// What it exports.
        exports: Vec<String>,
    },
    /// A playbook.
    Playbook(Vec<u8>),
    /// The files of an adapter, by name.
    Adapter(BTreeMap<String, Vec<u8>>),
}

/// What the manifest of a module says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Its name.
    pub name: ModuleName,
    /// Its version.
    pub version: Version,
    /// Its kind.
    pub kind: ModuleKind,
    /// One sentence.
    pub description: Option<String>,
    /// Its licence, as an SPDX expression.
    pub license: Option<String>,
}

/// A module as a registry holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// What its manifest says.
    pub facts: Facts,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The manifest as it is stored.
    pub document: Vec<u8>,
    /// Its configuration.
    pub config: Vec<u8>,
    /// Its contents, with their names in an adapter.
    pub layers: Vec<(Descriptor, Vec<u8>)>,
}

/// The configuration of a component.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig {
    created: String,
    architecture: String,
    os: String,
    layer_digests: Vec<Digest>,
    component: WasmComponent,
}

#[derive(Debug, Serialize, Deserialize)]
struct WasmComponent {
    exports: Vec<String>,
    imports: Vec<String>,
    target: Option<String>,
}

impl Published {
    /// A module that is about to be published. `created`: a time in RFC 3339.
    ///
    /// # Errors
    /// An adapter has other files than adapters have.
    pub fn new(facts: Facts, content: Content, created: &str) -> Result<Self, RegistryError> {
        let empty = || (Descriptor::of(media::EMPTY, b"{}"), b"{}".to_vec(), Some(artifact_type(facts.kind)));
        let ((config, config_bytes, artifact_type), layers) = match content {
            Content::Component { bytes, imports, exports } => {
                let component = WasmComponent { exports, imports, target: None };
                let digests = vec![Digest::of(&bytes)];
                let (architecture, os) = ("wasm".to_owned(), "wasip2".to_owned());
                let config =
                    WasmConfig { created: created.to_owned(), architecture, os, layer_digests: digests, component };
                let config =
                    serde_json::to_vec(&config).map_err(|error| RegistryError::malformed("a configuration", error))?;
                let descriptor = Descriptor::of(media::WASM_CONFIG, &config);
                ((descriptor, config, None), vec![(Descriptor::of(media::WASM, &bytes), bytes)])
            }
            Content::Playbook(bytes) => (empty(), vec![(Descriptor::of(media::PLAYBOOK, &bytes), bytes)]),
            Content::Adapter(files) => {
                let layer = |(name, bytes): (String, Vec<u8>)| {
                    adapter_file(&name)?;
                    Ok((Descriptor::of(media::ADAPTER_FILE, &bytes).with(TITLE, name), bytes))
                };
                (empty(), files.into_iter().map(layer).collect::<Result<_, RegistryError>>()?)
            }
        };
        let mut document = Document::new(config, layers.iter().map(|(descriptor, _)| descriptor.clone()).collect());
        document.artifact_type = artifact_type;
        let said = [
            (TITLE, Some(facts.name.to_string())),
            (VERSION, Some(facts.version.to_string())),
            (KIND, Some(facts.kind.to_string())),
            (DESCRIPTION, facts.description.clone()),
            (LICENSES, facts.license.clone()),
        ];
        document.annotations = said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let document = document.bytes();
        Ok(Self { facts, manifest: Digest::of(&document), document, config: config_bytes, layers })
    }

    /// The digest of its content: of the component or the document; of an adapter the digest of its manifest, which has those of all files.
    pub fn content(&self) -> Digest {
        match (&self.layers[..], self.facts.kind) {
            ([(only, _)], kind) if kind != ModuleKind::Adapter => only.digest,
            _ => self.manifest,
        }
    }

    /// Length of its contents in bytes.
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(|(descriptor, _)| descriptor.size).sum()
    }

    /// The content of a component or a playbook.
    pub fn only(&self) -> Option<&[u8]> {
        match &self.layers[..] {
            [(_, bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// The files of an adapter, by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.layers.iter().filter_map(|(layer, bytes)| Some((layer.annotations.get(TITLE)?.as_str(), bytes.as_slice())))
    }

    /// Reads the contents that a manifest names.
    ///
    /// # Errors
    /// The registry cannot be read, the layout is another one, or content is not what the manifest says.
    pub async fn read(registry: &dyn Registry, module: &ModuleName, document: Vec<u8>) -> Result<Self, RegistryError> {
        let what = format!("the manifest of {module}");
        let parsed = Document::read(&what, &document)?;
        let facts = facts(&what, &parsed)?;
        check_layout(&what, facts.kind, &parsed)?;
        let total = parsed.layers.iter().try_fold(0_u64, |sum, layer| sum.checked_add(layer.size));
        length(&what, total.unwrap_or(u64::MAX))?;
        let config = registry.blob(module, &parsed.config).await?;
        let mut layers = Vec::new();
        for layer in &parsed.layers {
            layers.push((layer.clone(), registry.blob(module, layer).await?));
        }
        Ok(Self { facts, manifest: Digest::of(&document), document, config, layers })
    }
}

/// What an artefact of a kind is, where its configuration does not say it.
fn artifact_type(kind: ModuleKind) -> String {
    format!("application/vnd.clawhost.{kind}.v1")
}

fn adapter_file(name: &str) -> Result<(), RegistryError> {
    match ADAPTER_FILES.contains(&name) {
        true => Ok(()),
        false => {
            let name = clawhost_core::escaped(name, 100);
            Err(RegistryError::malformed("an adapter", format!("`{name}` is no file of an adapter")))
        }
    }
}

fn check_layout(what: &str, kind: ModuleKind, document: &Document) -> Result<(), RegistryError> {
    let wrong = |why: String| Err(RegistryError::malformed(what, why));
    let types: Vec<&str> = document.layers.iter().map(|layer| layer.media_type.as_str()).collect();
    match (kind, &types[..]) {
        (ModuleKind::Playbook, [media::PLAYBOOK]) => Ok(()),
        (ModuleKind::Adapter, files) if (1..=FILES).contains(&files.len()) => {
            if files.iter().any(|media_type| *media_type != media::ADAPTER_FILE) {
                return wrong("an adapter has files alone".to_owned());
            }
            let mut names = std::collections::BTreeSet::new();
            for layer in &document.layers {
                let name = layer.annotations.get(TITLE).map(String::as_str).unwrap_or_default();
                adapter_file(name)?;
                if !names.insert(name) {
                    return wrong(format!("it has {name} twice"));
                }
            }
            Ok(())
        }
        (kind, [media::WASM]) if kind.plugin().is_some() => match document.config.media_type == media::WASM_CONFIG {
            true => Ok(()),
            false => wrong("the configuration of a component has another media type".to_owned()),
        },
        (kind, types) => {
            let types = clawhost_core::escaped(&types.join(", "), 200);
            wrong(format!("it says that it is of the kind {kind}, and its layers are: {types}"))
        }
    }
}

/// What a manifest says of its module.
fn facts(what: &str, document: &Document) -> Result<Facts, RegistryError> {
    let said = |name: &str| document.annotations.get(name).cloned();
    let needed = |name: &str| said(name).ok_or_else(|| RegistryError::malformed(what, format!("it has no {name}")));
    let wrong = |error: &dyn std::fmt::Display| RegistryError::malformed(what, error);
    let kind = needed(KIND)?;
    Ok(Facts {
        name: needed(TITLE)?.parse().map_err(|error| wrong(&error))?,
        version: needed(VERSION)?.parse().map_err(|error: semver::Error| wrong(&error))?,
        kind: ModuleKind::named(&kind)
            .ok_or_else(|| wrong(&format!("its kind `{}` is not known", clawhost_core::escaped(&kind, 60))))?,
        description: said(DESCRIPTION),
        license: said(LICENSES),
    })
}

/// What a manifest says, checked against what it was found by.
///
/// # Errors
/// It is no manifest of a module, or of another module or version.
pub fn facts_of(module: &ModuleName, version: &Version, document: &[u8]) -> Result<Facts, RegistryError> {
    let what = format!("the manifest of {module} {version}");
    let facts = facts(&what, &Document::read(&what, document)?)?;
    match (&facts.name, &facts.version) == (module, version) {
        true => Ok(facts),
        false => Err(RegistryError::malformed(what, format!("it is of {} {}", facts.name, facts.version))),
    }
}
