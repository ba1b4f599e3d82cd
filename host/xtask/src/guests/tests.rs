//! The digest of a guest depends on its sources, lock file and toolchain, and not on the folder of the build.

use super::*;
use std::ffi::OsStr;

/// A small plugin of this repository.
const PLUGIN: &str = "reward-exact";

/// Files that no build reads: version history and build output.
const LEFT_OUT: [&str; 2] = [".git", "target"];

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if LEFT_OUT.iter().any(|name| entry.file_name() == OsStr::new(name)) || kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

/// Another home folder of cargo with the packages and settings of the user's.
fn home(at: &Path) -> PathBuf {
    let usual = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let usual = usual.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap();
    std::fs::create_dir_all(at).unwrap();
    for name in ["registry", "git", "config.toml", "config"] {
        if usual.join(name).exists() {
            std::os::unix::fs::symlink(usual.join(name), at.join(name)).unwrap();
        }
    }
    at.to_owned()
}

/// Builds the component in a copy of the workspace inside this folder.
fn built_in(folder: &Path) -> Vec<u8> {
    let root = folder.join("checkout");
    copy(&crate::root(), &root);
    let place = Place::new(root, folder.join("artefacts")).with_home(home(&folder.join("home")));
    let built = compile(&place, &Route::Installed, &[PLUGIN]).unwrap();
    std::fs::read(built.join(format!("{}.wasm", PLUGIN.replace('-', "_")))).unwrap()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_guest_is_the_same_in_every_folder() {
    if !toolchain::is_installed() {
        say(&format!("skipped a_guest_is_the_same_in_every_folder: rustup target add {TARGET}"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("a longer name, with spaces"));
    let (first, second) = (built_in(&one), built_in(&other));
    assert!(first.starts_with(&COMPONENT));
    assert!(!holds(&first, &folder.path().display().to_string()), "the component names the folder it was built in");
    assert!(holds(&first, "/dependencies/serde_json-"), "locations of panics have the fixed name");
    assert_eq!(first.len(), second.len());
    assert!(first == second, "equal length, different bytes");
}
