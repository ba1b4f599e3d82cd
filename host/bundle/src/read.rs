//! Reads bundles.

use crate::archive::{BLOCK, END, header, length, size};
use crate::error::BundleError;
use crate::limits::{BUNDLE_BYTES, MANIFEST_BYTES, WINDOW_LOG};
use crate::manifest::{Entry, Manifest};
use crate::name::{EntryName, MANIFEST};
use clawhost_core::Digest;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An open bundle: its manifest was read, and the archive has the shape that follows from it. The contents of its entries are checked
/// when they are read.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    file: Mutex<File>,
    manifest: Manifest,
    digest: Digest,
    /// Where the content of each entry begins, in the order of the manifest.
    places: Vec<u64>,
}

type Block = [u8; BLOCK as usize];

impl Bundle {
    /// Opens a bundle. `engine`: the major version of the engine here.
    ///
    /// # Errors
    /// It cannot be read, it is no bundle of this format and engine, it exceeds a limit, or its archive is not the one that its manifest
    /// describes.
    pub fn open(path: &Path, engine: u32) -> Result<Self, BundleError> {
        let shown = path.display().to_string();
        let failed = |error: std::io::Error| BundleError::File { path: shown.clone(), why: error.to_string() };
        let foreign = || BundleError::NotABundle { path: shown.clone() };
        let (mut file, found) = clawhost_files::open(path, BUNDLE_BYTES).map_err(failed)?;
        if found < BLOCK {
            return Err(foreign());
        }
        let mut first: Block = [0; BLOCK as usize];
        file.read_exact(&mut first).map_err(failed)?;
        let of_manifest = length(&first).filter(|length| header(MANIFEST, *length).is_ok_and(|made| made == first));
        let of_manifest = of_manifest.ok_or_else(foreign)?;
        if of_manifest > MANIFEST_BYTES {
            let what = MANIFEST.to_owned();
            return Err(BundleError::TooLarge { what, found: of_manifest, limit: MANIFEST_BYTES });
        }
        if BLOCK + of_manifest > found {
            return Err(BundleError::Size { expected: BLOCK + of_manifest, found });
        }
        let document = read_at(&mut file, BLOCK, of_manifest).map_err(failed)?;
        let manifest = Manifest::read(&document, engine)?;
        let endless = || BundleError::Size { expected: u64::MAX, found };
        let mut at = size(of_manifest).ok_or_else(endless)?;
        let mut places = Vec::with_capacity(manifest.entries.len());
        for Entry { length, .. } in &manifest.entries {
            places.push(at + BLOCK);
            at = size(*length).and_then(|size| at.checked_add(size)).ok_or_else(endless)?;
        }
        let expected = at.checked_add(END).ok_or_else(endless)?;
        if expected != found {
            return Err(BundleError::Size { expected, found });
        }
        let bundle =
            Self { path: path.to_owned(), file: Mutex::new(file), digest: Digest::of(&document), manifest, places };
        bundle.check_frame(of_manifest)?;
        Ok(bundle)
    }

    /// Everything around the contents: headers, fillings and the end.
    fn check_frame(&self, of_manifest: u64) -> Result<(), BundleError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_empty = |from: u64, length: u64, name: &str| match read_at(&mut file, from, length) {
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => Ok(()),
            Ok(_) => Err(BundleError::Header { name: name.to_owned() }),
            Err(error) => Err(self.failed(&error)),
        };
        is_empty(BLOCK + of_manifest, crate::archive::filling(of_manifest), MANIFEST)?;
        let mut end = BLOCK + of_manifest + crate::archive::filling(of_manifest);
        for (Entry { name, length, .. }, place) in self.manifest.entries.iter().zip(&self.places) {
            let filling = crate::archive::filling(*length);
            is_empty(place + length, filling, &name.to_string())?;
            end = place + length + filling;
        }
        is_empty(end, END, "its end")?;
        for (Entry { name, length, .. }, place) in self.manifest.entries.iter().zip(&self.places) {
            let name = name.to_string();
            let found = read_at(&mut file, place - BLOCK, BLOCK).map_err(|error| self.failed(&error))?;
            if found != header(&name, *length)? {
                return Err(BundleError::Header { name });
            }
        }
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> BundleError {
        BundleError::File { path: self.path.display().to_string(), why: error.to_string() }
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The digest of the manifest, which stands for the whole bundle: what a signature is about.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether it has an entry.
    pub fn has(&self, name: EntryName) -> bool {
        self.manifest.entries.iter().any(|entry| entry.name == name)
    }

    /// The content of an entry. Its bytes are checked against the manifest on every read.
    ///
    /// # Errors
    /// There is no such entry, it was changed, or it cannot be decompressed to its length.
    pub fn read(&self, name: EntryName) -> Result<Vec<u8>, BundleError> {
        let (packed, unpacked) = self.packed(name)?;
        unpack(&packed, unpacked).map_err(|why| BundleError::Unpacked { name, unpacked, why })
    }

    /// Checks the bytes of an entry against the manifest.
    ///
    /// # Errors
    /// There is no such entry, or it was changed.
    pub fn check(&self, name: EntryName) -> Result<(), BundleError> {
        self.packed(name).map(drop)
    }

    /// The bytes of an entry in the archive, and its length after decompression.
    fn packed(&self, name: EntryName) -> Result<(Vec<u8>, u64), BundleError> {
        let entries = self.manifest.entries.iter().zip(&self.places);
        let found = entries.into_iter().find(|(entry, _)| entry.name == name);
        let (Entry { length, digest, unpacked, .. }, place) = found.ok_or(BundleError::Missing { name })?;
        let packed = {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            read_at(&mut file, *place, *length).map_err(|error| self.failed(&error))?
        };
        let found = Digest::of(&packed);
        if found != *digest {
            return Err(BundleError::Changed { name, recorded: *digest, found });
        }
        Ok((packed, *unpacked))
    }
}

/// Reads a part of a file whose size is known.
fn read_at(file: &mut File, from: u64, length: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.take(length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Decompresses up to a known length.
fn unpack(packed: &[u8], unpacked: u64) -> Result<Vec<u8>, String> {
    let mut decoder = zstd::stream::read::Decoder::new(packed).map_err(|error| error.to_string())?;
    decoder.window_log_max(WINDOW_LOG).map_err(|error| error.to_string())?;
    let mut content = Vec::new();
    // One byte more than the limit detects a content that goes on.
    decoder.take(unpacked.saturating_add(1)).read_to_end(&mut content).map_err(|error| error.to_string())?;
    match content.len() as u64 {
        length if length == unpacked => Ok(content),
        length if length > unpacked => Err("it goes on behind them".to_owned()),
        length => Err(format!("it has {length}")),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
