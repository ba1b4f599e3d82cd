//! A data folder per test, plugins that are compiled once, and a clock with a constant time.

use crate::{compiled, guests};
use clawhost_app::{Workspace, WorkspaceSettings};
use clawhost_core::Clock;
use clawhost_run_config::{RunSpec, RunSpecPatch, Verb};
use std::path::PathBuf;
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

/// A data folder in which plugins that other tests have used are compiled already.
fn with_compiled() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    compiled::lend(data.path());
    data
}

/// A data folder, and the guests.
pub(crate) struct Bench {
    pub(crate) guests: PathBuf,
    pub(crate) data: tempfile::TempDir,
}

impl Drop for Bench {
    fn drop(&mut self) {
        compiled::take_back(self.data.path());
    }
}

impl Bench {
    /// A bench with what other tests have compiled, or `None` to skip.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let guests = guests::folder_or_skip(test)?;
        Some(Self { guests, data: with_compiled() })
    }

    /// Another bench in which the plugins of this one are compiled.
    #[allow(dead_code, reason = "not every suite begins anew so often")]
    pub(crate) fn warm(&self) -> Self {
        compiled::take_back(self.data.path());
        Self { guests: self.guests.clone(), data: with_compiled() }
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
