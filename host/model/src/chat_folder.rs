//! The texts of a model's folder in Hugging Face's format, without its weights: tokenizer, chat template, default sampling. A folder without weights is enough
//! where a service computes.

use crate::generate::{Penalties, Sampling};
use crate::tiny::OWN_TEMPLATES;
use crate::tokens::{ChatTemplate, TOKENIZER_BYTES, TemplateArguments, TextFiles, TextHost, Texts, Tokenizer};
use crate::weight_files::file;
use crate::{ChatFormat, LocalModelError, Overlong};
use clawhost_core::Digest;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const TEMPLATE: &str = "chat_template.jinja";
/// The path that transformers uses if there are two templates.
pub(crate) const TOOL_TEMPLATE: &str = "additional_chat_templates/tool_use.jinja";
/// Names of templates.
const DEFAULT: &str = "default";
/// See [`DEFAULT`].
const TOOL_USE: &str = "tool_use";
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// Largest JSON document of a model's folder that this process reads itself. `tokenizer_config.json` is the largest: some repeat all
/// added tokens in it, in 1 MB.
pub(crate) const JSON_BYTES: u64 = 8 << 20;

pub(crate) fn text(path: &Path) -> Result<String, LocalModelError> {
    clawhost_files::read_text(path, JSON_BYTES).map_err(|error| file(path, error))
}

/// It is not read as JSON here: that takes many times its size.
fn tokenizer_json(path: &Path) -> Result<String, LocalModelError> {
    clawhost_files::read_text(path, TOKENIZER_BYTES).map_err(|error| file(path, error))
}

fn object(path: &Path) -> Result<Value, LocalModelError> {
    if !path.exists() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text(path)?).map_err(|error| file(path, format!("no JSON: {error}")))
}

/// The text of a special token: a string, or an object that holds one.
fn word(document: &Value, name: &str) -> Option<String> {
    let told = document.get(name)?;
    told.as_str().or_else(|| told.get("content")?.as_str()).map(str::to_owned)
}

/// The tokens that a template can name.
const NAMED: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The named tokens of classes of tokenizers, where a folder does not say them.
const OF_CLASSES: [(&str, &[(&str, &str)]); 2] = [
    ("LlamaTokenizer", &[("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")]),
    (
        "Qwen2Tokenizer",
        &[("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>"), ("pad_token", "<|endoftext|>")],
    ),
];

/// The texts of the named tokens, as transformers finds them: `special_tokens_map.json` replaces what `tokenizer_config.json` says, unless the
/// latter lists all added tokens.
fn special_words(folder: &Path, tokens: &Value) -> Result<BTreeMap<String, String>, LocalModelError> {
    let older = match tokens.get("added_tokens_decoder") {
        None => object(&folder.join("special_tokens_map.json"))?,
        Some(_) => Value::Null,
    };
    let class = tokens.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
    let class = class.strip_suffix("Fast").unwrap_or(class);
    let usual = OF_CLASSES.iter().find(|(name, _)| *name == class).map_or(&[][..], |(_, usual)| *usual);
    let one = |name: &str| {
        let said = older.get(name).or_else(|| tokens.get(name)).is_some();
        let usual = || usual.iter().find(|(named, _)| *named == name).map(|(_, word)| (*word).to_owned());
        match said {
            true => word(&older, name).or_else(|| word(tokens, name)),
            false => usual(),
        }
    };
    Ok(NAMED.into_iter().filter_map(|name| Some((name.to_owned(), one(name)?))).collect())
}

