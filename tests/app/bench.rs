//! A data folder per test, plugins that are compiled once, and a clock with a constant time.

use crate::guests;
use clawhost_app::{Workspace, WorkspaceSettings};
use clawhost_core::Clock;
use clawhost_run_config::{RunSpec, RunSpecPatch, Verb};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A clock with a constant time, so that records depend only on the played episodes.
struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        1_800_000_000_000
    }

    fn monotonic_us(&self) -> u64 {
        0
    }
}

/// A data folder, and the guests.
pub(crate) struct Bench {
    pub(crate) guests: PathBuf,
    pub(crate) data: tempfile::TempDir,
}

impl Bench {
    /// A bench, or `None` to skip.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let guests = guests::folder_or_skip(test)?;
        Some(Self { guests, data: tempfile::tempdir().unwrap() })
    }

    /// Another bench with compiled plugins.
    #[allow(dead_code, reason = "not every suite begins anew so often")]
    pub(crate) fn warm(&self) -> Self {
        fn copy(from: &Path, to: &Path) {
            std::fs::create_dir_all(to).unwrap();
            for entry in std::fs::read_dir(from).unwrap().flatten() {
                let (path, copied) = (entry.path(), to.join(entry.file_name()));
                if path.is_dir() {
                    copy(&path, &copied);
                } else {
                    std::fs::copy(&path, &copied).unwrap();
                }
            }
        }
        let data = tempfile::tempdir().unwrap();
        copy(&self.data.path().join("cache"), &data.path().join("cache"));
        std::fs::copy(self.data.path().join("host.key"), data.path().join("host.key")).unwrap();
        Self { guests: self.guests.clone(), data }
    }

    /// The settings of the workspace.
    pub(crate) fn settings(&self) -> WorkspaceSettings {
        WorkspaceSettings { clock: Some(Arc::new(Still)), ..WorkspaceSettings::new(self.data.path()) }
    }

    /// The open workspace.
    #[allow(dead_code, reason = "not every suite keeps it open")]
    pub(crate) fn open(&self) -> Workspace {
        Workspace::open(self.settings()).unwrap()
    }

    /// A specification whose plugins are guests.
    pub(crate) fn spec(&self, verb: Verb, text: &str) -> RunSpec {
        let folder = self.guests.display().to_string();
        RunSpecPatch::from_toml(text, &folder)
            .and_then(|patch| patch.resolve(verb))
            .unwrap_or_else(|all| panic!("{all}"))
    }
}
