//! Waits for changes of a plugin's sources.

use crate::DevkitError;
use crate::build::OUTPUTS;
use async_trait::async_trait;
use clawhost_app::{PluginFolder, TESTS};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Changes that follow each other within this time belong together: an editor writes a file in several steps.
const TOGETHER: Duration = Duration::from_millis(60);

/// What says that sources changed.
#[async_trait]
pub trait Changes: Send {
    /// Watches the sources of this plugin, and of those beside it, instead of what was watched before.
    ///
    /// # Errors
    /// The system cannot watch them.
    fn watch(&mut self, plugin: &PluginFolder) -> Result<(), DevkitError>;
    /// Waits for the next changes: the changed files.
    async fn next(&mut self) -> Vec<PathBuf>;
}

/// What is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Watched {
    /// The sources: files and folders, which may not be there yet.
    sources: BTreeSet<PathBuf>,
    /// The folders that the system watches for them, with whether everything in them is watched.
    folders: BTreeSet<(PathBuf, bool)>,
}

/// Changes of files, as the operating system tells them.
pub struct FileWatch {
    sender: UnboundedSender<PathBuf>,
    changed: UnboundedReceiver<PathBuf>,
    watched: Watched,
    watcher: Option<RecommendedWatcher>,
}

impl Default for FileWatch {
    fn default() -> Self {
        let (sender, changed) = unbounded_channel();
        Self { sender, changed, watched: Watched::default(), watcher: None }
    }
}

impl Watched {
    /// The files and folders that a plugin is made of, and those beside it.
    fn of(plugin: &PluginFolder) -> Self {
        let own = |plugin: &PluginFolder| {
            let named = plugin.manifest().watched().into_iter().chain([TESTS.to_owned()]);
            let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
            named.map(|path| absolute(plugin.path(&path))).collect::<Vec<_>>()
        };
        let beside = plugin.beside().into_iter().filter_map(|folder| PluginFolder::open(&folder).ok());
        let sources: BTreeSet<PathBuf> = own(plugin).into_iter().chain(beside.flat_map(|other| own(&other))).collect();
        let mut folders = BTreeSet::new();
        for source in &sources {
            if source.is_dir() {
                folders.insert((source.clone(), true));
            }
            // A file is replaced by editors, and a folder may not be there yet: the folder above tells both.
            let above = source.parent().filter(|above| above.is_dir());
            folders.extend(above.map(|above| (above.to_owned(), false)));
        }
        Self { sources, folders }
    }
}

#[async_trait]
impl Changes for FileWatch {
    fn watch(&mut self, plugin: &PluginFolder) -> Result<(), DevkitError> {
        let wanted = Watched::of(plugin);
        if self.watcher.is_some() && self.watched == wanted {
            return Ok(());
        }
        let refused = |error: notify::Error| {
            let folder = plugin.folder().display().to_string();
            DevkitError::Watch { folder, why: error.to_string() }
        };
        let (sender, sources) = (self.sender.clone(), wanted.sources.clone());
        let tell = move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            for path in event.paths.into_iter().filter(|path| sources.iter().any(|source| is_meant(source, path))) {
                // The receiver is gone when watching has ended.
                let _ = sender.send(path);
            }
        };
        let mut watcher = notify::recommended_watcher(tell).map_err(refused)?;
        for (folder, is_deep) in &wanted.folders {
            let mode = if *is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            watcher.watch(folder, mode).map_err(refused)?;
        }
        (self.watched, self.watcher) = (wanted, Some(watcher));
        Ok(())
    }

    async fn next(&mut self) -> Vec<PathBuf> {
        let mut changed = BTreeSet::new();
        // It holds a sender itself, so there is always one.
        if let Some(path) = self.changed.recv().await {
            changed.insert(path);
        }
        while let Ok(Some(path)) = tokio::time::timeout(TOGETHER, self.changed.recv()).await {
            changed.insert(path);
        }
        // Passing files of an editor are gone by now. If nothing is left, a source was removed.
        let there: Vec<PathBuf> = changed.iter().filter(|path| path.exists()).cloned().collect();
        if there.is_empty() { changed.into_iter().collect() } else { there }
    }
}

/// Whether a path is a source, or one in it that neither a build nor an editor wrote for itself.
fn is_meant(source: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(source) else { return false };
    let is_output = below.components().any(|part| OUTPUTS.iter().any(|output| part.as_os_str() == *output));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_passing = name.starts_with('.') || name.ends_with('~') || name.ends_with(".swp") || name.ends_with(".tmp");
    !is_output && !is_passing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_meant_and_what_builds_and_editors_write_is_not() {
        let check = |source: &str, path: &str, expect: bool| {
            assert_eq!(is_meant(Path::new(source), Path::new(path)), expect, "{source} {path}");
        };
        check("/p/src", "/p/src/lib.rs", true);
        check("/p/src", "/p/src/deep/a.rs", true);
        check("/p/claw.toml", "/p/claw.toml", true);
        check("/p/claw.toml", "/p/Cargo.lock", false);
        check("/p", "/p/build/p.wasm", false);
        check("/p", "/p/target/release/x", false);
        check("/p/src", "/p/src/.lib.rs.swp", false);
        check("/p/src", "/p/src/lib.rs~", false);
    }
}
