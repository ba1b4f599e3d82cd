//! The admin's key of a gateway: a file in the data folder. Who can read the folder is its admin.

use crate::workspace::make;
use crate::{AppError, RequestError};
use clawhost_core::Secret;
use clawhost_gateway::ADMIN_KEY_PREFIX;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// The file in the data folder.
const FILE: &str = "admin.key";
/// Largest size of the file in bytes: a key and the end of its line.
const FILE_BYTES: u64 = 256;
/// Random bytes of a key.
const KEY_BYTES: usize = 32;

fn unusable(path: &Path, why: impl std::fmt::Display) -> AppError {
    RequestError::File { path: path.display().to_string(), why: why.to_string() }.into()
}

/// The admin's key of a data folder, if a gateway has made one there.
///
/// # Errors
/// The file is damaged or cannot be read.
pub fn known_admin_key(folder: &Path) -> Result<Option<Secret>, AppError> {
    let path = folder.join(FILE);
    let text = match clawhost_files::read_text(&path, FILE_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, error)),
        Ok(text) => text,
    };
    let key = text.trim();
    let digits = key.strip_prefix(ADMIN_KEY_PREFIX).unwrap_or_default();
    let is_whole = digits.len() == 2 * KEY_BYTES && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let secret = Secret::new(key).filter(|_| is_whole);
    let damaged = "not an admin's key; delete it, and the next start of the gateway makes another one";
    secret.map(Some).ok_or_else(|| unusable(&path, damaged))
}

/// The same, made on first use. Only the owner of the folder may read it.
///
/// # Errors
/// The file is damaged, or cannot be read or written.
pub(crate) fn admin_key(folder: &Path) -> Result<Secret, AppError> {
    make(folder)?;
    let path = folder.join(FILE);
    if let Some(key) = known_admin_key(folder)? {
        return Ok(key);
    }
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| AppError::Host(format!("no randomness for a key: {error}")))?;
    let key = format!("{ADMIN_KEY_PREFIX}{}", bytes.map(|byte| format!("{byte:02x}")).concat());
    // Temporary files are made for their owner alone. A key that another process made meanwhile stays.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| unusable(&path, error))?;
    writeln!(file, "{key}").map_err(|error| unusable(&path, error))?;
    if let Err(error) = file.persist_noclobber(&path)
        && error.error.kind() != ErrorKind::AlreadyExists
    {
        return Err(unusable(&path, error.error));
    }
    known_admin_key(folder)?.ok_or_else(|| unusable(&path, "it was deleted while it was read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admins_key_is_made_once_for_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(known_admin_key(folder.path()).unwrap().is_none());
        let made = admin_key(folder.path()).unwrap();
        let digits = made.expose().strip_prefix(ADMIN_KEY_PREFIX).unwrap();
        assert_eq!(digits.len(), 64);
        assert_eq!(admin_key(folder.path()).unwrap(), made);
        assert_eq!(known_admin_key(folder.path()).unwrap(), Some(made.clone()));
        assert_ne!(admin_key(tempfile::tempdir().unwrap().path()).unwrap(), made);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_admins_key_is_named_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let short = format!("{ADMIN_KEY_PREFIX}12");
        let long = format!("{ADMIN_KEY_PREFIX}{}", "1".repeat(300));
        for text in ["", "secret", &short, &long, &"g".repeat(73)] {
            std::fs::write(&path, text).unwrap();
            let error = admin_key(folder.path()).unwrap_err().to_string();
            assert!(error.contains(FILE) && !error.contains(&"1".repeat(12)), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
