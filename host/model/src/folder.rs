//! A model as a folder, the way Hugging Face has them: `config.json`, weights in safetensors (in shards or not), `tokenizer.json`,
//! the chat template in `chat_template.jinja` or `tokenizer_config.json`, and `generation_config.json`.

use crate::generate::Sampling;
use crate::tokens::{ChatTemplate, Tokenizer};
use crate::{Convert, Decoder, HostDecoder, HostMatrix, LocalModelError, ModelConfig, Weight};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model as it stands in its folder.
#[derive(Debug, Clone)]
pub struct ModelFolder {
    /// Its shape.
    pub config: ModelConfig,
    /// Its weights.
    pub weights: HostDecoder,
    /// `tokenizer.json`.
    pub tokenizer_json: String,
    /// The Jinja source of its chat template.
    pub template: String,
    /// Words of its special tokens, by their part: `bos_token`, `eos_token`.
    pub words: BTreeMap<String, String>,
    /// How it wants to be sampled.
    pub sampling: Sampling,
}

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const TEMPLATE: &str = "chat_template.jinja";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";

fn file(path: &Path, why: impl ToString) -> LocalModelError {
    LocalModelError::File { path: path.to_owned(), why: why.to_string() }
}

fn text(path: &Path) -> Result<String, LocalModelError> {
    std::fs::read_to_string(path).map_err(|error| file(path, error))
}

fn object(path: &Path) -> Result<Value, LocalModelError> {
    if !path.exists() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text(path)?).map_err(|error| file(path, format!("no JSON: {error}")))
}

/// The files that hold weights.
fn shards(folder: &Path) -> Result<Vec<PathBuf>, LocalModelError> {
    let index = folder.join(INDEX);
    if !index.exists() {
        return Ok(vec![folder.join(WEIGHTS)]);
    }
    let document = object(&index)?;
    let map =
        document.get("weight_map").and_then(Value::as_object).ok_or_else(|| file(&index, "it has no weight_map"))?;
    let mut names: Vec<&str> = map.values().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| match Path::new(name).file_name().is_some_and(|plain| plain == name) {
            true => Ok(folder.join(name)),
            false => Err(file(&index, format!("a shard is called `{}`", clawhost_core::escaped(name, 80)))),
        })
        .collect()
}

