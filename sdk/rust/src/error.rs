//! Errors of plugin code: a text, and whether a model is to blame.

use std::fmt;

/// Something a plugin could not do, as a text for people. Anything that can be shown becomes one with `?`.
pub struct Error {
    text: String,
    of_model: bool,
}

/// What plugin code returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A model did not answer, or its answer is of no use. A reflector's host is told so (`model`); elsewhere it is an
    /// error like any other.
    pub fn model(text: impl Into<String>) -> Self {
        Self { text: text.into(), of_model: true }
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.text
    }

    /// Whether it is one of [`Error::model`].
    pub fn is_of_model(&self) -> bool {
        self.of_model
    }

    pub(crate) fn into_message(self) -> String {
        self.text
    }
}

// `Error` itself is not `Display`, which is what allows this conversion (as in `anyhow`).
impl<E: fmt::Display> From<E> for Error {
    fn from(error: E) -> Self {
        Self { text: error.to_string(), of_model: false }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
