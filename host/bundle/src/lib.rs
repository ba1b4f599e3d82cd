//! The file of a proof (floor 1): one archive whose manifest determines every other byte of it.
//!
//! A bundle is a plain tar. Its first entry, `manifest.json`, is canonical JSON and lists all others with their lengths and digests. So the
//! digest of the manifest stands for the whole file: it is what a signature is about. The format is in `host/PROOF.md`.
//!
//! Invariants:
//! * Names are a closed set ([`EntryName`]). No name from a bundle becomes a path on disk, because nothing is unpacked to disk.
//! * The archive is exactly what [`Builder`] would write for its manifest. A header is compared, not interpreted, so there are no links, no
//!   second entry of a name and nothing between entries or behind the last one.
//! * Every size is checked before memory is reserved for it.

mod archive;
mod error;
pub mod limits;
mod manifest;
mod name;
mod read;
mod write;

pub use error::BundleError;
pub use manifest::{BundledRun, Entry, FORMAT, Manifest};
pub use name::{EntryName, UnknownName};
pub use read::Bundle;
pub use write::{Builder, Head, Written};
