//! Errors of named modules.

use clawhost_core::{Hint, escaped};
use clawhost_package::{LOCK_FILE, LockError, ModuleKind, ModuleName, ModuleNameError, ModuleRequest};
use clawhost_registry::RegistryError;
use semver::Version;

/// Bytes of a text that a message shows.
const SHOWN: usize = 300;

/// A named module cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// A text names no module.
    #[error(transparent)]
    Name(#[from] ModuleNameError),
    /// A registry or a module in it cannot be used.
    #[error(transparent)]
    Registry(Box<RegistryError>),
    /// The lock of the project cannot be read.
    #[error("{path}: {error}")]
    Lock {
        /// The file.
        path: String,
        /// The reason.
        error: LockError,
    },
    /// The lock pins another version than the one that is asked for.
    #[error("{LOCK_FILE} pins {} {pinned}, which is not {wanted}", .wanted.name)]
    PinnedOther {
        /// The version in the lock.
        pinned: Version,
        /// What is asked for.
        wanted: ModuleRequest,
    },
    /// Two parts of a run ask for different versions of one module.
    #[error("two versions of {name} in one run: {versions}")]
    TwoVersions {
        /// The module.
        name: ModuleName,
        /// The versions, for people.
        versions: String,
    },
    /// A module was pulled by nobody, and its registry cannot be asked.
    #[error("{wanted} was not pulled yet: {}", escaped(.why, SHOWN))]
    NotPulled {
        /// What is asked for.
        wanted: ModuleRequest,
        /// Why the registry did not help.
        why: String,
    },
    /// A module is something else than what is needed.
    #[error("{name} {version} is of the kind {kind}, and {needed} is needed here")]
    OtherKind {
        /// The module.
        name: ModuleName,
        /// Its version.
        version: Version,
        /// What it is.
        kind: ModuleKind,
        /// What is needed.
        needed: &'static str,
    },
}

impl From<RegistryError> for ModuleError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(Box::new(error))
    }
}

impl ModuleError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "module_name",
            Self::Registry(error) => error.code(),
            Self::Lock { .. } => "lock",
            Self::PinnedOther { .. } => "pinned_other",
            Self::TwoVersions { .. } => "two_versions",
            Self::NotPulled { .. } => "not_pulled",
            Self::OtherKind { .. } => "other_kind",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Registry(error) => error.hints(),
            Self::PinnedOther { wanted, .. } => vec![Hint::command(format!("add {wanted}"), "pins that one")],
            Self::TwoVersions { name, .. } => vec![Hint::command(format!("add {name}"), "pins one of them for all")],
            Self::NotPulled { wanted, .. } => vec![
                Hint::command(format!("add {wanted}"), "pulls and pins it"),
                Hint::outside("write ./ in front of a path that looks like the name of a module"),
            ],
            Self::Lock { .. } => {
                vec![Hint::outside("take the file from version control, or remove it and add the modules again")]
            }
            Self::Name(_) | Self::OtherKind { .. } => Vec::new(),
        }
    }
}
