//! Leases as file locks: `leases/run-...`, `leases/playbook-...` and `leases/folder`. The operating system releases a
//! lock when its process ends.

use crate::blobs::make_private;
use crate::error::file;
use clawhost_core::{Digest, Lease, LeaseMode, LeaseSubject, Leases, StoreError};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Attempts to lock while other processes keep removing the file. Each failure means that another process ended its
/// lease.
const ATTEMPTS: usize = 16;

/// Longest name inside a file name: file systems allow 255 bytes.
const LONGEST_NAME: usize = 200;

/// Leases of one data folder.
#[derive(Debug, Clone)]
pub struct FileLeases {
    folder: PathBuf,
}

impl FileLeases {
    /// Leases of a data folder.
    pub fn new(data: &Path) -> Self {
        Self { folder: data.join("leases") }
    }

    fn path(&self, subject: &LeaseSubject) -> PathBuf {
        self.folder.join(match subject {
            LeaseSubject::Run(run) => format!("run-{}", escaped(&run.0)),
            LeaseSubject::Weights(alias) => format!("weights-{}", escaped(alias)),
            LeaseSubject::ServedWeights(alias) => format!("served-weights-{}", escaped(alias)),
            LeaseSubject::Playbook(name) => format!("playbook-{}", escaped(name)),
            LeaseSubject::Gateway => "gateway".to_owned(),
            LeaseSubject::Folder => "folder".to_owned(),
        })
    }

    fn lock(&self, path: &Path, mode: LeaseMode) -> io::Result<Option<FileLease>> {
        make_private(&self.folder)?;
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match attempt(options.open(path)?, path, mode)? {
                Attempt::Locked(file) => return Ok(Some(FileLease { path: path.to_owned(), file, mode })),
                Attempt::Held => return Ok(None),
                Attempt::Removed => {}
            }
        }
        Ok(None)
    }
}

/// The result of one attempt to lock an open file.
#[derive(Debug)]
enum Attempt {
    Locked(File),
    /// Another process holds it.
    Held,
    /// It is no longer at its path: a lock on it would exclude no other process.
    Removed,
}

fn attempt(file: File, path: &Path, mode: LeaseMode) -> io::Result<Attempt> {
    let locked = match mode {
        LeaseMode::Exclusive => file.try_lock(),
        LeaseMode::Shared => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Attempt::Held),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Another process may have removed it after it was opened here.
    Ok(if is_at(&file, path)? { Attempt::Locked(file) } else { Attempt::Removed })
}

impl Leases for FileLeases {
    fn acquire(&self, subject: &LeaseSubject, mode: LeaseMode) -> Result<Option<Box<dyn Lease>>, StoreError> {
        let path = self.path(subject);
        let lease = self.lock(&path, mode).map_err(|error| file(&path, &error))?;
        Ok(lease.map(|lease| Box::new(lease) as Box<dyn Lease>))
    }
}

#[derive(Debug)]
struct FileLease {
    path: PathBuf,
    file: File,
    mode: LeaseMode,
}

impl Lease for FileLease {
    fn complete(self: Box<Self>) {
        // A shared lease keeps the file: other processes may hold it. Unlocking is sufficient.
        if self.mode == LeaseMode::Exclusive && is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether an open file is the one at a path.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let own = file.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        Ok((own.dev(), own.ino()) == (there.dev(), there.ino()))
    }
    // On other systems an open file keeps its name until it is closed.
    #[cfg(not(unix))]
    Ok(own.is_file() && there.is_file())
}

/// A name as part of a file name. Different names give different texts, even if the file system ignores case. No text
/// leaves the folder.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02x}")),
        }
    }
    // `=` occurs in no escaped name.
    if text.len() > LONGEST_NAME { format!("={}", Digest::of(name.as_bytes()).hex()) } else { text }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_a_file_that_was_removed_is_no_lease() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = |file| attempt(file, &path, LeaseMode::Exclusive).unwrap();
        let opened = [(); 2].map(|()| File::create(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let [first, second] = opened;
        assert!(matches!(lock(first), Attempt::Removed));
        let later = File::create(&path).unwrap();
        assert!(matches!(lock(second), Attempt::Removed));
        let held = lock(later);
        assert!(matches!(held, Attempt::Locked(_)));
        assert!(matches!(lock(File::open(&path).unwrap()), Attempt::Held));
    }
}
