//! Text that arrives in fragments, without secrets.

use super::Secrets;

/// Scrubs secrets from text that arrives in fragments. What may be the beginning of one is held back until it is decided.
#[derive(Debug, Default)]
pub struct ScrubbedText {
    held: String,
    found: bool,
}

impl ScrubbedText {
    /// Takes a fragment; gives what may be passed on.
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

    /// The text is over: what was held back is no secret. Cut-off beginnings are passed on.
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
