//! Finds and pulls modules. Everything is fetched and checked before anything is kept.

use crate::document::{Document, media};
use crate::port::CONTENT_BYTES;
use crate::published::facts_of;
use crate::push::Attachment;
use crate::signature::{self, Signature, signatures};
use crate::status::{State, statuses};
use crate::{Facts, Published, Reference, Registry, RegistryError, Signer, Trust};
use clawhost_core::{Digest, nearest};
use clawhost_package::{ModuleName, ModuleRequest};
use semver::Version;

/// Most documents that are attached to a module and pulled with it.
const ATTACHMENTS: usize = 16;
/// Largest document that is attached, in bytes.
const ATTACHMENT_BYTES: u64 = 4 << 20;
/// Most versions of a module that are looked at.
const VERSIONS: usize = 10_000;

/// The tag of a version.
///
/// # Errors
/// The version has build metadata, which tags cannot have.
pub(crate) fn tag_of(version: &Version) -> Result<String, RegistryError> {
    match version.build.is_empty() {
        true => Ok(version.to_string()),
        false => Err(RegistryError::malformed(
            format!("the version {version}"),
            "build metadata (+) is no part of a published version",
        )),
    }
}

/// The versions of a module, the newest first.
///
/// # Errors
/// There is no such module, or the registry cannot be read.
pub async fn versions(registry: &dyn Registry, module: &ModuleName) -> Result<Vec<Version>, RegistryError> {
    let tags = registry.tags(module).await?.unwrap_or_default();
    let mut versions: Vec<Version> = tags.iter().take(VERSIONS).filter_map(|tag| tag.parse().ok()).collect();
    if versions.is_empty() {
        // A registry that lists no modules has no suggestion.
        let modules = registry.modules().await.unwrap_or_default();
        let names: Vec<String> = modules.iter().map(ModuleName::to_string).collect();
        let alike = nearest(&module.to_string(), names.iter().map(String::as_str)).and_then(|name| name.parse().ok());
        let location = registry.location().to_string();
        return Err(RegistryError::NoModule { module: module.clone(), location, nearest: alike.map(Box::new) });
    }
    versions.sort_by(|one, other| other.cmp(one));
    Ok(versions)
}

/// A module that a registry has. Its manifest was read, its signatures were checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What its manifest says.
    pub facts: Facts,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The manifest as it is stored.
    pub document: Vec<u8>,
    /// Who signed it. `None`: nobody who is trusted, which the policy permits.
    pub signer: Option<Signer>,
    /// What its publisher says of the version.
    pub state: Option<State>,
    signatures: Vec<Signature>,
}

/// Finds the newest version that is asked for. A withdrawn version is never chosen; named exactly, it is an error.
///
/// # Errors
/// There is none, its manifest is damaged or of something else, or its signatures do not suffice.
pub async fn find(registry: &dyn Registry, request: &ModuleRequest, trust: &Trust) -> Result<Found, RegistryError> {
    let module = &request.name;
    let versions = versions(registry, module).await?;
    let states = statuses(registry, module).await?;
    let chosen = request.newest(versions.iter().filter(|version| !states.is_yanked(version)));
    let Some(version) = chosen else {
        if let Some(version) = request.newest(&versions)
            && let Some(State::Yanked { why }) = states.of(version)
        {
            let (module, version, why) = (module.clone(), version.clone(), why.clone());
            return Err(RegistryError::Yanked { module, version, why });
        }
        let location = registry.location().to_string();
        return Err(RegistryError::NoVersion { request: Box::new(request.clone()), location, versions });
    };
    let document = registry.manifest(module, &Reference::Tag(tag_of(version)?)).await?;
    let document = document.ok_or_else(|| {
        let (location, versions) = (registry.location().to_string(), versions.clone());
        RegistryError::NoVersion { request: Box::new(request.clone()), location, versions }
    })?;
    found(registry, module, version, document, states.of(version).cloned(), trust).await
}

