//! A `tokenizer.json` as values of a GGUF file: byte-level BPE whose splitting of texts has a name there.

use super::file::Values;
use super::unheld;
use crate::gguf::splitting::{DIGITS, GPT_2, Splitting};
use crate::gguf::vocabulary::{CONTROL, END_WORDS, ENDS, MERGES, NAMED, USER_DEFINED};
use crate::tokens::{ADDED_TOKENS, VOCABULARY};
use crate::{LocalModelError, ModelFolder};
use clawhost_core::escaped;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::HashMap;

/// The kind of a usual token in `tokenizer.ggml.token_type`.
const NORMAL: i64 = 1;
/// The kind of a number that no token has. See [`NORMAL`].
const UNUSED: i64 = 5;
/// Characters of a token in an error.
const SHOWN: usize = 80;

/// The parts of a `tokenizer.json` that decide tokens.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    model: Bpe,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Bpe {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    dropout: Value,
    #[serde(default)]
    unk_token: Value,
    #[serde(default)]
    continuing_subword_prefix: Value,
    #[serde(default)]
    end_of_word_suffix: Value,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    #[serde(default, deserialize_with = "numbered")]
    vocab: Vec<(String, u32)>,
    #[serde(default, deserialize_with = "merges")]
    merges: Vec<String>,
}

/// The tokens with their numbers, up to a limit.
fn numbered<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, u32)>, D::Error> {
    struct Numbered;
    impl<'de> Visitor<'de> for Numbered {
        type Value = Vec<(String, u32)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("tokens with their numbers")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(entry) = entries.next_entry()? {
                if all.len() == VOCABULARY {
                    return Err(A::Error::custom(format!("more than {VOCABULARY} tokens")));
                }
                all.push(entry);
            }
            Ok(all)
        }
    }
    from.deserialize_map(Numbered)
}

/// A merge in either form.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Text(String),
    Pair([String; 2]),
}

/// The merges as `left right`, up to a limit.
fn merges<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Merges;
    impl<'de> Visitor<'de> for Merges {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of merges")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(entry) = entries.next_element()? {
                let merge = match entry {
                    Merge::Text(text) => text,
                    Merge::Pair(pair) => pair.join(" "),
                };
                if all.len() == MERGES {
                    return Err(A::Error::custom(format!("more than {MERGES} merges")));
                }
                if merge.matches(' ').count() != 1 {
                    return Err(A::Error::custom(format!("the merge `{}` is no pair", escaped(&merge, SHOWN))));
                }
                all.push(merge);
            }
            Ok(all)
        }
    }
    from.deserialize_seq(Merges)
}

