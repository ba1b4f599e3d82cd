//! The languages that plugins are written in, as far as tools know them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A language with a template and a build of its own. Any other one needs a build command in `claw.toml`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Rust, with cargo.
    #[default]
    Rust,
    /// Python, with componentize-py.
    Python,
    /// JavaScript, with componentize-qjs.
    Js,
    /// C, with clang.
    C,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::Js, Self::C];

    /// Its name, as in `claw.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Js => "js",
            Self::C => "c",
        }
    }

    /// Whether its components carry an interpreter.
    pub const fn has_interpreter(self) -> bool {
        matches!(self, Self::Python | Self::Js)
    }

    /// What its sources are: files and folders beside the manifest, whose change means that the plugin is built again.
    pub const fn sources(self) -> &'static [&'static str] {
        match self {
            // Not Cargo.lock: a build writes it.
            Self::Rust => &["src", "Cargo.toml"],
            Self::Python | Self::Js | Self::C => &["src"],
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
