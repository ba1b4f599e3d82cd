//! Metadata of plugins.

use crate::{Attributes, Digest, LlmIdentity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An option of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionSpec {
    /// The name used in `plugin.wasm?name=value`.
    pub name: String,
    /// Description, one line.
    pub summary: String,
    /// Value if the option is not set.
    pub default_value: String,
}

/// Description of a plugin for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Short name.
    pub name: String,
    /// Version, assigned by the author.
    pub version: String,
    /// Summary, one line.
    pub summary: String,
    /// Optional features by name.
    pub features: Vec<String>,
    /// All options that the plugin reads.
    pub options: Vec<OptionSpec>,
    /// Extension fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra: Attributes,
}

impl About {
    /// A description with only a name.
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

    /// What it declares under a name in `extra`, in order: [`READS`](crate::READS), [`GIVES`].
    pub fn declared<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.extra.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The name in [`About::extra`] under which an environment declares what it gives beside observations: `reviews`,
/// `demonstrations`. One pair for each.
pub const GIVES: &str = "gives";

/// Identity of a plugin: its name, and the digest that pins it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PluginIdentity {
    /// Name that the plugin declares.
    pub name: String,
    /// Version, assigned by the author.
    pub version: String,
    /// Digest of the component's bytes.
    pub digest: Digest,
}

impl PluginIdentity {
    /// Identity of a part of the program that is not a component: determined by its name.
    pub fn native(name: &str) -> Self {
        Self { name: name.to_owned(), version: String::new(), digest: Digest::of(format!("native/{name}").as_bytes()) }
    }
}

/// Permissions of a plugin beyond computing and logging. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Whether it may use the kv store.
    pub kv: bool,
    /// Models that it may use, by the alias in its requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, LlmIdentity>,
}

impl Grants {
    /// Whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        !self.kv && self.models.is_empty()
    }
}

/// An option that the plugin does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{plugin} has no option `{option}`; it knows {}", known_list(known))]
pub struct UnknownOption {
    /// The plugin's name.
    pub plugin: String,
    /// The unknown option.
    pub option: String,
    /// The plugin's options.
    pub known: Vec<String>,
}

fn known_list(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}

/// Rejects options that the plugin does not declare, so that a typo is not silently ignored.
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
