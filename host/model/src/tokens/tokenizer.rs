//! Text to tokens and back.

use super::TokenBytes;
use super::order::{Ask, Told};
use super::process::refused;
use super::texts::Interpreter;
use crate::LocalModelError;
use clawhost_core::escaped;
use std::borrow::Cow;
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
    Library(Arc<Interpreter>),
}

/// Characters of a text in an error message.
const SHOWN: usize = 40;

impl Tokenizer {
    /// A tokenizer whose tokens are these characters, numbered in order.
    pub(super) fn of_alphabet(characters: &[char]) -> Self {
        let ids = (0..).zip(characters).map(|(id, character)| (*character, id)).collect();
        Self(Kind::Alphabet { characters: characters.to_vec(), ids })
    }

    /// The tokenizer of these texts.
    pub(super) fn of(interpreter: Arc<Interpreter>) -> Self {
        Self(Kind::Library(interpreter))
    }

    /// Tokens of a text, without added tokens. Special tokens in the text are recognised: pass only text that a
    /// template rendered.
    ///
    /// # Errors
    /// The vocabulary does not cover the text, or the tokenizer reaches a limit.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, LocalModelError> {
        match &self.0 {
            Kind::Alphabet { ids, .. } => text
                .chars()
                .map(|character| {
                    let lacks = || LocalModelError::Alphabet { character, text: escaped(text, SHOWN) };
                    ids.get(&character).copied().ok_or_else(lacks)
                })
                .collect(),
            Kind::Library(library) => encoded(library, text, false),
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
            Kind::Library(library) => encoded(library, text, true),
        }
    }

    /// The text of tokens, optionally without special ones. Invalid UTF-8 becomes `U+FFFD`.
    ///
    /// # Errors
    /// The library fails, or the tokenizer reaches a limit.
    pub fn decode(&self, tokens: &[u32], without_special: bool) -> Result<String, LocalModelError> {
        let [text] = self.decode_all([tokens], without_special)?;
        Ok(text)
    }

    /// The texts of several lists of tokens, in one request.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn decode_all<const N: usize>(
        &self,
        lists: [&[u32]; N],
        without_special: bool,
    ) -> Result<[String; N], LocalModelError> {
        let texts = self.decode_lists(lists.into_iter().map(<[u32]>::to_vec).collect(), without_special)?;
        texts.try_into().map_err(|_| refused(Told::Texts(Vec::new())))
    }

    /// The texts of any number of lists of tokens, in one request.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn decode_lists(&self, lists: Vec<Vec<u32>>, without_special: bool) -> Result<Vec<String>, LocalModelError> {
        match &self.0 {
            Kind::Alphabet { characters, .. } => {
                let known = |token: &u32| characters.get(*token as usize).copied();
                let text = |tokens: &Vec<u32>| {
                    tokens.iter().map(|token| known(token).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
                };
                Ok(lists.iter().map(text).collect())
            }
            Kind::Library(library) => {
                let count = lists.len();
                match library.ask(&Ask::Decode { lists, without_special })? {
                    Told::Texts(texts) if texts.len() == count => Ok(texts),
                    other => Err(refused(other)),
                }
            }
        }
    }

    /// The token with exactly this text.
    ///
    /// # Errors
    /// The tokenizer reaches a limit.
    pub fn token(&self, text: &str) -> Result<Option<u32>, LocalModelError> {
        match &self.0 {
            Kind::Alphabet { ids, .. } => {
                let mut characters = text.chars();
                let only = characters.next().filter(|_| characters.next().is_none());
                Ok(only.and_then(|only| ids.get(&only).copied()))
            }
            Kind::Library(library) => match library.ask(&Ask::Token(Cow::Borrowed(text)))? {
                Told::Token(token) => Ok(token),
                other => Err(refused(other)),
            },
        }
    }

    /// What each token stands for, in order of their numbers.
    ///
    /// # Errors
    /// Tokens have no bytes of their own, or the tokenizer reaches a limit.
    pub fn vocabulary(&self) -> Result<Vec<TokenBytes>, LocalModelError> {
        match &self.0 {
            Kind::Alphabet { characters, .. } => {
                Ok(characters.iter().map(|one| TokenBytes::Text(one.to_string().into_bytes())).collect())
            }
            Kind::Library(library) => match library.ask(&Ask::Vocabulary)? {
                Told::Vocabulary(tokens) => Ok(tokens),
                other => Err(refused(other)),
            },
        }
    }

    /// The texts of control tokens. An alphabet has none: each of its characters is a token, including the end.
    pub fn control_words(&self) -> &[String] {
        match &self.0 {
            Kind::Alphabet { .. } => &[],
            Kind::Library(library) => &library.facts().control_words,
        }
    }

    /// The number of tokens.
    pub fn size(&self) -> usize {
        match &self.0 {
            Kind::Alphabet { characters, .. } => characters.len(),
            Kind::Library(library) => library.facts().size,
        }
    }
}

fn encoded(library: &Interpreter, text: &str, whole: bool) -> Result<Vec<u32>, LocalModelError> {
    match library.ask(&Ask::Encode { text: Cow::Borrowed(text), whole })? {
        Told::Tokens(tokens) => Ok(tokens),
        other => Err(refused(other)),
    }
}

/// Tokenizers of documents in this process, for tests of this crate.
#[cfg(test)]
impl Tokenizer {
    pub(crate) fn parse(tokenizer_json: &str) -> Result<Self, LocalModelError> {
        let files = super::TextFiles {
            tokenizer_json,
            template: None,
            tool_template: None,
            words: &std::collections::BTreeMap::new(),
        };
        Ok(super::Texts::open(&files, &[], &super::TextHost::InProcess)?.tokenizer)
    }

    /// Read by the library, whatever it is.
    fn by_library(tokenizer_json: &str) -> Self {
        let tokenizer = Some(tokenizer_json.to_owned());
        let sources = super::order::Sources {
            tokenizer,
            template: None,
            tool_template: None,
            words: std::collections::BTreeMap::new(),
        };
        Self(Kind::Library(Arc::new(Interpreter::Here(Box::new(super::library::Library::load(&sources).unwrap())))))
    }
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
        let library = Tokenizer::by_library(&text);
        for text in ["", "ab+", "é\n\"a", "aaaa"] {
            let tokens = ours.encode(text).unwrap();
            assert_eq!(tokens, library.encode(text).unwrap(), "{text}");
            assert_eq!(ours.decode(&tokens, false).unwrap(), text);
            assert_eq!(library.decode(&tokens, false).unwrap(), text);
        }
        assert_eq!(["+", "ab", "z"].map(|text| ours.token(text).unwrap()), [Some(2), None, None]);
        assert_eq!((library.size(), ours.size()), (6, 6));
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
