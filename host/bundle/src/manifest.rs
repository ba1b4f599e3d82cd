//! The manifest of a bundle.

use crate::error::BundleError;
use crate::limits::{ALL_UNPACKED_BYTES, ANY_RATIO_BYTES, ENTRIES, EPISODES, RATIO, UNPACKED_BYTES};
use crate::name::EntryName;
use clawhost_core::{Digest, RunId, RunKind, canonical_json};
use serde::{Deserialize, Serialize};

/// The version of the format. Increased when a reader of the old one would misread the new one.
pub const FORMAT: u32 = 1;

/// An entry of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name.
    pub name: EntryName,
    /// Its length in the archive, in bytes.
    pub length: u64,
    /// The digest of these bytes.
    pub digest: Digest,
    /// Its length after decompression, in bytes.
    pub unpacked: u64,
}

/// A run in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledRun {
    /// Its id in the bundle.
    pub id: RunId,
    /// Its purpose.
    pub kind: RunKind,
    /// Its episodes in the bundle.
    pub episodes: u64,
}

/// What a bundle is, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The program that wrote it, with its version.
    pub program: String,
    /// The major version of the engine that components ran in: other ones may count fuel differently.
    pub engine: u32,
    /// Whether references and prompts are in it.
    pub private: bool,
    /// The run, then its phases.
    pub runs: Vec<BundledRun>,
    /// The entries, in the order of the archive and of their names.
    pub entries: Vec<Entry>,
}

/// What every version of the format has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u64,
}

impl Manifest {
    /// Its bytes: canonical JSON, so that equal manifests have one digest.
    pub fn bytes(&self) -> Vec<u8> {
        canonical_json(&serde_json::json!(self)).into_bytes()
    }

    /// Reads a manifest. `engine`: the major version of the engine here.
    pub(crate) fn read(bytes: &[u8], engine: u32) -> Result<Self, BundleError> {
        let damaged = |why: String| BundleError::Manifest { why };
        let any: AnyFormat = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if any.format != u64::from(FORMAT) {
            return Err(BundleError::Format { found: any.format, known: FORMAT });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if manifest.engine != engine {
            return Err(BundleError::Engine { found: manifest.engine, known: engine });
        }
        if manifest.bytes() != bytes {
            return Err(damaged("it is not written as canonical JSON".to_owned()));
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks the limits and the order of the entries.
    pub(crate) fn check(&self) -> Result<(), BundleError> {
        let large = |what: String, found: u64, limit: u64| BundleError::TooLarge { what, found, limit };
        if self.entries.len() > ENTRIES {
            return Err(large("its list of entries".to_owned(), self.entries.len() as u64, ENTRIES as u64));
        }
        let episodes = self.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.episodes));
        if episodes > EPISODES {
            return Err(large("its list of runs".to_owned(), episodes, EPISODES));
        }
        let mut all = 0_u64;
        for Entry { name, length, unpacked, .. } in &self.entries {
            if *unpacked > UNPACKED_BYTES {
                return Err(large(name.to_string(), *unpacked, UNPACKED_BYTES));
            }
            if *unpacked > ANY_RATIO_BYTES && unpacked / (*length).max(1) >= RATIO {
                return Err(BundleError::Ratio { name: *name, length: *length, unpacked: *unpacked });
            }
            all = all.saturating_add(*unpacked);
        }
        if all > ALL_UNPACKED_BYTES {
            return Err(large("the sum of its entries".to_owned(), all, ALL_UNPACKED_BYTES));
        }
        for pair in self.entries.windows(2) {
            match pair {
                [one, next] if one.name == next.name => return Err(BundleError::Twice { name: next.name }),
                [one, next] if one.name > next.name => return Err(BundleError::Order { name: next.name }),
                _ => {}
            }
        }
        Ok(())
    }
}
