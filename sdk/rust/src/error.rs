//! Errors of plugin code: a text, and whether a model caused it.

use std::fmt;

/// An error of a plugin, as a text for people. Any type that implements `Display` converts to it with `?`.
pub struct Error {
    text: String,
    of_model: bool,
}

/// The result type of plugin code.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A model did not answer, or its answer is invalid. For a reflector the host records the failure `model`;
    /// elsewhere it is an ordinary error.
    pub fn model(text: impl Into<String>) -> Self {
        Self { text: text.into(), of_model: true }
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.text
    }

    /// Whether it was made with [`Error::model`].
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
