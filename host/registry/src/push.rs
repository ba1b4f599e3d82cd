//! Publishes modules. The tag comes last, so that a version is there with all that belongs to it, or not at all.

use crate::document::{Descriptor, Document, media};
use crate::pull::tag_of;
use crate::signature::{self, Signature};
use crate::{PrivateKey, Published, Reference, Registry, RegistryError};
use clawhost_core::Digest;
use clawhost_package::ModuleName;

/// A document about a module, which travels beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// What it is about, as registries list it.
    pub artifact_type: String,
    /// The media type of its content.
    pub media_type: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Attachment {
    /// The manifest of the attachment.
    pub(crate) fn document(&self, subject: Descriptor) -> Vec<u8> {
        let layer = Descriptor::of(&self.media_type, &self.bytes);
        let mut document = Document::new(Descriptor::of(media::EMPTY, b"{}"), vec![layer]);
        document.artifact_type = Some(self.artifact_type.clone());
        document.subject = Some(subject);
        document.bytes()
    }
}

/// What is published.
#[derive(Debug)]
pub struct Publication<'a> {
    /// The module.
    pub published: &'a Published,
    /// Documents about it.
    pub attachments: &'a [Attachment],
    /// The key that signs it, and what its owner calls itself.
    pub signer: Option<(&'a PrivateKey, &'a str)>,
}

/// What a publication did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The digest of the manifest.
    pub manifest: Digest,
    /// Whether the same version with the same content was there already.
    pub was_there: bool,
}

/// Refuses a name that looks like that of another module of the registry. A registry that lists no modules cannot be asked.
async fn alone_with_its_name(registry: &dyn Registry, module: &ModuleName) -> Result<(), RegistryError> {
    let skeleton = module.skeleton();
    let modules = registry.modules().await.unwrap_or_default();
    match modules.into_iter().find(|other| other != module && other.skeleton() == skeleton) {
        Some(other) => {
            let location = registry.location().to_string();
            Err(RegistryError::LooksAlike { module: module.clone(), other: Box::new(other), location })
        }
        None => Ok(()),
    }
}

/// Checks whether a module can be published, and changes nothing. Returns whether the same version with the same content is there already.
///
/// # Errors
/// The version exists with other content, the name looks like that of another module, or the registry cannot be read.
async fn check(registry: &dyn Registry, published: &Published) -> Result<bool, RegistryError> {
    let (module, version) = (&published.facts.name, &published.facts.version);
    let there = registry.manifest(module, &Reference::Tag(tag_of(version)?)).await?;
    match there {
        None => alone_with_its_name(registry, module).await.map(|()| false),
        Some(bytes) => {
            let layers = Document::read(&format!("the manifest of {module} {version}"), &bytes)?.layers;
            let same =
                layers.iter().map(|layer| layer.digest).eq(published.layers.iter().map(|(layer, _)| layer.digest));
            match same {
                true => Ok(true),
                false => {
                    let (module, version) = (module.clone(), version.clone());
                    Err(RegistryError::Exists { module, version, location: registry.location().to_string() })
                }
            }
        }
    }
}

/// Publishes a module. `dry`: only says what would happen.
///
/// # Errors
/// The version exists with other content, the name looks like that of another module, or the registry cannot be read or written. What was sent
/// before an error is not found under any version.
pub async fn push(registry: &dyn Registry, publication: &Publication<'_>, dry: bool) -> Result<Pushed, RegistryError> {
    let Publication { published, attachments, signer } = publication;
    let (module, version) = (&published.facts.name, &published.facts.version);
    let was_there = check(registry, published).await?;
    if dry {
        return Ok(Pushed { manifest: published.manifest, was_there });
    }
    // A version that is there keeps its manifest; a signature or a document can be added.
    let document = match was_there {
        true => registry.manifest(module, &Reference::Tag(tag_of(version)?)).await?.unwrap_or_default(),
        false => published.document.clone(),
    };
    let manifest = Digest::of(&document);
    if !was_there {
        registry.push_blob(module, &published.config).await?;
        for (_, bytes) in &published.layers {
            registry.push_blob(module, bytes).await?;
        }
        registry.push_manifest(module, media::MANIFEST, None, &document).await?;
    }
    for attachment in *attachments {
        registry.push_blob(module, b"{}").await?;
        registry.push_blob(module, &attachment.bytes).await?;
        let attached = attachment.document(Descriptor::of(media::MANIFEST, &document));
        registry.attach(module, &manifest, &attached).await?;
    }
    if let Some((key, publisher)) = signer {
        let repository = registry.location().repository(module);
        let signature = Signature::new(key, manifest, &repository, (module, version), publisher)?;
        signature::add(registry, module, &manifest, &signature).await?;
    }
    if !was_there {
        registry.push_manifest(module, media::MANIFEST, Some(&tag_of(version)?), &document).await?;
    }
    Ok(Pushed { manifest, was_there })
}
