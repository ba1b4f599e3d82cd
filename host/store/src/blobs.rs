//! Blobs: large content in files beside the database, named by their digest.
//!
//! A blob is written once, to a temporary file that is flushed and renamed, and is checked on every read. Every writer
//! of blobs holds a shared lease of the data folder. Temporary files are deleted only under the exclusive lease.

use crate::error::file;
use clawhost_core::{Digest, StoreError};
use clawhost_files::Refused;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Largest size of a blob. A blob is held in memory as a whole. This size fits a model of one billion parameters with
/// both moments of its optimiser in 32 bits (12 GB). A larger file in the folder is not treated as a blob.
pub const LARGEST_BLOB: u64 = 16 << 30;

/// Prefix of the names of files that are being written.
const TEMPORARY: &str = "tmp-";

/// The blobs of one data folder.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    folder: PathBuf,
    largest: u64,
}

/// The files of the folder.
#[derive(Debug, Default)]
pub(crate) struct BlobFiles {
    /// Blobs with their sizes.
    pub(crate) blobs: Vec<(Digest, u64)>,
    /// Unfinished temporary files with their sizes.
    pub(crate) temporary: Vec<(PathBuf, u64)>,
}

impl Blobs {
    pub(crate) fn new(data: &Path) -> Self {
        Self { folder: data.join("blobs").join("sha256"), largest: LARGEST_BLOB }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.folder.join(hex.get(..2).unwrap_or_default()).join(hex)
    }

    /// Whether a file with this name and size exists. Its content is checked on reading.
    pub(crate) fn contains(&self, digest: &Digest, size: u64) -> bool {
        std::fs::metadata(self.path(digest)).is_ok_and(|found| found.is_file() && found.len() == size)
    }

    /// Writes a blob if it is missing. It is durable when this returns.
    pub(crate) fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(digest);
        if bytes.len() as u64 > self.largest {
            let (path, size, largest) = (path.display(), bytes.len(), self.largest);
            return Err(StoreError::Other(format!("{path}: {size} bytes; a blob has at most {largest}")));
        }
        self.write(&path, digest, bytes).map_err(|error| file(&path, &error))
    }

    fn write(&self, path: &Path, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.folder);
        make_private(folder)?;
        if !self.contains(digest, bytes.len() as u64) {
            let mut temporary = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?;
            temporary.write_all(bytes)?;
            temporary.as_file().sync_all()?;
            temporary.persist(path)?;
        }
        // Also for an existing file: another process may have renamed it a moment ago.
        sync_folder(folder)
    }

    /// Reads a blob and checks it. `what` names the record that refers to it.
    pub(crate) fn get(&self, what: &str, digest: &Digest, size: u64) -> Result<Vec<u8>, StoreError> {
        let (what, folder, digest) = (what.to_owned(), self.folder.display().to_string(), *digest);
        match self.read(&digest, size) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(StoreError::BlobDamaged { what, digest, folder }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::BlobMissing { what, digest, folder })
            }
            Err(error) => Err(file(&self.path(&digest), &error)),
        }
    }

    /// `None`: the content does not match the name.
    fn read(&self, digest: &Digest, size: u64) -> io::Result<Option<Vec<u8>>> {
        let (found, there) = match clawhost_files::open(&self.path(digest), self.largest) {
            Ok(opened) => opened,
            Err(error) if Refused::of(&error).is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        if there != size {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        // One byte more detects a file that grows.
        found.take(size + 1).read_to_end(&mut bytes)?;
        Ok((Digest::of(&bytes) == *digest).then_some(bytes))
    }

    /// Deletes a blob. Returns whether it existed.
    pub(crate) fn delete(&self, digest: &Digest) -> Result<bool, StoreError> {
        delete(&self.path(digest))
    }

    /// All files of the folder, except files with other names.
    pub(crate) fn files(&self) -> Result<BlobFiles, StoreError> {
        let mut files = BlobFiles::default();
        for folder in entries(&self.folder)? {
            if !folder.is_dir() {
                continue;
            }
            for path in entries(&folder)? {
                // A file may be renamed or deleted during the listing.
                let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
                let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| found.is_file()) else {
                    continue;
                };
                if name.starts_with(TEMPORARY) {
                    files.temporary.push((path, found.len()));
                } else if let Ok(digest) = format!("sha256:{name}").parse::<Digest>()
                    && self.path(&digest) == path
                {
                    files.blobs.push((digest, found.len()));
                }
            }
        }
        Ok(files)
    }
}

/// Deletes a file. Returns whether it existed.
pub(crate) fn delete(path: &Path) -> Result<bool, StoreError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(file(path, &error)),
    }
}

/// The entries of a folder. Empty if the folder does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let list = || -> io::Result<Vec<PathBuf>> { std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect() };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|error| file(folder, &error)),
    }
}

/// Creates a folder and its parents, readable only by their owner. They are durable when this returns.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        make_private(above)?;
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        // Another process has created it.
        Err(_) if folder.is_dir() => {}
        made => made?,
    }
    above.map_or(Ok(()), sync_folder)
}

/// Makes the names in a folder durable. Windows has no such call and needs none.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_above_the_limit_is_neither_written_nor_read() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs { largest: 4, ..Blobs::new(folder.path()) };
        let (small, large) = (Digest::of(b"four"), Digest::of(b"fives"));
        blobs.put(&small, b"four").unwrap();
        let error = blobs.put(&large, b"fives").unwrap_err().to_string();
        assert!(error.ends_with("5 bytes; a blob has at most 4"), "{error}");
        assert_eq!(blobs.files().unwrap().blobs, [(small, 4)]);
        Blobs::new(folder.path()).put(&large, b"fives").unwrap();
        assert!(matches!(blobs.get("x", &large, 5), Err(StoreError::BlobDamaged { .. })));
    }

    #[test]
    fn files_with_other_names_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        let digest = Digest::of(b"blob");
        assert!(blobs.files().unwrap().blobs.is_empty(), "no folder, no blobs");
        blobs.put(&digest, b"blob").unwrap();
        let own = blobs.path(&digest);
        let other = blobs.folder.join("zz");
        std::fs::create_dir(&other).unwrap();
        // The right name in the wrong folder, a wrong name in the right folder, a file beside the folders.
        for path in [other.join(digest.hex()), own.with_file_name("notes.txt"), blobs.folder.join("README")] {
            std::fs::write(path, "not ours").unwrap();
        }
        let temporary = own.with_file_name("tmp-abc");
        std::fs::write(&temporary, "half").unwrap();
        let files = blobs.files().unwrap();
        assert_eq!((files.blobs, files.temporary), (vec![(digest, 4)], vec![(temporary, 4)]));
    }

    #[test]
    fn two_threads_write_one_blob() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        let bytes = vec![7; 1 << 20];
        let digest = Digest::of(&bytes);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| blobs.put(&digest, &bytes).unwrap());
            }
        });
        assert!(blobs.get("x", &digest, 1 << 20).unwrap() == bytes);
        assert!(blobs.files().unwrap().temporary.is_empty());
    }
}
