//! Writes bundles. Equal contents give equal bytes.

use crate::archive::{END, filling, header, size};
use crate::error::BundleError;
use crate::limits::{BUNDLE_BYTES, LEVEL, UNPACKED_BYTES};
use crate::manifest::{BundledRun, Entry, FORMAT, Manifest};
use crate::name::{EntryName, MANIFEST};
use clawhost_core::Digest;
use std::collections::BTreeMap;
use std::io::Write;

/// What the manifest says beside its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The program with its version.
    pub program: String,
    /// The major version of its engine.
    pub engine: u32,
    /// Whether references and prompts are in the bundle.
    pub private: bool,
    /// The run, then its phases.
    pub runs: Vec<BundledRun>,
}

/// A bundle that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The digest of its manifest.
    pub digest: Digest,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Collects the entries of a bundle, in any order.
#[derive(Debug, Default)]
pub struct Builder {
    entries: BTreeMap<EntryName, (Vec<u8>, u64)>,
    bytes: u64,
}

impl Builder {
    /// Adds an entry. One of the same name is replaced.
    ///
    /// # Errors
    /// It is larger than [`UNPACKED_BYTES`], or all together are larger than [`BUNDLE_BYTES`].
    pub fn add(&mut self, name: EntryName, content: &[u8]) -> Result<(), BundleError> {
        let unpacked = content.len() as u64;
        let large = |what: String, found, limit| BundleError::TooLarge { what, found, limit };
        if unpacked > UNPACKED_BYTES {
            return Err(large(name.to_string(), unpacked, UNPACKED_BYTES));
        }
        let packed = zstd::bulk::compress(content, LEVEL).map_err(|error| BundleError::Unpacked {
            name,
            unpacked,
            why: error.to_string(),
        })?;
        self.bytes = self.bytes.saturating_add(packed.len() as u64);
        if self.bytes > BUNDLE_BYTES {
            return Err(large("the bundle".to_owned(), self.bytes, BUNDLE_BYTES));
        }
        self.entries.insert(name, (packed, unpacked));
        Ok(())
    }

    /// Writes the bundle.
    ///
    /// # Errors
    /// A limit is exceeded, or it cannot be written.
    pub fn write(self, head: Head, mut out: impl Write) -> Result<Written, BundleError> {
        let Head { program, engine, private, runs } = head;
        let entry = |(name, (packed, unpacked)): (&EntryName, &(Vec<u8>, u64))| Entry {
            name: *name,
            length: packed.len() as u64,
            digest: Digest::of(packed),
            unpacked: *unpacked,
        };
        let entries = self.entries.iter().map(entry).collect();
        let manifest = Manifest { format: FORMAT, program, engine, private, runs, entries };
        manifest.check()?;
        let document = manifest.bytes();
        let contents = self.entries.iter().map(|(name, (packed, _))| (name.to_string(), packed.as_slice()));
        let mut bytes = END;
        for (name, content) in std::iter::once((MANIFEST.to_owned(), document.as_slice())).chain(contents) {
            let length = content.len() as u64;
            let head = header(&name, length)?;
            let nothing = [0; 512];
            let fill = nothing.get(..filling(length) as usize).unwrap_or_default();
            for part in [&head[..], content, fill] {
                out.write_all(part)
                    .map_err(|error| BundleError::File { path: "the bundle".to_owned(), why: error.to_string() })?;
            }
            bytes += size(length).unwrap_or_default();
        }
        out.write_all(&[0; END as usize])
            .and_then(|()| out.flush())
            .map_err(|error| BundleError::File { path: "the bundle".to_owned(), why: error.to_string() })?;
        Ok(Written { digest: Digest::of(&document), bytes })
    }
}
