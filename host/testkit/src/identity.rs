//! Identities of fakes.

use clawhost_core::{About, Digest, PluginIdentity};

/// The description of a plugin with this name and no other details.
pub fn about(name: &str) -> About {
    About { version: "1".into(), ..About::named(name) }
}

/// The identity of a plugin with this name. Its digest is computed from the name.
pub fn identity(name: &str) -> PluginIdentity {
    PluginIdentity { name: name.into(), version: "1".into(), digest: Digest::of(name.as_bytes()) }
}
