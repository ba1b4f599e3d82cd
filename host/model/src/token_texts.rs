//! The texts of single tokens, each as it reads behind those before it.
//!
//! A token is decoded with a few tokens before it: a decoder may drop a space at the beginning of a text, and a character may span
//! several tokens.

use crate::LocalModelError;
use crate::tokens::Tokenizer;

/// Tokens before a token that are decoded with it. A character spans four tokens at most, so among them is the end of a whole one.
const BEFORE: usize = 8;
/// Lists of tokens that are decoded in one request. It bounds the memory and the time of one request.
const LISTS: usize = 2048;

/// A token at its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenText {
    /// The text that it adds, or its own if it adds none.
    pub(crate) text: String,
    /// Where it begins, in characters.
    pub(crate) offset: usize,
    /// The texts of other tokens at this position.
    pub(crate) others: Vec<String>,
}

/// Gives the texts of the tokens of one sequence in order.
#[derive(Debug)]
pub(crate) struct TokenTexts {
    tokenizer: Tokenizer,
    /// The last tokens.
    before: Vec<u32>,
    /// Characters so far.
    offset: usize,
}

/// Text up to a character that is not complete.
fn complete(text: &str) -> &str {
    text.trim_end_matches(char::REPLACEMENT_CHARACTER)
}

impl TokenTexts {
    /// For a new sequence.
    pub(crate) fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, before: Vec::new(), offset: 0 }
    }

    /// The texts of the next tokens, each with other tokens at its position.
    ///
    /// # Errors
    /// The tokenizer fails.
    pub(crate) fn next(&mut self, tokens: &[(u32, Vec<u32>)]) -> Result<Vec<TokenText>, LocalModelError> {
        let mut texts = Vec::with_capacity(tokens.len());
        let mut rest = tokens;
        while !rest.is_empty() {
            let mut lists = 0;
            let fits = |(_, others): &&(u32, Vec<u32>)| {
                lists += others.len() + 2;
                lists <= LISTS
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            self.some(now, &mut texts)?;
            rest = later;
        }
        Ok(texts)
    }

    fn some(&mut self, tokens: &[(u32, Vec<u32>)], texts: &mut Vec<TokenText>) -> Result<(), LocalModelError> {
        let (mut behind, mut alone) = (Vec::new(), Vec::new());
        for (token, others) in tokens {
            behind.push(self.before.clone());
            for one in [*token].iter().chain(others) {
                behind.push([self.before.as_slice(), &[*one]].concat());
                alone.push(vec![*one]);
            }
            self.before.push(*token);
            self.before.drain(..self.before.len().saturating_sub(BEFORE));
        }
        let mut behind = self.tokenizer.decode_lists(behind, true)?.into_iter();
        // Control tokens have a text only here.
        let mut alone = self.tokenizer.decode_lists(alone, false)?.into_iter();
        for (_, others) in tokens {
            let before = behind.next().unwrap_or_default();
            let mut added = || {
                let (now, alone) = (behind.next().unwrap_or_default(), alone.next().unwrap_or_default());
                let piece = complete(&now).strip_prefix(complete(&before)).unwrap_or_default();
                if piece.is_empty() { (alone, 0) } else { (piece.to_owned(), piece.chars().count()) }
            };
            let (text, characters) = added();
            let others = others.iter().map(|_| added().0).collect();
            texts.push(TokenText { text, offset: self.offset, others });
            self.offset += characters;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qwen() -> Tokenizer {
        Tokenizer::parse(include_str!("../../../tests/transformers/reference/qwen2/tokenizer.json")).unwrap()
    }

    /// The texts that tokens add.
    fn texts(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<(String, usize)> {
        let asked: Vec<_> = tokens.iter().map(|token| (*token, vec![])).collect();
        let found = TokenTexts::new(tokenizer.clone()).next(&asked).unwrap();
        found.into_iter().map(|one| (one.text, one.offset)).collect()
    }

    #[test]
    fn texts_of_tokens_add_up_to_the_text() {
        let tokenizer = qwen();
        let check = |text: &str| {
            let tokens = tokenizer.encode(text).unwrap();
            let found = texts(&tokenizer, &tokens);
            let joined: String = found.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(joined, text);
            let mut from = 0;
            for (text, offset) in found {
                assert_eq!(offset, from);
                from += text.chars().count();
            }
        };
        check("a text of more than four tokens");
        check(" spaces  stay \n here");
    }

    #[test]
    fn a_character_of_several_tokens_belongs_to_its_last_one() {
        let tokenizer = qwen();
        let tokens = tokenizer.encode("a😀b").unwrap();
        assert!(tokens.len() > 3, "{tokens:?}");
        let found = texts(&tokenizer, &tokens);
        let offsets: Vec<usize> = found.iter().map(|(_, offset)| *offset).collect();
        assert_eq!((offsets[0], offsets[1], offsets.last()), (0, 1, Some(&2)), "{found:?}");
        let character = &found[tokens.len() - 2].0;
        assert_eq!(character, "😀");
    }

    #[test]
    fn control_tokens_and_alternatives_have_their_texts() {
        let tokenizer = qwen();
        let end = tokenizer.token("<|im_end|>").unwrap().unwrap();
        let [hi, other] = ["Hi", " a"].map(|text| tokenizer.encode(text).unwrap()[0]);
        let found = TokenTexts::new(tokenizer.clone()).next(&[(hi, vec![]), (end, vec![other, end])]).unwrap();
        assert_eq!(found[1].text, "<|im_end|>");
        assert_eq!(found[1].others, [tokenizer.decode(&[other], false).unwrap(), "<|im_end|>".to_owned()]);
    }

    #[test]
    fn long_sequences_are_decoded_in_parts() {
        let tokenizer = qwen();
        let one = tokenizer.encode("a").unwrap()[0];
        let found = texts(&tokenizer, &vec![one; LISTS]);
        assert_eq!((found.len(), found.last().unwrap().1), (LISTS, LISTS - 1));
    }
}
