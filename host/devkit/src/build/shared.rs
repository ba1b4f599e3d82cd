//! The folder in which plugins in Rust share compiled libraries.
//!
//! cargo names the packages of a workspace by their place in it. So two plugins of one name, in two folders, have one place in a shared build
//! folder, and cargo takes the artefacts of the one for those of the other whenever they are newer than its sources. The owner of each
//! package is therefore recorded; what another folder left is removed before a build.

use super::failed;
use crate::DevkitError;
use crate::toolchain::TARGET;
use clawhost_app::PluginFolder;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The name of the record of owners.
const OWNERS: &str = "owners.json";
/// The name of the file that one build at a time locks.
const LOCK: &str = "lock";
/// Largest record in bytes: tens of thousands of packages.
const OWNERS_BYTES: u64 = 4 << 20;

/// The shared folder, locked for one build.
pub(super) struct Shared {
    folder: PathBuf,
    _lock: File,
}

impl Shared {
    /// Waits until no other build uses the folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn lock(folder: PathBuf) -> Result<Self, DevkitError> {
        let path = folder.join(LOCK);
        let unwritable = |error: std::io::Error| DevkitError::Unwritable {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        std::fs::create_dir_all(&folder).map_err(unwritable)?;
        let lock = File::options().create(true).append(true).open(&path).map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        Ok(Self { folder, _lock: lock })
    }

    /// The folder, for cargo.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes this plugin the owner of its packages. What another folder left of them is removed with `clean`, which is given their names.
    ///
    /// # Errors
    /// `clean` fails, or the record cannot be written.
    pub(super) fn own(
        &self,
        workspace: &Workspace,
        clean: impl FnOnce(&[&str]) -> Result<(), DevkitError>,
    ) -> Result<(), DevkitError> {
        let path = self.folder.join(OWNERS);
        // A record that is missing or damaged names no owner: everything is removed.
        let mut owners: BTreeMap<String, PathBuf> = clawhost_files::read(&path, OWNERS_BYTES)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let is_foreign = |name: &&String| owners.get(*name) != Some(&workspace.root);
        let foreign: Vec<&str> = workspace.packages.iter().filter(is_foreign).map(String::as_str).collect();
        if foreign.is_empty() {
            return Ok(());
        }
        clean(&foreign)?;
        owners.extend(workspace.packages.iter().map(|name| (name.clone(), workspace.root.clone())));
        let text = serde_json::to_vec(&owners).unwrap_or_default();
        crate::write::replace(&path, &text)
    }
}

/// A workspace of cargo.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Workspace {
    /// Its folder.
    pub(super) root: PathBuf,
    /// The names of its packages.
    pub(super) packages: Vec<String>,
}

impl Workspace {
    /// The workspace of a plugin, as cargo sees it. `None`: cargo cannot read it, and says why when it builds.
    ///
    /// # Errors
    /// cargo cannot be started.
    pub(super) fn of(plugin: &PluginFolder) -> std::io::Result<Option<Self>> {
        let mut command = Command::new("cargo");
        command.current_dir(plugin.folder()).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        Ok(serde_json::from_slice(&output.stdout).ok().and_then(|metadata| Self::read(&metadata)))
    }

    fn read(metadata: &serde_json::Value) -> Option<Self> {
        let root = metadata.get("workspace_root")?.as_str()?.into();
        let packages = metadata.get("packages")?.as_array()?;
        let names = packages.iter().filter_map(|package| Some(package.get("name")?.as_str()?.to_owned()));
        Some(Self { root, packages: names.collect() })
    }
}

/// Removes packages from the build folder.
pub(super) fn clean(plugin: &PluginFolder, mut command: Command, packages: &[&str]) -> Result<(), DevkitError> {
    command.args(["clean", "--quiet", "--release", "--target", TARGET]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(plugin, format!("cargo clean: {error}"), Vec::new()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    Err(failed(plugin, format!("cargo clean: {}", output.status), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_folder_left_is_removed_and_own_artefacts_stay() {
        let place = tempfile::tempdir().unwrap();
        let shared = Shared::lock(place.path().join("rust")).unwrap();
        let check = |root: &str, packages: &[&str], expect: &[&str]| {
            let workspace =
                Workspace { root: root.into(), packages: packages.iter().map(|&name| name.into()).collect() };
            let mut removed: Vec<String> = Vec::new();
            let clean = |names: &[&str]| {
                removed = names.iter().map(|&name| name.to_owned()).collect();
                Ok(())
            };
            shared.own(&workspace, clean).unwrap();
            assert_eq!(removed, expect, "{root}");
        };
        check("/a", &["fair", "parts"], &["fair", "parts"]);
        check("/a", &["fair", "parts"], &[]);
        check("/b", &["fair"], &["fair"]);
        check("/b", &["fair"], &[]);
        check("/a", &["fair", "parts"], &["fair"]);
        std::fs::write(place.path().join("rust").join(OWNERS), "{").unwrap();
        check("/a", &["fair", "parts"], &["fair", "parts"]);
    }

    #[test]
    fn packages_stay_foreign_if_they_cannot_be_removed() {
        let place = tempfile::tempdir().unwrap();
        let shared = Shared::lock(place.path().to_owned()).unwrap();
        let workspace = Workspace { root: "/a".into(), packages: vec!["fair".into()] };
        let fails = |_: &[&str]| Err(DevkitError::Unwritable { path: "/x".into(), why: "full".into() });
        assert!(shared.own(&workspace, fails).is_err());
        let mut is_removed = false;
        shared
            .own(&workspace, |_| {
                is_removed = true;
                Ok(())
            })
            .unwrap();
        assert!(is_removed);
    }

    #[test]
    fn a_workspace_is_read_from_what_cargo_says() {
        let check = |text: &str, expect: Option<Workspace>| {
            assert_eq!(Workspace::read(&serde_json::from_str(text).unwrap()), expect, "{text}");
        };
        let packages = vec!["fair".into(), "parts".into()];
        check(
            r#"{"workspace_root":"/a","packages":[{"name":"fair"},{"name":"parts"}]}"#,
            Some(Workspace { root: "/a".into(), packages }),
        );
        check(r#"{"packages":[]}"#, None);
    }
}
