//! Why a text is no manifest.

use clawhost_core::{did_you_mean, escaped};

/// Longest part of a message that repeats what was written, in bytes.
const SHOWN_BYTES: usize = 300;

/// Why a text is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not TOML, or a key or a value is not one of a manifest.
    #[error("line {line}: {message}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// Keys do not fit together.
    #[error("{key}: {why}")]
    Key {
        /// The key with its table, as `expect.floor`.
        key: &'static str,
        /// What is wrong, and what is expected.
        why: String,
    },
}

impl ManifestError {
    pub(crate) fn key(key: &'static str, why: impl Into<String>) -> Self {
        Self::Key { key, why: why.into() }
    }

    /// The error of the reader of TOML, with its line and the nearest known key.
    pub(crate) fn of(text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let message = format!("{}{}", escaped(error.message(), SHOWN_BYTES), did_you_mean(error.message()));
        Self::Line { line: before.matches('\n').count().saturating_add(1), message }
    }
}
