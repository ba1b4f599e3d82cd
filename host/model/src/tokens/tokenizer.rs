//! Text to tokens and back.

use super::alphabet::characters;
use crate::LocalModelError;
use clawhost_core::escaped;
use std::collections::HashMap;
use std::sync::Arc;

/// The tokenizer of a `tokenizer.json`.
#[derive(Debug, Clone)]
pub struct Tokenizer(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// Every character is a token: a look-up. The library would apply a regular expression to each.
    Alphabet { characters: Vec<char>, ids: HashMap<char, u32> },
    /// Shared: vocabularies are large.
    Library(Arc<tokenizers::Tokenizer>),
}

/// Characters of a text in an error message.
const SHOWN: usize = 40;

impl Tokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// The file is invalid.
    pub fn parse(text: &str) -> Result<Self, LocalModelError> {
        let wrong = |why: String| LocalModelError::Tokenizer(why);
        let document: serde_json::Value =
            serde_json::from_str(text).map_err(|error| wrong(format!("no JSON: {error}")))?;
        if let Some(characters) = characters(&document) {
            let ids = (0..).zip(&characters).map(|(id, character)| (*character, id)).collect();
            return Ok(Self(Kind::Alphabet { characters, ids }));
        }
        let mut library =
            tokenizers::Tokenizer::from_bytes(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        // Settings of a training run: they would truncate or pad prompts silently.
        library.with_truncation(None).map_err(|error| wrong(error.to_string()))?;
        library.with_padding(None);
        Ok(Self(Kind::Library(Arc::new(library))))
    }

    /// Tokens of a text, without added tokens. Special tokens in the text are recognised: pass only text that a
    /// template rendered.
    ///
    /// # Errors
    /// The vocabulary does not cover the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, LocalModelError> {
        match &self.0 {
            Kind::Alphabet { ids, .. } => text
                .chars()
                .map(|character| {
                    let lacks = || LocalModelError::Alphabet { character, text: escaped(text, SHOWN) };
                    ids.get(&character).copied().ok_or_else(lacks)
                })
                .collect(),
            Kind::Library(library) => by_library(library, text, false),
        }
    }

    /// The same for a text that no template rendered, with the tokens that the tokenizer adds: usually one at the
    /// beginning.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_whole(&self, text: &str) -> Result<Vec<u32>, LocalModelError> {
        match &self.0 {
            Kind::Alphabet { .. } => self.encode(text),
            Kind::Library(library) => by_library(library, text, true),
        }
    }

    /// The text of tokens, optionally without special ones. Invalid UTF-8 becomes `U+FFFD`.
    ///
    /// # Errors
    /// The library fails.
    pub fn decode(&self, tokens: &[u32], without_special: bool) -> Result<String, LocalModelError> {
        match &self.0 {
            Kind::Alphabet { characters, .. } => {
                let known = |token: &u32| characters.get(*token as usize).copied();
                Ok(tokens.iter().map(|token| known(token).unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
            }
            Kind::Library(library) => library
                .decode(tokens, without_special)
                .map_err(|error| LocalModelError::Tokenizer(format!("tokens have no text: {error}"))),
        }
    }

    /// The token with exactly this text.
    pub fn token(&self, text: &str) -> Option<u32> {
        match &self.0 {
            Kind::Alphabet { ids, .. } => {
                let mut characters = text.chars();
                let only = characters.next().filter(|_| characters.next().is_none())?;
                ids.get(&only).copied()
            }
            Kind::Library(library) => library.token_to_id(text),
        }
    }

    /// The texts of control tokens. An alphabet has none: each of its characters is a token, including the end.
    pub fn control_words(&self) -> Vec<String> {
        match &self.0 {
            Kind::Alphabet { .. } => Vec::new(),
            Kind::Library(library) => {
                let added = library.get_added_tokens_decoder();
                let control = added.into_values().filter(|token| token.special && !token.content.is_empty());
                let mut words: Vec<String> = control.map(|token| token.content).collect();
                words.sort_unstable();
                words
            }
        }
    }

    /// The number of tokens.
    pub fn size(&self) -> usize {
        match &self.0 {
            Kind::Alphabet { characters, .. } => characters.len(),
            Kind::Library(library) => library.get_vocab_size(true),
        }
    }
}

fn by_library(library: &tokenizers::Tokenizer, text: &str, whole: bool) -> Result<Vec<u32>, LocalModelError> {
    let encoded = library
        .encode_fast(text, whole)
        .map_err(|error| LocalModelError::Tokenizer(format!("`{}`: {error}", escaped(text, SHOWN))))?;
    Ok(encoded.get_ids().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::alphabet_json;

    #[test]
    fn an_alphabet_is_read_back_as_the_library_reads_it() {
        let text = alphabet_json(&['a', 'b', '+', '\n', 'é', '"']);
        let ours = Tokenizer::parse(&text).unwrap();
        assert!(matches!(ours.0, Kind::Alphabet { .. }));
        let library = Tokenizer(Kind::Library(Arc::new(tokenizers::Tokenizer::from_bytes(text.as_bytes()).unwrap())));
        for text in ["", "ab+", "é\n\"a", "aaaa"] {
            let tokens = ours.encode(text).unwrap();
            assert_eq!(tokens, library.encode(text).unwrap(), "{text}");
            assert_eq!(ours.decode(&tokens, false).unwrap(), text);
            assert_eq!(library.decode(&tokens, false).unwrap(), text);
        }
        assert_eq!((ours.token("+"), ours.token("ab"), ours.token("z"), ours.size()), (Some(2), None, None, 6));
        assert_eq!(library.size(), 6);
        let error = ours.encode("abz").unwrap_err().to_string();
        assert!(error.contains("has no 'z'") && error.contains("`abz`"), "{error}");
        assert!(library.encode("abz").is_err(), "nothing is guessed");
    }

    #[test]
    fn a_character_outside_the_alphabet_is_named() {
        let tokenizer = Tokenizer::parse(&alphabet_json(&['a', 'b'])).unwrap();
        let error = tokenizer.encode("ab\u{1b}z").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("tokenizer.json: the alphabet has no '\\u{1b}', which occurs in `ab"), "{text}");
        assert!(!text.contains('\u{1b}'), "nothing reaches a terminal unescaped: {text:?}");
        assert_eq!(error.code(), "alphabet");
        assert!(matches!(&error.hints()[..], [clawhost_core::Hint::Command { words, .. }] if words == "model init"));
    }

    #[test]
    fn truncation_and_padding_of_a_training_run_are_ignored() {
        let plain = include_str!("../../../../tests/transformers/reference/qwen2/tokenizer.json");
        let mut document: serde_json::Value = serde_json::from_str(plain).unwrap();
        document["truncation"] =
            serde_json::json!({ "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0 });
        document["padding"] = serde_json::json!({
            "strategy": { "Fixed": 64 }, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "!",
        });
        let [plain, trained] = [plain, &document.to_string()].map(|text| Tokenizer::parse(text).unwrap());
        for text in ["Hi", "a text of more than four tokens"] {
            assert_eq!(trained.encode(text).unwrap(), plain.encode(text).unwrap(), "{text}");
        }
        assert!(plain.control_words().contains(&"<|im_end|>".to_owned()), "{:?}", plain.control_words());
    }

    #[test]
    fn an_invalid_tokenizer_is_refused() {
        for text in ["", "{}", "[]", r#"{"model": {"type": "Magic"}}"#] {
            assert!(matches!(Tokenizer::parse(text), Err(LocalModelError::Tokenizer(_))), "{text}");
        }
    }
}
