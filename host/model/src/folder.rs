//! A model as a folder in Hugging Face's format, or as a GGUF file. In the folder are `config.json`, weights in safetensors (one file or shards),
//! `tokenizer.json`, the chat template in `chat_template.jinja` or `tokenizer_config.json`, and
//! `generation_config.json`.

use crate::chat_folder::{CONFIG, ChatFiles, TEMPLATE, TOKENIZER_CONFIG, TOOL_TEMPLATE, conversing, fits, text};
use crate::device::ComputeDevice;
use crate::generate::{NewTokens, Sampling};
use crate::tiny::OWN_TEMPLATES;
use crate::tokens::{ChatTemplate, TemplateArguments, TextFiles, TextHost, Texts, Tokenizer};
use crate::weight_files::{self, Stored, file};
use crate::{AdapterFolder, Dtype, HostDecoder, LocalModelError, ModelConfig, foreign_format, gguf};
use clawhost_core::Digest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The contents of a model's folder.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// Its shape.
    pub config: ModelConfig,
    /// Its weights, with the adapter of the folder `adapter`, if there is one.
    pub weights: HostDecoder,
    /// `tokenizer.json`.
    pub tokenizer_json: String,
    /// The Jinja source of its chat template. `None`: the model completes texts and cannot hold a conversation.
    pub template: Option<String>,
    /// The template for conversations that offer tools, if it differs.
    pub tool_template: Option<String>,
    /// The texts of its special tokens by name: `bos_token`, `eos_token`, `pad_token` and others.
    pub words: BTreeMap<String, String>,
    /// Its default sampling.
    pub sampling: Sampling,
    /// Requested sampling settings that are not supported: names with their values.
    pub ignored: Vec<String>,
    /// Arguments of the chat template, unless a request gives others. No file has them.
    pub arguments: TemplateArguments,
    /// Where its tokenizer and its templates are interpreted.
    pub texts: TextHost,
}

/// The adapter's folder inside the model's folder, in PEFT's format.
pub(crate) const ADAPTER: &str = "adapter";
/// The base model of such an adapter: the folder above, wherever it is moved.
pub(crate) const BASE: &str = "..";

/// The weights with the adapter of the model's folder, if there is one.
fn with_adapter(folder: &Path, weights: HostDecoder) -> Result<HostDecoder, LocalModelError> {
    match folder.join(ADAPTER) {
        adapter if adapter.is_dir() => AdapterFolder::read(&adapter)?.attach(&weights),
        _ => Ok(weights),
    }
}

impl ModelFolder {
    /// Whether a path names a model: a folder with a config.json, or a GGUF file, or the folder of one.
    ///
    /// # Errors
    /// It names one in a format that is not read.
    pub fn is_one(path: &Path) -> Result<bool, LocalModelError> {
        if path.join(CONFIG).exists() || gguf::file_of(path).is_some() {
            return Ok(true);
        }
        foreign_format::check(path).map(|()| false)
    }

    /// Reads a folder, or a GGUF file. `texts`: where its tokenizer and its templates are interpreted when it is opened.
    ///
    /// # Errors
    /// A file is missing or damaged, a weight is missing or has another shape, or the architecture is not supported.
    pub fn read(folder: &Path, texts: &TextHost) -> Result<Self, LocalModelError> {
        Self::read_as(folder, texts, None)
    }

    /// The same with matrices kept in this format. `None`: as they are stored.
    ///
    /// # Errors
    /// As [`ModelFolder::read`], or the format cannot keep a weight.
    pub fn read_as(folder: &Path, texts: &TextHost, dtype: Option<Dtype>) -> Result<Self, LocalModelError> {
        if let Some(file) = gguf::file_of(folder) {
            let mut model = gguf::read(&file, texts, dtype)?;
            model.weights = with_adapter(folder, model.weights)?;
            return Ok(model);
        }
        foreign_format::check(folder)?;
        let mut config = ModelConfig::parse(&text(&folder.join(CONFIG))?)?;
        let ChatFiles { end_tokens, tokenizer_json, template, tool_template, words, sampling, ignored } =
            ChatFiles::read(folder, std::mem::take(&mut config.end_tokens))?;
        config.end_tokens = end_tokens;
        let weights = with_adapter(folder, weight_files::read(folder, &config, dtype)?)?;
        let texts = texts.clone();
        Ok(Self {
            weights,
            config,
            tokenizer_json,
            template,
            tool_template,
            words,
            sampling,
            ignored,
            arguments: TemplateArguments::default(),
            texts,
        })
    }

