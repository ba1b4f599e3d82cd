//! The project of the working folder: its lock.

use super::ModuleError;
use clawhost_package::{LOCK_BYTES, LOCK_FILE, Lock, LockError};
use clawhost_registry::RegistryError;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A folder with a lock, or without one yet.
#[derive(Debug, Clone)]
pub struct Project {
    path: PathBuf,
}

impl Project {
    /// The project of the working folder.
    pub fn here() -> Self {
        Self { path: PathBuf::from(LOCK_FILE) }
    }

    /// The project of a folder.
    pub fn of(folder: &Path) -> Self {
        Self { path: folder.join(LOCK_FILE) }
    }

    /// The file of the lock.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock. Without a file it is empty.
    ///
    /// # Errors
    /// The file is no lock: it is never taken for an empty one.
    pub fn lock(&self) -> Result<Lock, ModuleError> {
        let wrong = |error: LockError| ModuleError::Lock { path: self.path.display().to_string(), error };
        match clawhost_files::read_text(&self.path, LOCK_BYTES) {
            Ok(text) => Lock::parse(&text).map_err(wrong),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Lock::default()),
            Err(error) => Err(wrong(LockError::Text(error.to_string()))),
        }
    }

    /// Writes the lock: all of it, or the old one stays.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, lock: &Lock) -> Result<(), ModuleError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = || -> std::io::Result<()> {
            let mut draft = tempfile::Builder::new().prefix(".claw-").tempfile_in(folder)?;
            draft.write_all(lock.text().as_bytes())?;
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                draft.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
            }
            draft.persist(&self.path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| {
            RegistryError::File { path: self.path.display().to_string(), why: error.to_string() }.into()
        })
    }
}
