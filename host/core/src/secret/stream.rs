//! Scrubs secrets from text that arrives in fragments.

use super::Secrets;

/// Scrubs secrets from text that arrives in fragments. A possible beginning of a secret is held back until more text decides.
#[derive(Debug, Default)]
pub struct ScrubbedText {
    held: String,
    found: bool,
}

impl ScrubbedText {
    /// Adds a fragment. Returns the text that may be passed on.
    pub fn push(&mut self, secrets: &Secrets, more: &str) -> String {
        if secrets.is_empty() {
            return more.to_owned();
        }
        self.held.push_str(more);
        let (passed, held, found) = secrets.split(&self.held);
        self.held = held;
        self.found |= found;
        passed
    }

    /// Ends the text. Returns what was held back: the beginning of a secret that was cut off is passed on.
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Whether nothing is held back.
    pub fn is_settled(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether a secret was found.
    pub fn has_found(&self) -> bool {
        self.found
    }
}
