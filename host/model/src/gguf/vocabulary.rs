//! The tokenizer in a GGUF file's metadata, as a `tokenizer.json`: byte-level BPE with the splitting of texts that `tokenizer.ggml.pre` names.

use super::splitting::Splitting;
use super::values::Values;
use crate::LocalModelError;
use crate::tokens::{ADDED_TOKENS, VOCABULARY};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};

/// Kinds of tokens in `tokenizer.ggml.token_type`.
pub(super) const CONTROL: i64 = 3;
/// See [`CONTROL`].
pub(super) const USER_DEFINED: i64 = 4;

/// The named tokens and the keys of their numbers.
pub(super) const NAMED: [(&str, &str); 7] = [
    ("bos_token", "tokenizer.ggml.bos_token_id"),
    ("eos_token", "tokenizer.ggml.eos_token_id"),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ("sep_token", "tokenizer.ggml.seperator_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
    ("cls_token", "tokenizer.ggml.cls_token_id"),
    ("mask_token", "tokenizer.ggml.mask_token_id"),
];

/// Tokens that end an answer: of a text, of a turn, and of a message.
pub(super) const ENDS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
/// Control tokens of the families here that end an answer whatever the keys say, as in llama.cpp.
pub(super) const END_WORDS: [&str; 5] = ["<|eot_id|>", "<|im_end|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>"];

/// Keys of the tokenizer that are read, or that change no tokens here. Numbers of tokens with other uses end in `_token_id`.
const READ: [&str; 6] = ["model", "pre", "tokens", "token_type", "merges", "add_bos_token"];
/// Keys that may be false alone.
const FALSE: [&str; 4] = ["add_eos_token", "add_sep_token", "add_space_prefix", "remove_extra_whitespaces"];
/// Most merges. The largest known vocabularies have half a million.
pub(super) const MERGES: usize = 1 << 21;

/// The tokenizer of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Vocabulary {
    pub(super) tokenizer_json: String,
    pub(super) words: BTreeMap<String, String>,
    pub(super) end_tokens: Vec<u32>,
    pub(super) tokens: usize,
}

fn wrong(why: impl Into<String>) -> LocalModelError {
    LocalModelError::Tokenizer(why.into())
}

