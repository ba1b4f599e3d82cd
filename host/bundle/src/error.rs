//! Why a bundle is not read or written.

use crate::name::EntryName;
use clawhost_core::Digest;

/// Why a bundle is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// The file does not begin as a bundle does.
    #[error("{path} is not a bundle of this program: it does not begin with a manifest")]
    NotABundle {
        /// The file.
        path: String,
    },
    /// Another version of the format.
    #[error("the bundle has format {found}, and this program reads format {known}; use the program that it names")]
    Format {
        /// Its format.
        found: u64,
        /// The format of this program.
        known: u32,
    },
    /// Another engine.
    #[error(
        "the bundle was made with engine {found}, and this program has engine {known}: equal components may use other amounts of fuel; verify it with a program that has engine {found}"
    )]
    Engine {
        /// The major version of its engine.
        found: u32,
        /// That of this program.
        known: u32,
    },
    /// The manifest is not one.
    #[error("the manifest of the bundle cannot be read: {why}")]
    Manifest {
        /// The reason.
        why: String,
    },
    /// Something is larger than its limit.
    #[error("the bundle is refused: {what} has {found}, and at most {limit} are read")]
    TooLarge {
        /// The part.
        what: String,
        /// Its size.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// An entry that grows too much.
    #[error("the bundle is refused: {name} grows from {length} bytes to {unpacked}, which no record does")]
    Ratio {
        /// The entry.
        name: EntryName,
        /// Its length in the archive.
        length: u64,
        /// Its length after decompression.
        unpacked: u64,
    },
    /// Two entries of one name.
    #[error("the bundle is refused: it has {name} twice")]
    Twice {
        /// The name.
        name: EntryName,
    },
    /// An entry in the wrong place.
    #[error("the bundle is refused: {name} is not in the order of names")]
    Order {
        /// The name.
        name: EntryName,
    },
    /// The file ends too early, or goes on.
    #[error("the bundle has {found} bytes, and its manifest makes {expected}: it was cut, or something was added")]
    Size {
        /// The size that follows from the manifest.
        expected: u64,
        /// The size of the file.
        found: u64,
    },
    /// The archive has another entry than the manifest lists.
    #[error("the archive does not have {name} where its manifest lists it")]
    Header {
        /// The entry.
        name: String,
    },
    /// The bytes of an entry are not those of the manifest.
    #[error("{name} was changed: it has the digest {found}, and the manifest lists {recorded}")]
    Changed {
        /// The entry.
        name: EntryName,
        /// The digest in the manifest.
        recorded: Digest,
        /// The digest of its bytes.
        found: Digest,
    },
    /// An entry that cannot be decompressed to its length.
    #[error("{name} cannot be unpacked to the {unpacked} bytes that the manifest lists: {why}")]
    Unpacked {
        /// The entry.
        name: EntryName,
        /// Its length after decompression, as the manifest lists it.
        unpacked: u64,
        /// The reason.
        why: String,
    },
    /// The bundle lacks an entry.
    #[error("the bundle has no {name}, which every bundle has that needs it")]
    Missing {
        /// The entry.
        name: EntryName,
    },
}