fn kind(step: &Value) -> &str {
    step.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The patterns by which texts are split one after the other. `None`: texts are split in another way.
fn patterns(pre_tokenizer: &Value) -> Option<Vec<String>> {
    let steps = match kind(pre_tokenizer) {
        "Sequence" => pre_tokenizer.get("pretokenizers")?.as_array()?.as_slice(),
        _ => std::slice::from_ref(pre_tokenizer),
    };
    let (last, before) = steps.split_last()?;
    let is = |step: &Value, name: &str, usual: bool| step.get(name).map_or(Some(usual), Value::as_bool);
    let mut patterns = Vec::new();
    for step in before {
        match kind(step) {
            "Split" if step.get("behavior")? == "Isolated" && !is(step, "invert", false)? => {
                patterns.push(step.get("pattern")?.get("Regex")?.as_str()?.to_owned());
            }
            "Digits" if is(step, "individual_digits", false)? => patterns.push(DIGITS.to_owned()),
            _ => return None,
        }
    }
    if kind(last) != "ByteLevel" || is(last, "add_prefix_space", true)? {
        return None;
    }
    patterns.extend(is(last, "use_regex", true)?.then(|| GPT_2.to_owned()));
    Some(patterns)
}

/// The number of the token that is put first. `Err`: something else is added to a text.
fn beginning(processor: &Value) -> Result<Option<u64>, ()> {
    match kind(processor) {
        "" | "ByteLevel" => Ok(None),
        "Sequence" => {
            let mut found = None;
            for one in processor.get("processors").and_then(Value::as_array).ok_or(())? {
                let own = beginning(one)?;
                if own.is_some() && found.is_some() {
                    return Err(());
                }
                found = found.or(own);
            }
            Ok(found)
        }
        "TemplateProcessing" => {
            let text = |part: &Value| part.get("Sequence").is_some();
            let parts = processor.get("single").and_then(Value::as_array).ok_or(())?;
            let special = match parts.as_slice() {
                [only] if text(only) => return Ok(None),
                [first, second] if text(second) => first.get("SpecialToken").and_then(|one| one.get("id")).ok_or(())?,
                _ => return Err(()),
            };
            let named = processor.get("special_tokens").and_then(|all| all.get(special.as_str()?)).ok_or(())?;
            match named.get("ids").and_then(Value::as_array).map(Vec::as_slice) {
                Some([only]) => only.as_u64().ok_or(()).map(Some),
                _ => Err(()),
            }
        }
        _ => Err(()),
    }
}

/// A vocabulary as the format has it: every number up to the last embedding.
struct Tokens {
    texts: Vec<String>,
    kinds: Vec<i32>,
    numbers: HashMap<String, u32>,
}

impl Tokens {
    fn of(document: &Document, embeddings: usize) -> Result<Self, LocalModelError> {
        let mut texts: Vec<Option<(&str, i64)>> = vec![None; embeddings];
        let place = |number: u32, text: &str| {
            let why = format!("the token `{}` has the number {number}", escaped(text, SHOWN));
            unheld(format!("{why}, and the model has embeddings for {embeddings} tokens"))
        };
        for (text, number) in &document.model.vocab {
            *texts.get_mut(*number as usize).ok_or_else(|| place(*number, text))? = Some((text, NORMAL));
        }
        for added in &document.added_tokens {
            let kind = if added.special { CONTROL } else { USER_DEFINED };
            *texts.get_mut(added.id as usize).ok_or_else(|| place(added.id, &added.content))? =
                Some((&added.content, kind));
        }
        let mut tokens = Self {
            texts: Vec::with_capacity(embeddings),
            kinds: Vec::with_capacity(embeddings),
            numbers: HashMap::with_capacity(embeddings),
        };
        for (number, found) in (0..).zip(texts) {
            // As llama.cpp's converter calls an embedding that no token has.
            let padding = || (format!("[PAD{number}]"), UNUSED);
            let (text, kind) = found.map_or_else(padding, |(text, kind)| (text.to_owned(), kind));
            if tokens.numbers.insert(text.clone(), number).is_some() {
                return Err(unheld(format!("the token `{}` is there twice", escaped(&text, SHOWN))));
            }
            tokens.texts.push(text);
            tokens.kinds.push(kind as i32);
        }
        Ok(tokens)
    }
}

/// Writes tokenizer, special tokens, tokens that end an answer, and templates.
///
/// # Errors
/// The format cannot hold one of them.
pub(super) fn write(model: &ModelFolder, values: &mut Values) -> Result<(), LocalModelError> {
    let document: Document = serde_json::from_str(&model.tokenizer_json)
        .map_err(|error| LocalModelError::Tokenizer(format!("it is not read: {error}")))?;
    let splitting = splitting(&document)?;
    if document.added_tokens.len() > ADDED_TOKENS {
        let count = document.added_tokens.len();
        return Err(unheld(format!("{count} added tokens; at most {ADDED_TOKENS} are written")));
    }
    let strips = |one: &&Added| one.single_word || one.lstrip || one.rstrip || (one.normalized && splitting.composes);
    if let Some(added) = document.added_tokens.iter().find(strips) {
        let why = format!("the token `{}` takes spaces beside it", escaped(&added.content, SHOWN));
        return Err(unheld(format!("{why}, stands alone, or is found after letters are composed")));
    }
    let tokens = Tokens::of(&document, model.config.vocabulary)?;
    values.text("tokenizer.ggml.model", "gpt2");
    values.text("tokenizer.ggml.pre", splitting.names.first().copied().unwrap_or_default());
    values.texts("tokenizer.ggml.tokens", &tokens.texts);
    values.numbers("tokenizer.ggml.token_type", &tokens.kinds);
    values.texts("tokenizer.ggml.merges", &document.model.merges);
    named(model, &document, &tokens, values)?;
    if let Some(template) = &model.template {
        values.text("tokenizer.chat_template", template);
    }
    if let Some(template) = &model.tool_template {
        values.texts("tokenizer.chat_templates", &["tool_use"]);
        values.text("tokenizer.chat_template.tool_use", template);
    }
    Ok(())
}

/// How texts are split, and that nothing else happens to them.
fn splitting(document: &Document) -> Result<&'static Splitting, LocalModelError> {
    let Document { normalizer, pre_tokenizer, decoder, model, .. } = document;
    if model.kind != "BPE" || kind(decoder) != "ByteLevel" {
        let found = escaped(&model.kind, SHOWN);
        return Err(unheld(format!("its tokenizer is of the kind {found}, and byte-level BPE is written")));
    }
    let is_empty = |value: &Value| value.is_null() || value == "";
    let settings = [
        ("dropout", model.dropout.is_null()),
        ("unk_token", model.unk_token.is_null()),
        ("continuing_subword_prefix", is_empty(&model.continuing_subword_prefix)),
        ("end_of_word_suffix", is_empty(&model.end_of_word_suffix)),
        ("byte_fallback", !model.byte_fallback),
    ];
    if let Some((name, _)) = settings.iter().find(|(_, is_off)| !is_off) {
        return Err(unheld(format!("its tokenizer has the setting {name}")));
    }
    let composes = match kind(normalizer) {
        "" if normalizer.is_null() => false,
        "NFC" => true,
        other => return Err(unheld(format!("its tokenizer changes texts by {}", escaped(other, SHOWN)))),
    };
    patterns(pre_tokenizer).and_then(|patterns| Splitting::with(&patterns, composes, model.ignore_merges)).ok_or_else(
        || {
            let known = Splitting::names().join(", ");
            unheld(format!("its tokenizer splits texts in a way that has no name there; {known} are known"))
        },
    )
}