impl Vocabulary {
    /// Reads the metadata.
    ///
    /// # Errors
    /// The kind of tokenizer or its splitting is unknown, or lists do not fit each other.
    pub(super) fn read(values: &Values<'_>) -> Result<Self, LocalModelError> {
        let shown = |text: &str| clawhost_core::escaped(text, 80);
        for key in values.0.keys().filter_map(|key| key.strip_prefix("tokenizer.ggml.")) {
            let whole = format!("tokenizer.ggml.{key}");
            if FALSE.contains(&key) && values.flag(&whole)? == Some(true) {
                return Err(wrong(format!("{whole} is true, which is not done here")));
            }
            if !READ.contains(&key) && !FALSE.contains(&key) && !key.ends_with("_token_id") {
                return Err(wrong(format!("{} is not understood; it may change tokens", shown(&whole))));
            }
        }
        match values.text("tokenizer.ggml.model")? {
            Some("gpt2") => {}
            Some(other) => {
                return Err(wrong(format!(
                    "tokenizer.ggml.model is `{}`; byte-level BPE (gpt2) is read",
                    shown(other)
                )));
            }
            None => return Err(wrong("tokenizer.ggml.model is missing")),
        }
        let pre = values.text("tokenizer.ggml.pre")?.unwrap_or_default();
        let splitting = Splitting::named(pre).ok_or_else(|| {
            wrong(format!("tokenizer.ggml.pre is `{}`; {} are known", shown(pre), Splitting::names().join(", ")))
        })?;
        let tokens = values.texts("tokenizer.ggml.tokens")?.ok_or_else(|| wrong("tokenizer.ggml.tokens is missing"))?;
        let merges = values.texts("tokenizer.ggml.merges")?.unwrap_or_default();
        let kinds = values.numbers("tokenizer.ggml.token_type")?;
        let kinds = kinds.ok_or_else(|| wrong("tokenizer.ggml.token_type is missing"))?;
        if kinds.len() != tokens.len() {
            return Err(wrong(format!("{} kinds of {} tokens", kinds.len(), tokens.len())));
        }
        for (what, count, most) in [("tokens", tokens.len(), VOCABULARY), ("merges", merges.len(), MERGES)] {
            if count > most {
                return Err(wrong(format!("{count} {what}; at most {most} are read")));
            }
        }
        let named = |key: &str| -> Result<Option<&String>, LocalModelError> {
            match values.whole(key)? {
                None => Ok(None),
                Some(number) => match tokens.get(number as usize) {
                    Some(token) => Ok(Some(token)),
                    None => Err(wrong(format!("{key} is {number}, and there are {} tokens", tokens.len()))),
                },
            }
        };
        let mut words = BTreeMap::new();
        for (name, key) in NAMED {
            if let Some(word) = named(key)? {
                words.insert(name.to_owned(), word.clone());
            }
        }
        let mut end_tokens = Vec::new();
        for key in ENDS {
            if named(key)?.is_some()
                && let Some(number) = values.whole(key)?
                && let Ok(number) = u32::try_from(number)
                && !end_tokens.contains(&number)
            {
                end_tokens.push(number);
            }
        }
        let kind = |place: usize| kinds.get(place).copied().unwrap_or_default();
        for (place, token) in (0..).zip(tokens) {
            let is_end = END_WORDS.contains(&token.as_str()) && kind(place as usize) == CONTROL;
            if is_end && !end_tokens.contains(&place) {
                end_tokens.push(place);
            }
        }
        let begins = values.flag("tokenizer.ggml.add_bos_token")?.unwrap_or(splitting.begins);
        let beginning = words.get("bos_token").filter(|_| begins);
        let added: Vec<(usize, &String)> =
            tokens.iter().enumerate().filter(|(place, _)| matches!(kind(*place), CONTROL | USER_DEFINED)).collect();
        if added.len() > ADDED_TOKENS {
            return Err(wrong(format!("{} added tokens; at most {ADDED_TOKENS} are read", added.len())));
        }
        let added = added.into_iter().map(|(place, token)| added_token(place, token, kind(place) == CONTROL)).collect();
        // Files repeat no token; one that does would get another number for one of its texts.
        let mut seen = HashSet::with_capacity(tokens.len());
        if let Some(token) = tokens.iter().find(|token| !seen.insert(token.as_str())) {
            return Err(wrong(format!("the token `{}` is there twice", shown(token))));
        }
        let merges = merges.iter().map(|merge| pair(merge)).collect::<Result<Vec<_>, _>>()?;
        let document = Document {
            version: "1.0",
            truncation: (),
            padding: (),
            added_tokens: added,
            normalizer: splitting.composes.then(|| json!({ "type": "NFC" })),
            pre_tokenizer: json!({ "type": "Sequence", "pretokenizers": splitting.steps() }),
            post_processor: beginning.map(|word| beginning_first(word, tokens)),
            decoder: json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true }),
            model: Model {
                kind: "BPE",
                dropout: (),
                unk_token: (),
                continuing_subword_prefix: (),
                end_of_word_suffix: (),
                fuse_unk: false,
                byte_fallback: false,
                ignore_merges: splitting.whole_first,
                vocab: Numbered(tokens),
                merges,
            },
        };
        let tokenizer_json = serde_json::to_string(&document).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { tokenizer_json, words, end_tokens, tokens: tokens.len() })
    }
}

/// A `tokenizer.json`, written without a value for each token: a vocabulary has a million.
#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    truncation: (),
    padding: (),
    added_tokens: Vec<Value>,
    normalizer: Option<Value>,
    pre_tokenizer: Value,
    post_processor: Option<Value>,
    decoder: Value,
    model: Model<'a>,
}

#[derive(Serialize)]
struct Model<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    dropout: (),
    unk_token: (),
    continuing_subword_prefix: (),
    end_of_word_suffix: (),
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: Numbered<'a>,
    merges: Vec<[&'a str; 2]>,
}

/// Tokens with their numbers.
struct Numbered<'a>(&'a [String]);

impl Serialize for Numbered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(0u32..))
    }
}

fn added_token(place: usize, token: &str, special: bool) -> Value {
    json!({
        "id": place, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special,
    })
}

/// Two tokens that become one, as `left right`.
fn pair(merge: &str) -> Result<[&str; 2], LocalModelError> {
    match merge.split_once(' ') {
        Some((left, right)) if !right.contains(' ') => Ok([left, right]),
        _ => Err(wrong(format!("the merge `{}` is no pair", clawhost_core::escaped(merge, 80)))),
    }
}

fn beginning_first(word: &str, tokens: &[String]) -> Value {
    let number = tokens.iter().position(|token| token == word);
    let special = json!({ "SpecialToken": { "id": word, "type_id": 0 } });
    let text = |id: &str, kind: u8| json!({ "Sequence": { "id": id, "type_id": kind } });
    json!({
        "type": "TemplateProcessing", "single": [special, text("A", 0)], "pair": [special, text("A", 0), text("B", 1)],
        "special_tokens": { word: { "id": word, "ids": [number], "tokens": [word] } },
    })
}
