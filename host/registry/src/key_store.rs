//! The private keys of a data folder: `keys/NAME.pem`, readable by their owner alone, each with its public key in `keys/NAME.pub`.

use crate::{KeyKind, PrivateKey, PublicKey, RegistryError};
use clawhost_package::PluginName;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The folder in a data folder.
const FOLDER: &str = "keys";
/// Largest file of a key in bytes.
const KEY_BYTES: u64 = 64 << 10;

/// The file of a private key.
fn private(data: &Path, name: &PluginName) -> PathBuf {
    data.join(FOLDER).join(format!("{name}.pem"))
}

/// The file of its public key, which is given to others.
pub fn public_file(data: &Path, name: &PluginName) -> PathBuf {
    data.join(FOLDER).join(format!("{name}.pub"))
}

/// Makes a key, and stores it. A name that is taken is refused: a key is never replaced.
///
/// # Errors
/// The name is taken, or the files cannot be written.
pub fn new_key(data: &Path, name: &PluginName, kind: KeyKind) -> Result<PublicKey, RegistryError> {
    let path = private(data, name);
    let key = PrivateKey::generate(kind)?;
    let write = |path: &Path, text: &str, is_secret: bool| -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_secret { 0o600 } else { 0o644 });
        let mut file = options.open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    std::fs::create_dir_all(data.join(FOLDER)).map_err(|error| RegistryError::file(&path, &error))?;
    write(&path, &key.pem(), true).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => RegistryError::Key {
            what: name.to_string(),
            why: "there is a key of this name, and keys are never replaced".to_owned(),
        },
        _ => RegistryError::file(&path, &error),
    })?;
    let shared = public_file(data, name);
    write(&shared, &key.public().pem(), false).map_err(|error| RegistryError::file(&shared, &error))?;
    Ok(key.public())
}

/// The names of the keys of a data folder, sorted.
///
/// # Errors
/// The folder cannot be read.
pub fn key_names(data: &Path) -> Result<Vec<PluginName>, RegistryError> {
    let folder = data.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RegistryError::file(&folder, &error)),
    };
    let name = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".pem")?.parse().ok();
    let mut names: Vec<PluginName> = entries.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// Reads a private key: by its name in a data folder, or from a file.
///
/// # Errors
/// There is none, or it cannot be used.
pub fn read_key(data: &Path, named: &str) -> Result<PrivateKey, RegistryError> {
    let path = match named.parse::<PluginName>() {
        Ok(name) if !Path::new(named).exists() => private(data, &name),
        _ => PathBuf::from(named),
    };
    let text = clawhost_files::read_text(&path, KEY_BYTES).map_err(|error| RegistryError::file(&path, &error))?;
    PrivateKey::read(&path.display().to_string(), &text)
}

/// Reads a public key from a file.
///
/// # Errors
/// It cannot be read or used.
pub fn read_public_key(path: &Path) -> Result<PublicKey, RegistryError> {
    let text = clawhost_files::read_text(path, KEY_BYTES).map_err(|error| RegistryError::file(path, &error))?;
    PublicKey::read(&path.display().to_string(), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_stored_for_its_owner_alone_and_never_replaced() {
        let data = tempfile::tempdir().unwrap();
        let name: PluginName = "shop".parse().unwrap();
        assert_eq!(key_names(data.path()), Ok(Vec::new()));
        let made = new_key(data.path(), &name, KeyKind::P256).unwrap();
        assert_eq!(key_names(data.path()), Ok(vec![name.clone()]));
        assert_eq!(read_key(data.path(), "shop").unwrap().public(), made);
        assert_eq!(read_key(data.path(), &private(data.path(), &name).display().to_string()).unwrap().public(), made);
        assert_eq!(read_public_key(&public_file(data.path(), &name)), Ok(made));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(private(data.path(), &name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let again = new_key(data.path(), &name, KeyKind::P256).unwrap_err().to_string();
        assert!(again.contains("keys are never replaced"), "{again}");
        assert!(read_key(data.path(), "other").unwrap_err().to_string().contains("other.pem"));
    }
}
