//! What is known about a plugin from the outside.

use crate::{Attributes, Digest, LlmIdentity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One thing an operator may choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionSpec {
    /// The name used in `plugin.wasm?name=value`.
    pub name: String,
    /// What it does, in one line.
    pub summary: String,
    /// The value in force when nothing is chosen.
    pub default_value: String,
}

/// What people are shown about a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Short name.
    pub name: String,
    /// The author's version.
    pub version: String,
    /// One line.
    pub summary: String,
    /// Optional abilities by name.
    pub features: Vec<String>,
    /// Every option the plugin reads.
    pub options: Vec<OptionSpec>,
    /// Room to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

impl About {
    /// A name, and nothing about it.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: String::new(),
            summary: String::new(),
            features: Vec::new(),
            options: Vec::new(),
            extra: Vec::new(),
        }
    }
}

/// Which plugin: its own name, and the digest that pins it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PluginIdentity {
    /// The plugin's own name.
    pub name: String,
    /// The author's version.
    pub version: String,
    /// The digest of the component's bytes.
    pub digest: Digest,
}

impl PluginIdentity {
    /// What is no component but part of the program: known by its name alone.
    pub fn native(name: &str) -> Self {
        Self { name: name.to_owned(), version: String::new(), digest: Digest::of(format!("native/{name}").as_bytes()) }
    }
}

/// What the operator allows a plugin beyond computing and logging. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Whether it may keep notes in kv.
    pub kv: bool,
    /// Models it may ask, by the alias it names them with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, LlmIdentity>,
}

impl Grants {
    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        !self.kv && self.models.is_empty()
    }
}

/// An option that a plugin does not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{plugin} has no option `{option}`; it knows {}", known_list(known))]
pub struct UnknownOption {
    /// The plugin's name.
    pub plugin: String,
    /// What was asked for.
    pub option: String,
    /// What there is.
    pub known: Vec<String>,
}

fn known_list(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// Refuses options that the plugin does not declare: a typo must not be silently ignored.
///
/// # Errors
/// The first unknown option, with all known ones.
pub fn check_options(about: &About, options: &Attributes) -> Result<(), UnknownOption> {
    for (name, _) in options {
        if !about.options.iter().any(|known| known.name == *name) {
            return Err(UnknownOption {
                plugin: about.name.clone(),
                option: name.clone(),
                known: about.options.iter().map(|known| known.name.clone()).collect(),
            });
        }
    }
    Ok(())
}
