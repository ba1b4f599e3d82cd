//! What a registry does. Adapters: a server, a folder.

use crate::{Descriptor, Location, RegistryError};
use async_trait::async_trait;
use clawhost_core::Digest;
use clawhost_package::ModuleName;
use std::fmt;

/// Largest content that is pulled or pushed, in bytes: components of Python have some 40 MB, adapters of small models less.
pub const CONTENT_BYTES: u64 = 512 << 20;
/// Largest document of a registry in bytes, as the OCI distribution specification recommends.
pub const DOCUMENT_BYTES: u64 = 4 << 20;

/// How a manifest is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// By a tag, which the registry may change.
    Tag(String),
    /// By its digest.
    Digest(Digest),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => write!(f, "{digest}"),
        }
    }
}

/// A registry. What it returns is not trusted: callers of [`manifest`](Self::manifest) and [`blob`](Self::blob) get bytes that fit their digests.
#[async_trait]
pub trait Registry: Send + Sync + fmt::Debug {
    /// Where it is.
    fn location(&self) -> &Location;

    /// The tags of a module. `None`: there is no such module.
    async fn tags(&self, module: &ModuleName) -> Result<Option<Vec<String>>, RegistryError>;

    /// A manifest or an index, at most [`DOCUMENT_BYTES`] long. `None`: there is none of this name.
    async fn manifest(&self, module: &ModuleName, reference: &Reference) -> Result<Option<Vec<u8>>, RegistryError>;

    /// Content by its descriptor: of that length and with that digest.
    async fn blob(&self, module: &ModuleName, descriptor: &Descriptor) -> Result<Vec<u8>, RegistryError>;

    /// Stores content.
    async fn push_blob(&self, module: &ModuleName, content: &[u8]) -> Result<(), RegistryError>;

    /// Stores a manifest or an index of a media type, under a tag or its digest alone.
    async fn push_manifest(
        &self,
        module: &ModuleName,
        media_type: &str,
        tag: Option<&str>,
        bytes: &[u8],
    ) -> Result<(), RegistryError>;

    /// The manifests that are about another one.
    async fn referrers(&self, module: &ModuleName, subject: &Digest) -> Result<Vec<Descriptor>, RegistryError>;

    /// Stores a manifest that is about another one, so that [`referrers`](Self::referrers) lists it.
    async fn attach(&self, module: &ModuleName, subject: &Digest, bytes: &[u8]) -> Result<(), RegistryError>;

    /// All modules. Some servers do not say.
    async fn modules(&self) -> Result<Vec<ModuleName>, RegistryError>;
}

/// The tag under which referrers of a digest are listed where a registry does not list them itself.
pub(crate) fn referrers_tag(subject: &Digest) -> String {
    subject.to_string().replacen(':', "-", 1)
}

/// Checks content against its digest.
pub(crate) fn unchanged(what: &str, expected: &Digest, bytes: &[u8]) -> Result<(), RegistryError> {
    let found = Digest::of(bytes);
    match found == *expected {
        true => Ok(()),
        false => Err(RegistryError::Changed { what: what.to_owned(), expected: *expected, found }),
    }
}

/// Checks the length that a descriptor says, before anything is read.
pub(crate) fn length(what: &str, size: u64) -> Result<(), RegistryError> {
    match size <= CONTENT_BYTES {
        true => Ok(()),
        false => {
            let why = format!("it has {size} bytes; {CONTENT_BYTES} at most are read");
            Err(RegistryError::Size { what: what.to_owned(), why })
        }
    }
}
