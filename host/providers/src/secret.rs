//! Secrets, read from the environment or a file and never shown.

use crate::ProviderError;
use std::fmt;
use std::path::Path;

/// A key. Its `Debug` output is dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The replacement for a key in a text.
    pub(crate) const MARK: &str = "[key]";

    /// A key from a text, without surrounding white space; `None` if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// A key from a file that contains only the key.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn from_file(path: &Path) -> Result<Option<Self>, ProviderError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| ProviderError::KeyFile(path.display().to_string(), error))?;
        Ok(Self::new(&text))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The text without this key: an endpoint may quote the request.
    pub(crate) fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, Self::MARK)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
