//! Tokenizers of single characters and of whole words, for tiny models.

use serde_json::{Map, Value, json};

/// Any character, including line ends, in the syntax of both regex libraries: Oniguruma, in the Python wheels of
/// `tokenizers`, does not support `(?s)`.
const ANY: &str = r"[\s\S]";

/// Most bytes of such a `tokenizer.json`. Larger ones are not tried: this process would read what may be hostile.
pub(super) const ALPHABET_BYTES: usize = 1 << 20;

/// The `tokenizer.json` of a vocabulary in which every character is a token, numbered in order. Hugging Face's library
/// reads it.
pub fn alphabet_json(characters: &[char]) -> String {
    let vocabulary: Map<String, Value> =
        (0..).zip(characters).map(|(id, character): (u32, _)| (character.to_string(), json!(id))).collect();
    let document = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "Split", "pattern": { "Regex": ANY }, "behavior": "Isolated", "invert": false },
        "post_processor": null,
        "decoder": { "type": "Fuse" },
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "" },
    });
    format!("{document:#}\n")
}

/// The `tokenizer.json` of a vocabulary of words: the first one stands for unknown words, and the last one is special. Texts are split
/// into words and marks, and answers are joined by spaces. Hugging Face's library reads it.
pub fn words_json(words: &[String]) -> String {
    let vocabulary: Map<String, Value> =
        (0..).zip(words).map(|(id, word): (u32, _)| (word.clone(), json!(id))).collect();
    let special: Vec<Value> = (0u32..)
        .zip(words)
        .skip(words.len().saturating_sub(1))
        .map(|(id, content)| {
            json!({
                "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        })
        .collect();
    let document = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": special, "normalizer": null,
        "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": words.first() },
    });
    format!("{document:#}\n")
}

/// The characters of a vocabulary of characters in order of their numbers, or `None` if it is another kind.
pub(super) fn characters(document: &Value) -> Option<Vec<char>> {
    let model = document.get("model")?;
    let splits = document.get("pre_tokenizer")?.get("pattern")?.get("Regex")? == ANY;
    let plain = document.get("added_tokens")?.as_array()?.is_empty() && document.get("normalizer")?.is_null();
    if model.get("type")? != "WordLevel" || !splits || !plain {
        return None;
    }
    let mut numbered = Vec::new();
    for (text, id) in model.get("vocab")?.as_object()? {
        let mut characters = text.chars();
        let character = characters.next().filter(|_| characters.next().is_none())?;
        numbered.push((id.as_u64()?, character));
    }
    numbered.sort_unstable();
    let dense = (0..).zip(&numbered).all(|(place, (id, _))| place == *id);
    dense.then(|| numbered.into_iter().map(|(_, character)| character).collect())
}