/// Finds the manifest that a lock pins, whatever its tag says today.
///
/// # Errors
/// As [`find`].
pub async fn find_pinned(
    registry: &dyn Registry,
    (module, version): (&ModuleName, &Version),
    manifest: &Digest,
    trust: &Trust,
) -> Result<Found, RegistryError> {
    let document = registry.manifest(module, &Reference::Digest(*manifest)).await?;
    let document = document.ok_or_else(|| {
        let (module, location) = (module.clone(), registry.location().to_string());
        RegistryError::NoModule { module, location, nearest: None }
    })?;
    let state = statuses(registry, module).await?.of(version).cloned();
    found(registry, module, version, document, state, trust).await
}

async fn found(
    registry: &dyn Registry,
    module: &ModuleName,
    version: &Version,
    document: Vec<u8>,
    state: Option<State>,
    trust: &Trust,
) -> Result<Found, RegistryError> {
    let facts = facts_of(module, version, &document)?;
    let manifest = Digest::of(&document);
    let signatures = signatures(registry, module, &manifest).await?;
    let signer = trust.judge(module, version, &manifest, &signatures)?;
    Ok(Found { facts, manifest, document, signer, state, signatures })
}

/// A module with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// What was found.
    pub found: Found,
    /// Its contents.
    pub published: Published,
    /// Documents about it. What they say is a claim of their author.
    pub attachments: Vec<Attachment>,
}

/// Pulls what was found.
///
/// # Errors
/// The registry cannot be read, or content is not what the manifest says.
pub async fn pull(registry: &dyn Registry, found: Found) -> Result<Pulled, RegistryError> {
    let module = &found.facts.name;
    let published = Published::read(registry, module, found.document.clone()).await?;
    let mut attachments = Vec::new();
    for listed in registry.referrers(module, &found.manifest).await?.into_iter().take(ATTACHMENTS) {
        let what = format!("what is attached to {module}");
        let Some(bytes) = registry.manifest(module, &Reference::Digest(listed.digest)).await? else { continue };
        let document = Document::read(&what, &bytes)?;
        let is_about = document.subject.as_ref().is_some_and(|subject| subject.digest == found.manifest);
        let (Some(artifact_type), [layer]) = (document.artifact_type, &document.layers[..]) else { continue };
        if !is_about || layer.size > ATTACHMENT_BYTES.min(CONTENT_BYTES) {
            continue;
        }
        let bytes = registry.blob(module, layer).await?;
        attachments.push(Attachment { artifact_type, media_type: layer.media_type.clone(), bytes });
    }
    Ok(Pulled { found, published, attachments })
}

impl Pulled {
    /// Keeps the module in another registry, as it is: with its manifest, its signatures and its documents. The tag comes last.
    ///
    /// # Errors
    /// The registry cannot be written.
    pub async fn keep(&self, registry: &dyn Registry) -> Result<(), RegistryError> {
        let Self { found, published, attachments } = self;
        let module = &found.facts.name;
        registry.push_blob(module, &published.config).await?;
        for (_, bytes) in &published.layers {
            registry.push_blob(module, bytes).await?;
        }
        registry.push_manifest(module, media::MANIFEST, None, &found.document).await?;
        for attachment in attachments {
            registry.push_blob(module, b"{}").await?;
            registry.push_blob(module, &attachment.bytes).await?;
            let subject = crate::Descriptor::of(media::MANIFEST, &found.document);
            registry.attach(module, &found.manifest, &attachment.document(subject)).await?;
        }
        let there = signatures(registry, module, &found.manifest).await?;
        for one in found.signatures.iter().filter(|one| !there.contains(one)) {
            signature::add(registry, module, &found.manifest, one).await?;
        }
        registry.push_manifest(module, media::MANIFEST, Some(&tag_of(&found.facts.version)?), &found.document).await
    }
}