/// Writes the numbers of named tokens, and of those that end an answer.
fn named(
    model: &ModelFolder,
    document: &Document,
    tokens: &Tokens,
    values: &mut Values,
) -> Result<(), LocalModelError> {
    let beginning = beginning(&document.post_processor)
        .map_err(|()| unheld("its tokenizer adds something else to a text than a token at the beginning"))?;
    let mut written = Vec::new();
    for (name, key) in NAMED {
        let number = model.words.get(name).and_then(|word| tokens.numbers.get(word)).copied();
        let uses = |template: &Option<String>| template.as_ref().is_some_and(|template| template.contains(name));
        if number.is_none() && model.words.contains_key(name) && (uses(&model.template) || uses(&model.tool_template)) {
            return Err(unheld(format!("its template uses the {name}, which is none of its tokens")));
        }
        written.extend(number.map(|number| (key, number)));
    }
    let (first, [end, turn, message]) = (NAMED.map(|(_, key)| key)[0], ENDS);
    if let Some(number) = beginning.and_then(|number| u32::try_from(number).ok()) {
        match written.iter().find(|(key, _)| *key == first) {
            Some((_, other)) if *other != number => {
                return Err(unheld("texts begin with another token than the bos_token"));
            }
            Some(_) => {}
            None => written.push((first, number)),
        }
    }
    let ends = &model.config.end_tokens;
    if !written.iter().any(|(key, _)| *key == end) {
        let number = ends.first().ok_or_else(|| unheld("no token ends an answer"))?;
        written.push((end, *number));
    }
    // Others are found by their texts.
    let is_known = |number: &u32| {
        let text = tokens.texts.get(*number as usize).map(String::as_str).unwrap_or_default();
        let is_control = tokens.kinds.get(*number as usize).is_some_and(|kind| i64::from(*kind) == CONTROL);
        is_control && END_WORDS.contains(&text) || written.contains(&(end, *number))
    };
    let more: Vec<u32> = ends.iter().filter(|number| !is_known(number)).copied().collect();
    if more.len() > 2 {
        return Err(unheld(format!("{} tokens end an answer, of which three have a name there", ends.len())));
    }
    written.extend([turn, message].into_iter().zip(more));
    for (key, number) in written {
        values.whole(key, number);
    }
    values.flag("tokenizer.ggml.add_bos_token", beginning.is_some());
    Ok(())
}
