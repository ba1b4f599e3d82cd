//! The lock of a project: `claw.lock`. It pins modules to their bytes, so that equal locks mean equal plugins.

use crate::{ModuleKind, ModuleName, ModuleRequest};
use clawhost_core::{Digest, did_you_mean, escaped};
use semver::Version;
use serde::{Deserialize, Serialize};

/// The name of the lock's file.
pub const LOCK_FILE: &str = "claw.lock";
/// Largest lock in bytes: thousands of modules.
pub const LOCK_BYTES: u64 = 4 << 20;
/// The format of locks.
const FORMAT: u32 = 1;
/// Most modules of a lock.
const MODULES: usize = 4096;
/// Longest part of a message that is shown, in bytes.
const SHOWN: usize = 200;
/// What stands first in a lock.
const HEADER: &str =
    "# Written by `clawhost add` and `clawhost update`. Commit it: it pins modules to their bytes.\n\n";

/// A text is no lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It cannot be parsed.
    #[error("{0}")]
    Text(String),
    /// It has another format.
    #[error("it has format {0}; this program reads format {FORMAT}")]
    Format(u32),
    /// It has more than [`MODULES`] modules.
    #[error("it has {0} modules; {MODULES} at most are possible")]
    Long(usize),
    /// It has a module twice.
    #[error("it has two versions of {0}")]
    Twice(ModuleName),
}

/// The modules of a project, pinned. Each name occurs once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    format: u32,
    #[serde(default, rename = "module")]
    modules: Vec<LockedModule>,
}

/// A pinned module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedModule {
    /// Its name.
    pub name: ModuleName,
    /// Its version.
    pub version: Version,
    /// The versions that were asked for: an update stays in them.
    pub versions: semver::VersionReq,
    /// Its kind.
    pub kind: ModuleKind,
    /// The registry that it came from.
    pub registry: String,
    /// Digest of its manifest in the registry. Signatures are about this digest.
    pub manifest: Digest,
    /// Digest of its content: the component, or the document.
    pub content: Digest,
    /// Length of its content in bytes.
    pub bytes: u64,
    /// Fingerprint of the key that signed it. `None`: no trusted key did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<Digest>,
}

impl Default for Lock {
    fn default() -> Self {
        Self { format: FORMAT, modules: Vec::new() }
    }
}

impl Lock {
    /// Parses a lock.
    ///
    /// # Errors
    /// It is no lock of this format, or has a module twice.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let lock: Self = toml::from_str(text).map_err(|error| {
            let line =
                error.span().map_or(1, |span| 1 + text.get(..span.start).unwrap_or_default().matches('\n').count());
            let why = error.message();
            LockError::Text(format!("line {line}: {}{}", escaped(why, SHOWN), did_you_mean(why)))
        })?;
        if lock.format != FORMAT {
            return Err(LockError::Format(lock.format));
        }
        if lock.modules.len() > MODULES {
            return Err(LockError::Long(lock.modules.len()));
        }
        let mut seen = std::collections::BTreeSet::new();
        match lock.modules.iter().find(|module| !seen.insert(&module.name)) {
            Some(module) => Err(LockError::Twice(module.name.clone())),
            None => Ok(lock),
        }
    }

    /// The lock as text: modules in the order of their names.
    pub fn text(&self) -> String {
        // Names, numbers and texts have a form in TOML, all of them.
        format!("{HEADER}{}", toml::to_string(self).unwrap_or_default())
    }

    /// The modules.
    pub fn modules(&self) -> &[LockedModule] {
        &self.modules
    }

    /// The module of a name.
    pub fn module(&self, name: &ModuleName) -> Option<&LockedModule> {
        self.modules.iter().find(|module| module.name == *name)
    }

    /// The module of a name, if its version is one of those that are asked for.
    pub fn fitting(&self, request: &ModuleRequest) -> Option<&LockedModule> {
        self.module(&request.name).filter(|module| request.versions.matches(&module.version))
    }

    /// Pins a module. Returns what was pinned under its name.
    pub fn pin(&mut self, module: LockedModule) -> Option<LockedModule> {
        let before = self.unpin(&module.name);
        self.modules.push(module);
        self.modules.sort_by(|one, other| one.name.cmp(&other.name));
        before
    }

    /// Removes a module. Returns it.
    pub fn unpin(&mut self, name: &ModuleName) -> Option<LockedModule> {
        let position = self.modules.iter().position(|module| module.name == *name)?;
        Some(self.modules.remove(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn module(name: &str, version: &str) -> LockedModule {
        LockedModule {
            name: name.parse().unwrap(),
            version: version.parse().unwrap(),
            versions: "1".parse().unwrap(),
            kind: ModuleKind::Reward,
            registry: "oci://127.0.0.1:5000/shop".to_owned(),
            manifest: Digest::of(b"manifest"),
            content: Digest::of(b"content"),
            bytes: 7,
            signed_by: Some(Digest::of(b"key")),
        }
    }

    #[test]
    fn a_lock_keeps_its_modules_by_name() {
        let mut lock = Lock::default();
        assert_eq!(lock.pin(module("b/y", "1.0.0")), None);
        assert_eq!(lock.pin(module("a/x", "1.0.0")), None);
        assert_eq!(lock.pin(module("b/y", "1.1.0")), Some(module("b/y", "1.0.0")));
        let names: Vec<_> = lock.modules().iter().map(|module| module.name.to_string()).collect();
        assert_eq!(names, ["a/x", "b/y"]);
        assert_eq!(lock.fitting(&"b/y@1".parse().unwrap()), Some(&module("b/y", "1.1.0")));
        assert_eq!(lock.fitting(&"b/y@1.0.0".parse().unwrap()), None);
        assert!(lock.text().starts_with("# Written by `clawhost add`"));
        assert_eq!(lock.unpin(&"a/x".parse().unwrap()), Some(module("a/x", "1.0.0")));
        assert_eq!(Lock::parse(&lock.text()), Ok(lock));
    }

    #[test]
    fn a_lock_that_is_damaged_is_refused_with_its_line() {
        let mut lock = Lock::default();
        lock.pin(module("a/x", "1.0.0"));
        let text = lock.text();
        let check = |text: &str, expect: &str| {
            let error = Lock::parse(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(&text.replace("format = 1", "format = 2"), "it has format 2; this program reads format 1");
        check(&text.replace("bytes = 7", "bites = 7"), "unknown field `bites`");
        check(&text.replace("sha256:", "sha512:"), "line 12");
        check(&text.replace("1.0.0", "one"), "line 7");
        check(&text.replace("a/x", "A/x"), "did you mean `a`?");
        let module = text.split_once("[[module]]").unwrap().1;
        check(&format!("{text}\n[[module]]{module}"), "it has two versions of a/x");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(registry in "\\PC{0,40}", bytes in 0..u64::MAX / 2, versions in "[1-9]\\.[0-9]") {
            let mut lock = Lock::default();
            let versions = versions.parse().unwrap();
            lock.pin(LockedModule { registry, bytes, versions, signed_by: None, ..module("a/x", "2.0.0-beta.1") });
            prop_assert_eq!(Lock::parse(&lock.text()), Ok(lock));
        }

        #[test]
        fn any_text_is_a_lock_or_an_error(text in "\\PC{0,200}") {
            let _ = Lock::parse(&text);
        }
    }
}
