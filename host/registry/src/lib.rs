//! Modules in registries (floor 2; with `providers` one of the two crates that use the network).
//!
//! A *registry* holds published modules as OCI artefacts: a server that speaks the OCI distribution protocol ([`OciRegistry`]), or a plain
//! folder ([`FolderRegistry`]). A module is a *repository* `team/name`; its versions are tags of manifests. Everything that is read is checked
//! against digest and length before it is used, so that a registry can withhold content, and never change it.
//!
//! Signatures have the format of cosign ([`signature`]); whose keys count for whom is in a [`Trust`] file.

mod auth;
mod document;
mod error;
mod folder;
mod key_store;
mod keys;
mod location;
mod oci;
mod port;
mod published;
mod pull;
mod push;
mod revocation;
pub mod signature;
mod statement;
mod status;
mod transport;
mod trust;

pub use document::{Descriptor, Document, Index, media};
pub use error::RegistryError;
pub use folder::FolderRegistry;
pub use key_store::{key_names, new_key, public_file, read_key, read_public_key};
pub use keys::{KeyKind, PrivateKey, PublicKey};
pub use location::{DEFAULT_TEAM, Location, PublishTarget};
pub use oci::{OciOptions, OciRegistry};
pub use port::{CONTENT_BYTES, DOCUMENT_BYTES, Reference, Registry};
pub use published::{Content, Facts, Published, facts_of as facts};
pub use pull::{Found, Pulled, find, find_pinned, pull, versions};
pub use push::{Attachment, Publication, Pushed, push};
pub use revocation::RevocationReport;
pub use statement::{Statement, statement_of};
pub use status::{State, Statuses, set_status, statuses};
pub use trust::{Policy, Signer, Trust, TrustedKey};

use std::sync::Arc;

/// Opens a registry. A folder is created by the first publication.
///
/// # Errors
/// The HTTP client cannot be made.
pub fn open(location: &Location, options: OciOptions) -> Result<Arc<dyn Registry>, RegistryError> {
    Ok(match location {
        Location::Folder(folder) => Arc::new(FolderRegistry::new(folder.clone())),
        Location::Oci { host, path } => Arc::new(OciRegistry::new(host, path, options)?),
    })
}