    /// Writes a folder that transformers reads, in one file and in the shortest format that holds the weights unchanged. Files of the same names are
    /// overwritten.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), LocalModelError> {
        self.write_as(folder, Stored::lossless(&self.weights), None)
    }

    /// The same, with weights rounded to `stored`, in files of at most `shard` bytes. An adapter is written to a
    /// subfolder that PEFT reads. To write one merged model see [`HostDecoder::merged`].
    ///
    /// # Errors
    /// As [`ModelFolder::write`], or a weight is too large for f16.
    pub fn write_as(&self, folder: &Path, stored: Stored, shard: Option<u64>) -> Result<(), LocalModelError> {
        std::fs::create_dir_all(folder).map_err(|error| file(folder, error))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| file(&path, error))
        };
        let config = self.config.to_json().replace(Stored::F32.name(), stored.name());
        write("config.json", config.as_bytes())?;
        write("tokenizer.json", self.tokenizer_json.as_bytes())?;
        if let Some(template) = &self.template {
            write(TEMPLATE, template.as_bytes())?;
        }
        if let Some(template) = &self.tool_template {
            let beside = folder.join(TOOL_TEMPLATE);
            beside.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| file(&beside, error))?;
            write(TOOL_TEMPLATE, template.as_bytes())?;
        }
        let mut tokens: BTreeMap<&str, Value> =
            self.words.iter().map(|(name, word)| (name.as_str(), Value::String(word.clone()))).collect();
        tokens.insert("tokenizer_class", "PreTrainedTokenizerFast".into());
        tokens.insert("model_max_length", self.config.context.into());
        write(TOKENIZER_CONFIG, format!("{:#}\n", json!(tokens)).as_bytes())?;
        write("generation_config.json", format!("{:#}\n", self.generation()).as_bytes())?;
        weight_files::write(folder, &self.weights, stored, shard)?;
        match self.weights.has_adapter() {
            // Rounded weights are others than those that are here.
            true if [Stored::F32, Stored::lossless(&self.weights)].contains(&stored) => {
                AdapterFolder::bound(&self.weights, BASE)?.write(&folder.join(ADAPTER))
            }
            true => AdapterFolder::of(&self.weights, BASE)?.write(&folder.join(ADAPTER)),
            false => Ok(()),
        }
    }

    /// Its default sampling in transformers' format.
    fn generation(&self) -> Value {
        // Via text: 0.7 as f32 is not 0.7 as f64.
        let plain = |number: f32| json!(number.to_string().parse::<f64>().unwrap_or_default());
        let Sampling { temperature, top_k, top_p, min_p, penalties, .. } = self.sampling;
        let mut told = json!({ "eos_token_id": self.config.end_tokens, "do_sample": temperature > 0.0 });
        if let Some(told) = told.as_object_mut() {
            let samples = temperature > 0.0;
            told.extend(samples.then(|| ("temperature".to_owned(), plain(temperature))));
            // Without a number, transformers takes the 50 most likely.
            told.extend((samples || top_k.is_some()).then(|| ("top_k".to_owned(), json!(top_k.unwrap_or(0)))));
            told.extend((top_p < 1.0).then(|| ("top_p".to_owned(), plain(top_p))));
            told.extend((min_p > 0.0).then(|| ("min_p".to_owned(), plain(min_p))));
            let repetition = penalties.repetition;
            told.extend((repetition != 1.0).then(|| ("repetition_penalty".to_owned(), plain(repetition))));
        }
        told
    }

    /// A digest of everything except the weights that determines answers: shape, tokenizer, templates and default
    /// sampling.
    pub fn chat_format_digest(&self) -> Digest {
        Digest::of_json(&json!({
            "config": self.config.to_json(), "tokenizer": self.tokenizer_json, "template": self.template,
            "tool_template": self.tool_template, "words": self.words, "generation": self.generation(),
        }))
    }

    /// Whether token ids mean the same in both models. Two files that differ in a byte count as different tokenizers: nothing
    /// else shows that every id is equal.
    pub fn has_tokenizer_of(&self, other: &Self) -> bool {
        self.tokenizer_json == other.tokenizer_json
    }

    /// The tokenizer and the chat template.
    ///
    /// # Errors
    /// `tokenizer.json` is invalid, or gives tokens that have no embedding; the template is invalid Jinja; or reading them reaches a limit.
    pub fn texts(&self) -> Result<Texts, LocalModelError> {
        let files = TextFiles {
            tokenizer_json: &self.tokenizer_json,
            template: self.template.as_deref(),
            tool_template: self.tool_template.as_deref(),
            words: &self.words,
        };
        fits(Texts::open(&files, &OWN_TEMPLATES, &self.texts)?, self.config.vocabulary)
    }

    /// Checks what reading alone does not: the texts by a short conversation, and the weights by one token, computed on the processor.
    ///
    /// # Errors
    /// As [`ModelFolder::texts`], or the logits are not finite.
    pub fn check(&self) -> Result<Texts, LocalModelError> {
        let texts = self.texts()?;
        texts.probe()?;
        let model = ComputeDevice::processor().model(Arc::new(self.config.clone()), &self.weights)?;
        let mut memory = model.memory();
        let logits = model.forward(vec![NewTokens { memory: &mut memory, tokens: &[0], every: false }])?;
        if !logits.iter().flatten().all(|logit| logit.is_finite()) {
            return Err(LocalModelError::Logits);
        }
        Ok(texts)
    }

    /// As [`ModelFolder::texts`], of a model that can hold a conversation, after a short one was tried.
    ///
    /// # Errors
    /// As [`ModelFolder::texts`], or there is no template.
    pub fn chat_texts(&self) -> Result<(Tokenizer, ChatTemplate), LocalModelError> {
        conversing(self.texts()?)
    }
}