/// The template of this name. A template without a name is the default.
fn template(document: &Value, name: &str) -> Option<String> {
    match document.get("chat_template")? {
        Value::String(source) => (name == DEFAULT).then(|| source.clone()),
        Value::Array(named) => {
            let named = named.iter().find(|one| one.get("name").is_some_and(|known| known == name))?;
            named.get("template")?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// Largest vocabulary and context that are believed: some ten times those of today's models.
const LARGEST_SIZE: usize = 1 << 26;

/// How many of the most likely tokens transformers draws from where `top_k` is not said.
const USUAL_TOP_K: u64 = 50;

/// Settings of generation_config.json that this crate does not follow, with their neutral values.
const IGNORED: [(&str, f64); 6] = [
    ("encoder_repetition_penalty", 1.0),
    ("no_repeat_ngram_size", 0.0),
    ("typical_p", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("num_beams", 1.0),
];

/// The files of a folder, except for its shape and its weights.
pub(crate) struct ChatFiles {
    pub(crate) tokenizer_json: String,
    pub(crate) template: Option<String>,
    pub(crate) tool_template: Option<String>,
    pub(crate) words: BTreeMap<String, String>,
    pub(crate) end_tokens: Vec<u32>,
    pub(crate) sampling: Sampling,
    pub(crate) ignored: Vec<String>,
}

impl ChatFiles {
    /// Reads them. `end_tokens`: those of `config.json`.
    pub(crate) fn read(folder: &Path, mut end_tokens: Vec<u32>) -> Result<Self, LocalModelError> {
        let tokens = object(&folder.join(TOKENIZER_CONFIG))?;
        let template_of = |path: &str, name: &str| match folder.join(path) {
            beside if beside.exists() => Ok(Some(text(&beside)?)),
            _ => Ok(template(&tokens, name)),
        };
        let (template, tool_template) = (template_of(TEMPLATE, DEFAULT)?, template_of(TOOL_TEMPLATE, TOOL_USE)?);
        // Older folders have the settings of generation among those of the shape.
        let generation = match object(&folder.join("generation_config.json"))? {
            Value::Null => object(&folder.join(CONFIG))?,
            own => own,
        };
        match generation.get("eos_token_id") {
            Some(Value::Array(_)) => end_tokens = ids(&generation),
            _ => end_tokens.extend(ids(&generation)),
        }
        let mut known = BTreeSet::new();
        end_tokens.retain(|id| known.insert(*id));
        let ignored = IGNORED.into_iter().filter_map(|(name, neutral)| {
            let value = generation.get(name)?.as_f64().filter(|value| *value != neutral)?;
            Some(format!("{name} {value}"))
        });
        let ignored = ignored.collect();
        let number = |name: &str| generation.get(name).and_then(Value::as_f64).map(|number| number as f32);
        // A folder that does not say `do_sample` is greedy, and the 50 most likely tokens are drawn from where it does not say `top_k`.
        let samples = generation.get("do_sample").and_then(Value::as_bool).unwrap_or(false);
        let top_k = generation.get("top_k").and_then(Value::as_u64).or(samples.then_some(USUAL_TOP_K));
        let sampling = Sampling {
            temperature: if samples { number("temperature").unwrap_or(1.0) } else { 0.0 },
            top_k: top_k.filter(|k| *k > 0).map(|k| k as usize),
            top_p: number("top_p").unwrap_or(1.0),
            min_p: number("min_p").unwrap_or(0.0),
            bias: Vec::new(),
            penalties: Penalties { repetition: number("repetition_penalty").unwrap_or(1.0), ..Penalties::default() },
        };
        Ok(Self {
            tokenizer_json: tokenizer_json(&folder.join(TOKENIZER))?,
            template,
            tool_template,
            words: special_words(folder, &tokens)?,
            end_tokens,
            sampling,
            ignored,
        })
    }
}

/// The tokens that end an answer: one, several, or none.
fn ids(document: &Value) -> Vec<u32> {
    let id = |id: &Value| u32::try_from(id.as_u64()?).ok();
    match document.get("eos_token_id") {
        Some(Value::Array(all)) => all.iter().filter_map(id).collect(),
        other => other.and_then(id).into_iter().collect(),
    }
}

/// Checks that every token has an embedding.
pub(crate) fn fits(texts: Texts, vocabulary: usize) -> Result<Texts, LocalModelError> {
    let size = texts.tokenizer.size();
    if size > vocabulary {
        return Err(LocalModelError::Tokenizer(format!(
            "it gives {size} tokens, and the model has embeddings for {vocabulary}; do the two belong together?"
        )));
    }
    Ok(texts)
}

/// Tokenizer and template of a model that can hold a conversation, after a short one was tried.
pub(crate) fn conversing(texts: Texts) -> Result<(Tokenizer, ChatTemplate), LocalModelError> {
    texts.probe()?;
    let Texts { tokenizer, template } = texts;
    let template = template.ok_or_else(|| {
        LocalModelError::Template(format!(
            "neither {TEMPLATE} nor {TOKENIZER_CONFIG} has one; put a {TEMPLATE} into the model's folder"
        ))
    })?;
    Ok((tokenizer, template))
}

/// The tokens that end an answer. The template's end of a turn comes first: demonstrated answers end with it.
pub(crate) fn end_of_turn_first(mut end: Vec<u32>, own: Option<u32>) -> Vec<u32> {
    end.sort_by_key(|token| Some(*token) != own);
    end
}

/// The marks of a family that are control tokens of its tokenizer, with their numbers.
pub(crate) fn control_marks(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
) -> Result<Arc<BTreeMap<String, u32>>, LocalModelError> {
    let known = tokenizer.control_words();
    let marks = template.answers().marks().into_iter().filter(|mark| known.iter().any(|word| word == mark));
    let numbered = marks.map(|mark| Ok((mark.to_owned(), tokenizer.token(mark)?)));
    let found = numbered.collect::<Result<Vec<_>, LocalModelError>>()?;
    Ok(Arc::new(found.into_iter().filter_map(|(mark, token)| Some((mark, token?))).collect()))
}

/// A model's folder without its weights.
#[derive(Debug, Clone)]
pub struct ChatFolder {
    /// How it speaks.
    pub format: ChatFormat,
    /// The number of tokens that have an embedding.
    pub vocabulary: usize,
    /// The largest number of tokens of a conversation.
    pub context: usize,
    /// Requested sampling settings that are not supported: names with their values.
    pub ignored: Vec<String>,
}

impl ChatFolder {
    /// Reads a folder, whatever the architecture of its model, for a model of this name.
    ///
    /// # Errors
    /// A file is missing or damaged, or its tokenizer or template cannot be used.
    pub fn read(folder: &Path, name: &str, host: &TextHost) -> Result<Self, LocalModelError> {
        let config: Value = serde_json::from_str(&text(&folder.join(CONFIG))?)
            .map_err(|error| LocalModelError::Config(format!("no JSON: {error}")))?;
        // Models that also read pictures have the numbers of their language in an object of its own.
        let own = config.get("text_config").filter(|own| own.is_object()).unwrap_or(&config);
        let size = |name: &str| {
            let size = own.get(name).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
            size.filter(|size| (1..=LARGEST_SIZE).contains(size)).ok_or_else(|| {
                LocalModelError::Config(format!("{name} is missing, or no number from 1 to {LARGEST_SIZE}"))
            })
        };
        let (vocabulary, context) = (size("vocab_size")?, size("max_position_embeddings")?);
        let end_tokens = [ids(&config), ids(own)].concat();
        let ChatFiles { tokenizer_json, template, tool_template, words, end_tokens, sampling, ignored } =
            ChatFiles::read(folder, end_tokens)?;
        let digest = Digest::of_json(&json!({
            "vocabulary": vocabulary, "context": context, "end": end_tokens, "tokenizer": tokenizer_json, "template": template,
            "tool_template": tool_template, "words": words, "sampling": format!("{sampling:?}"),
        }));
        let files = TextFiles {
            tokenizer_json: &tokenizer_json,
            template: template.as_deref(),
            tool_template: tool_template.as_deref(),
            words: &words,
        };
        let texts = fits(Texts::open(&files, &OWN_TEMPLATES, host)?, vocabulary)?;
        let (tokenizer, template) = conversing(texts)?;
        let own = words.get("eos_token").map(|word| tokenizer.token(word)).transpose()?.flatten();
        let end = end_of_turn_first(end_tokens, own);
        let overlong = Overlong::default();
        let (arguments, marks) = (TemplateArguments::default(), control_marks(&tokenizer, &template)?);
        let format = ChatFormat {
            name: name.to_owned(),
            tokenizer,
            template,
            end,
            sampling,
            overlong,
            arguments,
            marks,
            digest,
        };
        Ok(Self { format, vocabulary, context, ignored })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TinyModel;

    fn written() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        TinyModel::default().make().unwrap().write(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        folder
    }

    #[test]
    fn named_tokens_are_found_where_transformers_finds_them_and_written_back() {
        let check = |tokens: Value, map: Option<Value>, expect: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            TinyModel::default().make().unwrap().write(folder.path()).unwrap();
            std::fs::write(folder.path().join(TOKENIZER_CONFIG), tokens.to_string()).unwrap();
            if let Some(map) = map {
                std::fs::write(folder.path().join("special_tokens_map.json"), map.to_string()).unwrap();
            }
            let read = crate::ModelFolder::read(folder.path(), &TextHost::InProcess).unwrap();
            let words: Vec<_> = read.words.iter().map(|(name, word)| (name.as_str(), word.as_str())).collect();
            assert_eq!(words, expect, "{tokens}");
            let again = tempfile::tempdir().unwrap();
            read.write(again.path()).unwrap();
            assert_eq!(crate::ModelFolder::read(again.path(), &TextHost::InProcess).unwrap().words, read.words);
        };
        let content = json!({ "content": "<p>", "lstrip": false });
        check(json!({ "eos_token": "#", "pad_token": content }), None, &[("eos_token", "#"), ("pad_token", "<p>")]);
        let map = json!({ "bos_token": "<b>", "eos_token": { "content": "<e>" } });
        check(json!({ "eos_token": "#" }), Some(map.clone()), &[("bos_token", "<b>"), ("eos_token", "<e>")]);
        check(json!({ "eos_token": "#", "added_tokens_decoder": {} }), Some(map), &[("eos_token", "#")]);
        let llama = [("bos_token", "<s>"), ("eos_token", "#"), ("unk_token", "<unk>")];
        check(json!({ "tokenizer_class": "LlamaTokenizerFast", "eos_token": "#" }), None, &llama);
        let qwen = json!({ "tokenizer_class": "Qwen2Tokenizer", "pad_token": null });
        check(qwen, None, &[("eos_token", "<|endoftext|>"), ("unk_token", "<|endoftext|>")]);
    }

    #[test]
    fn the_default_sampling_is_that_of_transformers() {
        let check = |name: &str, document: Value, temperature: f32, top_k: Option<usize>| {
            let folder = tempfile::tempdir().unwrap();
            TinyModel::default().make().unwrap().write(folder.path()).unwrap();
            std::fs::remove_file(folder.path().join("generation_config.json")).unwrap();
            let path = folder.path().join(name);
            let mut whole: Value =
                std::fs::read_to_string(&path).map_or(json!({}), |text| serde_json::from_str(&text).unwrap());
            whole.as_object_mut().unwrap().extend(document.as_object().unwrap().clone());
            std::fs::write(path, whole.to_string()).unwrap();
            let read = crate::ModelFolder::read(folder.path(), &TextHost::InProcess).unwrap();
            assert_eq!((read.sampling.temperature, read.sampling.top_k), (temperature, top_k), "{name}: {document}");
            let again = tempfile::tempdir().unwrap();
            read.write(again.path()).unwrap();
            assert_eq!(crate::ModelFolder::read(again.path(), &TextHost::InProcess).unwrap().sampling, read.sampling);
        };
        let generation = "generation_config.json";
        check(generation, json!({}), 0.0, None);
        check(generation, json!({ "temperature": 0.5, "top_k": 20 }), 0.0, Some(20));
        check(generation, json!({ "do_sample": true }), 1.0, Some(50));
        check(generation, json!({ "do_sample": true, "top_k": 0, "temperature": 0.5 }), 0.5, None);
        check(CONFIG, json!({}), 0.0, None);
        check(CONFIG, json!({ "do_sample": true, "top_k": 7, "temperature": 0.5 }), 0.5, Some(7));
    }

    #[test]
    fn a_folder_without_weights_and_of_any_architecture_speaks_as_one_with_weights() {
        let folder = written();
        let whole = TinyModel::default().make().unwrap().chat_format("tiny").unwrap();
        let change = |config: Value| std::fs::write(folder.path().join(CONFIG), config.to_string()).unwrap();
        let read = || ChatFolder::read(folder.path(), "tiny", &TextHost::InProcess);
        for config in [
            json!({ "model_type": "mixture", "vocab_size": 16, "max_position_embeddings": 64 }),
            json!({ "text_config": { "vocab_size": 16, "max_position_embeddings": 64 } }),
        ] {
            change(config);
            let read = read().unwrap();
            assert_eq!((read.vocabulary, read.context, &read.format.end), (16, 64, &whole.end));
            assert_eq!(read.format.tokenizer.encode("1+1=").unwrap(), whole.tokenizer.encode("1+1=").unwrap());
            assert_eq!(read.format.sampling, whole.sampling);
        }
        let refused = |config: Value, part: &str| {
            change(config);
            let why = read().unwrap_err().to_string();
            assert!(why.contains(part), "{why}");
        };
        refused(json!({ "max_position_embeddings": 64 }), "config.json: vocab_size is missing");
        refused(json!({ "vocab_size": 3, "max_position_embeddings": 64 }), "it gives 16 tokens");
        refused(json!({ "vocab_size": 16, "max_position_embeddings": 0 }), "max_position_embeddings is missing");
    }
}
