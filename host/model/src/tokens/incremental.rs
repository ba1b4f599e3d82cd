//! Tokens to text while they are generated. A character may span several tokens, so text is returned once it is
//! complete.

use super::Tokenizer;
use crate::LocalModelError;
use std::collections::BTreeMap;

/// The text of an answer that grows token by token.
#[derive(Debug, Clone)]
pub struct IncrementalText {
    tokenizer: Tokenizer,
    tokens: Vec<u32>,
    /// The first token that is decoded again: somewhat before the first token without returned text, as the text of a
    /// token may depend on previous tokens.
    anchor: usize,
    /// Tokens whose text was returned.
    shown: usize,
    text: String,
    /// Control tokens that are shown, with their texts.
    marks: BTreeMap<u32, String>,
}

impl IncrementalText {
    /// For a new answer.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, tokens: Vec::new(), anchor: 0, shown: 0, text: String::new(), marks: BTreeMap::new() }
    }

    /// Shows these control tokens.
    pub fn showing(self, marks: BTreeMap<u32, String>) -> Self {
        Self { marks, ..self }
    }

    /// Adds a token, and returns the text that it completes. Special tokens have none.
    ///
    /// # Errors
    /// The tokenizer cannot decode its own tokens.
    pub fn push(&mut self, token: u32) -> Result<&str, LocalModelError> {
        if let Some(mark) = self.marks.get(&token) {
            // It has no part of a character, so what waits is complete, and what follows begins anew.
            let start = self.text.len();
            let parts = [self.tokens.get(self.anchor..self.shown), self.tokens.get(self.anchor..)];
            let [before, now] = self.tokenizer.decode_all(parts.map(Option::unwrap_or_default), true)?;
            self.text.push_str(now.strip_prefix(before.as_str()).unwrap_or_default());
            self.text.push_str(mark);
            (self.tokens, self.anchor, self.shown) = (Vec::new(), 0, 0);
            return Ok(self.text.get(start..).unwrap_or_default());
        }
        self.tokens.push(token);
        let parts = [self.tokens.get(self.anchor..self.shown), self.tokens.get(self.anchor..)];
        let [before, now] = self.tokenizer.decode_all(parts.map(Option::unwrap_or_default), true)?;
        let start = self.text.len();
        if !now.ends_with(char::REPLACEMENT_CHARACTER)
            && let Some(new) = now.strip_prefix(before.as_str())
        {
            self.text.push_str(new);
            (self.anchor, self.shown) = (self.shown, self.tokens.len());
        }
        Ok(self.text.get(start..).unwrap_or_default())
    }

    /// All text that was returned.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::alphabet_json;

    #[test]
    fn incremental_pieces_add_up_to_the_whole_text() {
        let tokenizer = Tokenizer::parse(&alphabet_json(&['a', 'b', '\n'])).unwrap();
        let mut text = IncrementalText::new(tokenizer);
        let pieces: Vec<String> = [0, 2, 1, 1].into_iter().map(|token| text.push(token).unwrap().to_owned()).collect();
        assert_eq!((pieces.concat().as_str(), text.text()), ("a\nbb", "a\nbb"));
    }
}
