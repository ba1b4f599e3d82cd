//! Tokens as text while they come: a character may be spread over tokens, so text is shown once it is whole.

use super::Tokenizer;
use crate::LocalModelError;

/// The text of an answer that grows token by token.
#[derive(Debug, Clone)]
pub struct IncrementalText {
    tokenizer: Tokenizer,
    tokens: Vec<u32>,
    /// Tokens from which on text is made anew; some before those that are not shown yet, as a token's text may depend on them.
    anchor: usize,
    /// Tokens whose text is shown.
    shown: usize,
    text: String,
}

impl IncrementalText {
    /// Of an answer that begins.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, tokens: Vec::new(), anchor: 0, shown: 0, text: String::new() }
    }

    /// Takes a token, and gives the text that became whole by it. Special tokens have none.
    ///
    /// # Errors
    /// The tokenizer cannot read its own tokens.
    pub fn push(&mut self, token: u32) -> Result<&str, LocalModelError> {
        self.tokens.push(token);
        let of = |part: Option<&[u32]>| self.tokenizer.decode(part.unwrap_or_default(), true);
        let before = of(self.tokens.get(self.anchor..self.shown))?;
        let now = of(self.tokens.get(self.anchor..))?;
        let start = self.text.len();
        if !now.ends_with(char::REPLACEMENT_CHARACTER)
            && let Some(new) = now.strip_prefix(before.as_str())
        {
            self.text.push_str(new);
            (self.anchor, self.shown) = (self.shown, self.tokens.len());
        }
        Ok(self.text.get(start..).unwrap_or_default())
    }

    /// All that was given.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::alphabet_json;

    #[test]
    fn pieces_together_are_the_whole_text() {
        let tokenizer = Tokenizer::parse(&alphabet_json(&['a', 'b', '\n'])).unwrap();
        let mut text = IncrementalText::new(tokenizer);
        let pieces: Vec<String> = [0, 2, 1, 1].into_iter().map(|token| text.push(token).unwrap().to_owned()).collect();
        assert_eq!((pieces.concat().as_str(), text.text()), ("a\nbb", "a\nbb"));
    }
}
