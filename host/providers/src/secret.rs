//! Secrets: read from the environment or a file, shown to nobody.

use crate::ProviderError;
use std::fmt;
use std::path::Path;

/// A key. Printing it in any way shows dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// What stands where a key was.
    pub(crate) const MARK: &str = "[key]";

    /// A key from a text; surrounding white space is dropped. None if nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// A key from a file that holds nothing else.
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

    /// A text without this key in it: an endpoint may quote what it was sent.
    pub(crate) fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, Self::MARK)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
