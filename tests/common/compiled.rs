//! Compiled plugins that tests share: most tests are about what plugins do, and compiling one takes seconds.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Largest size of the shared folder in bytes. Every new build of a guest adds to it; a larger one is emptied.
const SHARED_BYTES: u64 = 1 << 30;

/// The key of all data folders that share compiled code, which it authenticates.
const KEY: [u8; 32] = [7; 32];

/// The folder with the shared code, in the target directory.
fn shared() -> &'static Path {
    static SHARED: OnceLock<PathBuf> = OnceLock::new();
    SHARED.get_or_init(|| {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins");
        std::fs::create_dir_all(&cache).unwrap();
        let bytes: u64 =
            entries(&cache).iter().filter_map(|file| std::fs::metadata(file).ok()).map(|it| it.len()).sum();
        if bytes > SHARED_BYTES {
            entries(&cache).iter().for_each(|file| drop(std::fs::remove_file(file)));
        }
        cache
    })
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).map(|all| all.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

/// Adds to one folder the files that another has. They are never changed in place, so both can have the same file.
fn link(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in entries(from) {
        let name = file.file_name().unwrap();
        // It may be there already, or another test may have removed it.
        drop(std::fs::hard_link(&file, to.join(name)));
    }
}

/// Gives a new data folder what other tests have compiled.
pub(crate) fn lend(data: &Path) {
    std::fs::write(data.join("host.key"), KEY).unwrap();
    link(shared(), &data.join("cache"));
}

/// Keeps for later tests what was compiled in a data folder. One with another key has nothing for others.
pub(crate) fn take_back(data: &Path) {
    let key = data.join("host.key");
    // A test may have put a pipe in its place.
    if key.is_file() && std::fs::read(key).is_ok_and(|key| key == KEY) {
        link(&data.join("cache"), shared());
    }
}
