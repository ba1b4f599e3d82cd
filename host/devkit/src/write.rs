//! Writes files of a plugin: all of it, or the old one stays.

use crate::DevkitError;
use std::io::Write as _;
use std::path::Path;

/// Replaces a file. An existing one keeps its permissions; a new one gets those of any new file.
///
/// # Errors
/// It cannot be written.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), DevkitError> {
    let unwritable =
        |error: std::io::Error| DevkitError::Unwritable { path: path.display().to_string(), why: error.to_string() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".clawhost-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Less what the user's umask takes away.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut draft = builder.tempfile_in(folder).map_err(unwritable)?;
    draft.write_all(bytes).map_err(unwritable)?;
    if let Ok(old) = std::fs::metadata(path) {
        draft.as_file().set_permissions(old.permissions()).map_err(unwritable)?;
    }
    draft.persist(path).map_err(|error| unwritable(error.error))?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_keeps_its_permissions_and_a_new_one_can_be_read_by_others() {
        let place = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (new, plain) = (place.path().join("deep/new"), place.path().join("plain"));
        replace(&new, b"1").unwrap();
        std::fs::write(&plain, "1").unwrap();
        assert_eq!(mode(&new), mode(&plain), "as any program would have made it");
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o640)).unwrap();
        replace(&new, b"2").unwrap();
        assert_eq!((clawhost_files::read(&new, 9).unwrap(), mode(&new)), (b"2".to_vec(), 0o640));
    }
}
