//! Names of fakes.

use clawhost_core::{About, Digest, PluginIdentity};

/// A plugin of this name, with nothing else to say about it.
pub fn about(name: &str) -> About {
    About { version: "1".into(), ..About::named(name) }
}

/// The identity of a plugin of this name: another name, another digest.
pub fn identity(name: &str) -> PluginIdentity {
    PluginIdentity { name: name.into(), version: "1".into(), digest: Digest::of(name.as_bytes()) }
}
