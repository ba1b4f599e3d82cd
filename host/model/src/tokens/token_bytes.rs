//! The bytes that each token of a vocabulary stands for. A grammar is matched with bytes: a token may hold a part of a character.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// A token of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenBytes {
    /// It stands for text: these bytes. Written as characters, one for each byte.
    Text(#[serde(with = "as_characters")] Vec<u8>),
    /// A control token, with its name.
    Control(String),
    /// No token has this number.
    None,
}

/// Bytes as a text whose characters have the numbers of the bytes: a third of a list of numbers.
mod as_characters {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&bytes.iter().map(|byte| char::from(*byte)).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        text.chars().map(|character| u8::try_from(character).map_err(D::Error::custom)).collect()
    }
}

/// How the texts of a vocabulary write bytes.
#[derive(Clone, Copy)]
enum Writing {
    /// Each byte is a character, as in GPT-2.
    ByteLevel,
    /// `▁` is a space, and `<0x0A>` a byte, as in SentencePiece.
    Pieces,
    /// As they are.
    Plain,
}

/// What the decoder of a `tokenizer.json` says. `None`: the text of a token depends on those before it.
fn writing(decoder: &Value) -> Option<Writing> {
    let kind = decoder.get("type")?.as_str()?;
    match kind {
        "ByteLevel" => Some(Writing::ByteLevel),
        "Fuse" => Some(Writing::Plain),
        "ByteFallback" | "Metaspace" => Some(Writing::Pieces),
        "Sequence" => {
            let steps = decoder.get("decoders")?.as_array()?;
            let of_steps = |wanted: fn(&Writing) -> bool| steps.iter().filter_map(writing).find(wanted);
            of_steps(|writing| !matches!(writing, Writing::Plain)).or_else(|| of_steps(|_| true))
        }
        _ => None,
    }
}

/// The bytes that GPT-2's byte-level tokens write as characters: printable ones as themselves, and the others from 256 on, in order
/// (`bytes_to_unicode` of its repository).
fn byte_level() -> HashMap<char, u8> {
    let is_plain = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let others = (0u8..=255).filter(|byte| !is_plain(byte));
    let moved = (256u32..).zip(others).filter_map(|(number, byte)| Some((char::from_u32(number)?, byte)));
    (0u8..=255).filter(is_plain).map(|byte| (char::from(byte), byte)).chain(moved).collect()
}

/// The byte of a token such as `<0x0A>`.
fn fallback(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>').filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

/// The tokens of a vocabulary in order of their numbers. `added`: added tokens by number, with whether they are control tokens.
///
/// # Errors
/// The text of a token depends on those before it, so tokens have no bytes of their own.
pub(super) fn token_bytes(
    decoder: &Value,
    vocabulary: impl IntoIterator<Item = (String, u32)>,
    added: &BTreeMap<u32, (String, bool)>,
) -> Result<Vec<TokenBytes>, String> {
    let writing = writing(decoder).ok_or("its tokens have no bytes of their own, which a grammar needs")?;
    let table = byte_level();
    let mut all: Vec<TokenBytes> = Vec::new();
    let mut set = |number: u32, token: TokenBytes| {
        let place = number as usize;
        if all.len() <= place && place < super::limits::VOCABULARY {
            all.resize(place + 1, TokenBytes::None);
        }
        all.get_mut(place).into_iter().for_each(|slot| *slot = token.clone());
    };
    for (token, number) in vocabulary {
        let bytes = match writing {
            Writing::ByteLevel => token.chars().map(|character| table.get(&character).copied()).collect(),
            Writing::Pieces => match fallback(&token) {
                Some(byte) => Some(vec![byte]),
                None => Some(token.replace('▁', " ").into_bytes()),
            },
            Writing::Plain => Some(token.clone().into_bytes()),
        };
        set(number, bytes.map_or(TokenBytes::None, TokenBytes::Text));
    }
    for (number, (token, is_control)) in added {
        let token = token.clone();
        set(*number, if *is_control { TokenBytes::Control(token) } else { TokenBytes::Text(token.into_bytes()) });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(decoder: Value, tokens: &[&str], expect: &[TokenBytes]) {
        let vocabulary = (0..).zip(tokens).map(|(number, token)| ((*token).to_owned(), number));
        let added = BTreeMap::from([
            (tokens.len() as u32, ("<think>".to_owned(), false)),
            (tokens.len() as u32 + 2, ("<|end|>".to_owned(), true)),
        ]);
        let found = token_bytes(&decoder, vocabulary, &added).unwrap();
        let more = [TokenBytes::Text(b"<think>".to_vec()), TokenBytes::None, TokenBytes::Control("<|end|>".to_owned())];
        assert_eq!(found, [expect, &more].concat(), "{decoder}");
        let written = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Vec<TokenBytes>>(&written).unwrap(), found);
    }

    #[test]
    fn tokens_have_the_bytes_that_their_decoder_gives() {
        let text = |bytes: &[u8]| TokenBytes::Text(bytes.to_vec());
        let byte_level = json!({ "type": "ByteLevel", "add_prefix_space": true });
        check(
            byte_level,
            &["a", "Ġ\"", "Ċ", "Ã", "©", "字"],
            &[text(b"a"), text(b" \""), text(b"\n"), text(&[0xc3]), text(&[0xa9]), TokenBytes::None],
        );
        let replace = json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " });
        let pieces =
            json!({ "type": "Sequence", "decoders": [replace, { "type": "ByteFallback" }, { "type": "Fuse" }] });
        check(pieces, &["▁a", "<0x0A>", "<0x>"], &[text(b" a"), text(b"\n"), text(b"<0x>")]);
        check(json!({ "type": "Fuse" }), &["é"], &[text("é".as_bytes())]);
    }

    #[test]
    fn tokens_without_bytes_of_their_own_are_refused() {
        for decoder in [Value::Null, json!({ "type": "WordPiece" }), json!({ "type": "Sequence", "decoders": [] })] {
            assert!(token_bytes(&decoder, [], &BTreeMap::new()).is_err(), "{decoder}");
        }
    }
}
