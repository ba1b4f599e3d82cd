//! What a plugin says of itself, and what pins it (floor 1, pure).
//!
//! A *package* is a plugin with its manifest: the file `claw.toml` beside the sources of a plugin ([`Manifest`]). It
//! names the plugin, what it asks for, and what may be expected of it. What an operator grants stands elsewhere: the
//! effective permissions are what both name.
//!
//! A *module* is what was published, under a name ([`ModuleName`]) and a version: a plugin, a playbook or an adapter. A [`Lock`] pins the modules
//! of a project.
//!
//! Nothing here opens a file or asks a registry.

mod kind;
mod language;
mod limits;
mod lock;
mod manifest;
mod module_kind;
mod module_name;
mod oracle;
mod plugin_name;
mod problem;

pub use kind::Kind;
pub use language::Language;
pub use limits::{LimitAbove, LimitsSection};
pub use lock::{LOCK_BYTES, LOCK_FILE, Lock, LockError, LockedModule};
pub use manifest::{BuildSection, ExpectSection, GrantsSection, Manifest, PluginSection, TasksSection};
pub use module_kind::ModuleKind;
pub use module_name::{ModuleName, ModuleNameError, ModuleRequest, Named, named};
pub use oracle::Oracle;
pub use plugin_name::{PluginName, PluginNameError};
pub use problem::ManifestError;

/// The name of the manifest's file.
pub const MANIFEST_FILE: &str = "claw.toml";

/// The custom section of a component that holds its manifest, as it was when the component was built.
pub const MANIFEST_SECTION: &str = "claw.toml";

/// Largest manifest in bytes. A long one has a few kilobytes.
pub const MANIFEST_BYTES: u64 = 256 << 10;
