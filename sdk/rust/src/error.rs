//! Errors of plugin code: a text.

use std::fmt;

/// Something a plugin could not do, as a text for people. Anything that can be shown becomes one with `?`.
pub struct Error(String);

/// What plugin code returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The text.
    pub fn message(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_message(self) -> String {
        self.0
    }
}

// `Error` itself is not `Display`, which is what allows this conversion (as in `anyhow`).
impl<E: fmt::Display> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