/// Values of a weight, whatever they are stored as.
fn floats(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>, LocalModelError> {
    let bytes = view.data();
    let values: Vec<f32> = match view.dtype() {
        Dtype::F32 => bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        Dtype::BF16 => {
            bytes.as_chunks::<2>().0.iter().map(|bytes| half::bf16::from_le_bytes(*bytes).to_f32()).collect()
        }
        Dtype::F16 => bytes.as_chunks::<2>().0.iter().map(|bytes| half::f16::from_le_bytes(*bytes).to_f32()).collect(),
        other => {
            return Err(LocalModelError::Config(format!(
                "the weight {name} is stored as {other:?}; F32, F16 and BF16 are read"
            )));
        }
    };
    if values.iter().any(|value| !value.is_finite()) {
        return Err(LocalModelError::NotFinite(name.to_owned()));
    }
    Ok(values)
}

/// Takes weights out of what the shards held.
struct Take(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Take {
    fn take(&mut self, name: &str, expected: &[usize]) -> Result<Vec<f32>, LocalModelError> {
        let (found, values) = self.0.remove(name).ok_or_else(|| LocalModelError::MissingWeight(name.to_owned()))?;
        if found != expected {
            return Err(LocalModelError::Shape { name: name.to_owned(), found, expected: expected.to_vec() });
        }
        Ok(values)
    }
}

impl Convert<[usize; 2], usize> for Take {
    type Matrix = HostMatrix;
    type Vector = Arc<[f32]>;
    type Error = LocalModelError;

    fn matrix(&mut self, name: &str, shape: &[usize; 2]) -> Result<HostMatrix, LocalModelError> {
        HostMatrix::new(name, *shape, self.take(name, shape)?)
    }

    fn vector(&mut self, name: &str, length: &usize) -> Result<Arc<[f32]>, LocalModelError> {
        Ok(self.take(name, &[*length])?.into())
    }
}

fn weights(folder: &Path, config: &ModelConfig) -> Result<HostDecoder, LocalModelError> {
    let mut found = BTreeMap::new();
    for path in shards(folder)? {
        let bytes = std::fs::read(&path).map_err(|error| file(&path, format!("{error}; a shard of the model")))?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|error| file(&path, format!("no safetensors ({error}); is the download complete?")))?;
        for (name, view) in tensors.tensors() {
            let values = floats(&name, &view)?;
            found.insert(name, (view.shape().to_vec(), values));
        }
    }
    Decoder::blueprint(config).convert(&mut Take(found))
}

/// A special token's word: a text, or an object that holds one.
fn word(document: &Value, name: &str) -> Option<String> {
    let told = document.get(name)?;
    told.as_str().or_else(|| told.get("content")?.as_str()).map(str::to_owned)
}

/// Where several templates are named, the one for plain conversations.
fn template(document: &Value) -> Option<String> {
    match document.get("chat_template")? {
        Value::String(source) => Some(source.clone()),
        Value::Array(named) => {
            let plain = named.iter().find(|one| one.get("name").is_some_and(|name| name == "default"))?;
            plain.get("template")?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}

impl ModelFolder {
    /// Reads a folder.
    ///
    /// # Errors
    /// A file is missing or damaged, a weight is missing or has another shape, or the architecture is none that runs here.
    pub fn read(folder: &Path) -> Result<Self, LocalModelError> {
        let mut config = ModelConfig::parse(&text(&folder.join("config.json"))?)?;
        let tokens = object(&folder.join(TOKENIZER_CONFIG))?;
        let beside = folder.join(TEMPLATE);
        let source = if beside.exists() { Some(text(&beside)?) } else { template(&tokens) };
        let template = source.ok_or_else(|| {
            LocalModelError::Template(format!(
                "neither {TEMPLATE} nor {TOKENIZER_CONFIG} has one; put a {TEMPLATE} into {}",
                folder.display()
            ))
        })?;
        let generation = object(&folder.join("generation_config.json"))?;
        match generation.get("eos_token_id") {
            Some(Value::Array(ids)) => {
                config.end_tokens = ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect();
            }
            Some(id) => config.end_tokens.extend(id.as_u64().and_then(|id| u32::try_from(id).ok())),
            None => {}
        }
        config.end_tokens.sort_unstable();
        config.end_tokens.dedup();
        let number = |name: &str| generation.get(name).and_then(Value::as_f64).map(|number| number as f32);
        let samples = generation.get("do_sample").and_then(Value::as_bool).unwrap_or(true);
        let sampling = Sampling {
            temperature: if samples { number("temperature").unwrap_or(1.0) } else { 0.0 },
            top_k: generation.get("top_k").and_then(Value::as_u64).filter(|k| *k > 0).map(|k| k as usize),
            top_p: number("top_p").unwrap_or(1.0),
            min_p: number("min_p").unwrap_or(0.0),
            bias: Vec::new(),
        };
        let words =
            ["bos_token", "eos_token"].into_iter().filter_map(|name| Some((name.to_owned(), word(&tokens, name)?)));
        Ok(Self {
            weights: weights(folder, &config)?,
            config,
            tokenizer_json: text(&folder.join("tokenizer.json"))?,
            template,
            words: words.collect(),
            sampling,
        })
    }

    /// Writes a folder that transformers reads. Files of the same names are overwritten.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), LocalModelError> {
        std::fs::create_dir_all(folder).map_err(|error| file(folder, error))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| file(&path, error))
        };
        write("config.json", self.config.to_json().as_bytes())?;
        write("tokenizer.json", self.tokenizer_json.as_bytes())?;
        write(TEMPLATE, self.template.as_bytes())?;
        let mut tokens: BTreeMap<&str, Value> =
            self.words.iter().map(|(name, word)| (name.as_str(), Value::String(word.clone()))).collect();
        tokens.insert("tokenizer_class", "PreTrainedTokenizerFast".into());
        tokens.insert("model_max_length", self.config.context.into());
        write(TOKENIZER_CONFIG, format!("{:#}\n", serde_json::json!(tokens)).as_bytes())?;
        let generation = serde_json::json!({
            "eos_token_id": self.config.end_tokens, "do_sample": self.sampling.temperature > 0.0,
            "temperature": if self.sampling.temperature > 0.0 { self.sampling.temperature } else { 1.0 },
        });
        write("generation_config.json", format!("{generation:#}\n").as_bytes())?;
        write(WEIGHTS, &self.safetensors()?)
    }

    fn safetensors(&self) -> Result<Vec<u8>, LocalModelError> {
        let mut plain: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
        for (name, weight) in self.weights.weights() {
            let (shape, values) = match weight {
                Weight::Matrix(matrix) => (matrix.shape.to_vec(), matrix.values),
                Weight::Vector(values) => (vec![values.len()], values),
            };
            plain.insert(name, (shape, values.iter().flat_map(|value| value.to_le_bytes()).collect()));
        }
        let wrong = |error: safetensors::SafeTensorError| LocalModelError::Checkpoint(error.to_string());
        let views = plain
            .iter()
            .map(|(name, (shape, bytes))| Ok((name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(wrong)?;
        // Without it transformers refuses the file.
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize(views, Some(metadata)).map_err(wrong)
    }

    /// Text to tokens.
    ///
    /// # Errors
    /// `tokenizer.json` is none, or gives tokens that have no embedding.
    pub fn tokenizer(&self) -> Result<Tokenizer, LocalModelError> {
        let tokenizer = Tokenizer::parse(&self.tokenizer_json)?;
        if tokenizer.size() > self.config.vocabulary {
            let (size, vocabulary) = (tokenizer.size(), self.config.vocabulary);
            return Err(LocalModelError::Tokenizer(format!(
                "it gives {size} tokens, and the model has embeddings for {vocabulary}; do the two belong together?"
            )));
        }
        Ok(tokenizer)
    }

    /// Conversations to text.
    ///
    /// # Errors
    /// The template is no Jinja.
    pub fn chat_template(&self) -> Result<ChatTemplate, LocalModelError> {
        let word = |name: &str| self.words.get(name).map(String::as_str).unwrap_or_default();
        ChatTemplate::new(&self.template, word("bos_token"), word("eos_token"))
    }
}
