//! Weights in safetensors: one file, or shards with an index, in Hugging Face's layout.

use crate::chat_folder::JSON_BYTES;
use crate::stored_tensors::{Format, StoredTensors};
use crate::{HostDecoder, HostMatrix, LocalModelError, ModelConfig, Weight, memory};
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, View};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

pub(crate) fn file(path: &Path, why: impl ToString) -> LocalModelError {
    LocalModelError::File { path: path.to_owned(), why: why.to_string() }
}

/// The number format of stored weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stored {
    /// Unchanged: f32.
    #[default]
    F32,
    /// Rounded to half precision.
    F16,
    /// Rounded to bfloat16.
    BF16,
}

impl Stored {
    /// The name that transformers uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
        }
    }

    fn kind(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::BF16 => Dtype::BF16,
        }
    }

    /// The shortest format that holds the weights of a model unchanged, without its adapters: half of f32 for a model that is kept in 16 bits.
    pub(crate) fn lossless(model: &HostDecoder) -> Self {
        let weights = model.without_adapters().weights();
        let holds = |stored: &Self| {
            weights.iter().all(|(_, weight)| match weight {
                Weight::Matrix(matrix) => matrix.dtype() == stored.dtype(),
                Weight::Vector(values) => values.iter().all(|value| stored.rounded(*value) == *value),
            })
        };
        [Self::BF16, Self::F16].into_iter().find(holds).unwrap_or(Self::F32)
    }

    /// The format of a matrix in memory with the same numbers.
    fn dtype(self) -> crate::Dtype {
        match self {
            Self::F32 => crate::Dtype::F32,
            Self::F16 => crate::Dtype::F16,
            Self::BF16 => crate::Dtype::BF16,
        }
    }

    /// What is read of a written value.
    fn rounded(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::F16 => half::f16::from_f32(value).to_f32(),
            Self::BF16 => half::bf16::from_f32(value).to_f32(),
        }
    }

    /// The values as bytes.
    ///
    /// # Errors
    /// A value is too large for half precision.
    pub(crate) fn bytes(self, name: &str, values: &[f32]) -> Result<Vec<u8>, LocalModelError> {
        match self {
            Self::F32 => Ok(written(values, f32::to_le_bytes)),
            Self::BF16 => Ok(written(values, |value| half::bf16::from_f32(value).to_le_bytes())),
            Self::F16 => match values.iter().find(|value| !self.rounded(**value).is_finite()) {
                Some(value) => {
                    let why = format!("the weight {name} holds {value}, too large for f16; write bf16 or f32");
                    Err(LocalModelError::Config(why))
                }
                None => Ok(written(values, |value| half::f16::from_f32(value).to_le_bytes())),
            },
        }
    }
}

/// Values that a thread writes at once.
const WRITTEN_AT_ONCE: usize = 1 << 16;

/// Values as `N` bytes each.
fn written<const N: usize>(values: &[f32], bytes: impl Fn(f32) -> [u8; N] + Sync) -> Vec<u8> {
    let mut written = vec![0; values.len() * N];
    let parts = written.par_chunks_mut(WRITTEN_AT_ONCE * N).zip(values.par_chunks(WRITTEN_AT_ONCE));
    parts.for_each(|(to, values)| {
        for (to, value) in to.as_chunks_mut::<N>().0.iter_mut().zip(values) {
            *to = bytes(*value);
        }
    });
    written
}

/// The files that hold weights, and their index, if there is one.
pub(crate) fn shards(folder: &Path) -> Result<(Vec<PathBuf>, Option<PathBuf>), LocalModelError> {
    let index = folder.join(INDEX);
    if !index.exists() {
        return Ok((vec![folder.join(WEIGHTS)], None));
    }
    let text = clawhost_files::read_text(&index, JSON_BYTES).map_err(|error| file(&index, error))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| file(&index, format!("no JSON: {error}")))?;
    let map =
        document.get("weight_map").and_then(Value::as_object).ok_or_else(|| file(&index, "it has no weight_map"))?;
    let mut names: Vec<&str> = map.values().filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let paths = names.into_iter().map(|name| match Path::new(name).file_name().is_some_and(|plain| plain == name) {
        true => Ok(folder.join(name)),
        false => Err(file(&index, format!("a shard is called `{}`", clawhost_core::escaped(name, 80)))),
    });
    Ok((paths.collect::<Result<_, _>>()?, Some(index)))
}

/// The values of a weight as f32, from any supported number format.
fn floats(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>, LocalModelError> {
    let format = Format::of(view.dtype()).ok_or_else(|| {
        let found = view.dtype();
        LocalModelError::Config(format!("the weight {name} is stored as {found:?}; F32, F16 and BF16 are read"))
    })?;
    let mut values = Vec::new();
    format.read(name, view.data(), &mut values)?;
    Ok(values)
}

/// Weights of a file by name, with their shapes.
pub(crate) type Found = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Memory for each byte of a file of weights while it is read: the byte, and the value as f32, which is twice as long as bf16.
pub(crate) const LOADED: u64 = 3;

/// Reads a file of weights into `found`.
pub(crate) fn read_file(path: &Path, found: &mut Found) -> Result<Metadata, LocalModelError> {
    let failed = |error| file(path, format!("{error}; a shard of the model"));
    // A file of nothing but holes can be larger than the memory: its size is checked before it is read.
    let (_, size) = clawhost_files::open(path, u64::MAX).map_err(failed)?;
    memory::check(&path.display().to_string(), size.saturating_mul(LOADED))?;
    read_bytes(path, &clawhost_files::read(path, size).map_err(failed)?, found)
}

/// What a file of weights says beside its weights.
pub(crate) type Metadata = HashMap<String, String>;

/// Reads the bytes of a file of weights into `found`. `path`: what errors call them. Returns its metadata.
pub(crate) fn read_bytes(path: &Path, bytes: &[u8], found: &mut Found) -> Result<Metadata, LocalModelError> {
    let tensors = SafeTensors::deserialize(bytes)
        .map_err(|error| file(path, format!("no safetensors ({error}); is the download complete?")))?;
    for (name, view) in tensors.tensors() {
        let values = floats(&name, &view)?;
        found.insert(name, (view.shape().to_vec(), values));
    }
    let header = SafeTensors::read_metadata(bytes).map_err(|error| file(path, error.to_string()))?;
    Ok(header.1.metadata().clone().unwrap_or_default())
}

/// Reads all weights of a folder, kept in this format; `None`: as they are stored. Every weight of the architecture must be there with its shape, and no
/// unknown one.
pub(crate) fn read(
    folder: &Path,
    config: &ModelConfig,
    dtype: Option<crate::Dtype>,
) -> Result<HostDecoder, LocalModelError> {
    StoredTensors::open(&shards(folder)?.0)?.read(config, dtype)
}

/// One safetensors file with this metadata. Equal weights give equal bytes.
pub(crate) fn serialised(
    weights: &[(String, Weight<HostMatrix, Arc<[f32]>>)],
    stored: Stored,
    mut metadata: Metadata,
) -> Result<Vec<u8>, LocalModelError> {
    metadata.insert(FORMAT.0.to_owned(), FORMAT.1.to_owned());
    let mut bytes = safetensors::serialize(tensors(weights, stored)?, Some(metadata))
        .map_err(|error| LocalModelError::Checkpoint(error.to_string()))?;
    sort_metadata(&mut bytes);
    Ok(bytes)
}

/// Writes one safetensors file, a weight at a time: a model in f32 may be larger than the memory that is left beside it.
fn write_file(
    path: &Path,
    weights: &[(String, Weight<HostMatrix, Arc<[f32]>>)],
    stored: Stored,
) -> Result<(), LocalModelError> {
    let metadata = Metadata::from([(FORMAT.0.to_owned(), FORMAT.1.to_owned())]);
    // The library replaces the file by one that its owner alone may read. This one has the permissions of other files, or those that it had.
    let opened = std::fs::File::options().append(true).create(true).open(path);
    let permissions = opened.and_then(|opened| opened.metadata()).map_err(|error| file(path, error))?.permissions();
    safetensors::serialize_to_file(tensors(weights, stored)?, Some(metadata), path)
        .map_err(|error| file(path, error.to_string()))?;
    std::fs::set_permissions(path, permissions).map_err(|error| file(path, error))
}

/// Without it transformers refuses a file.
const FORMAT: (&str, &str) = ("format", "pt");

/// A weight whose bytes are computed when they are written.
struct Tensor<'a> {
    name: &'a str,
    weight: &'a Weight<HostMatrix, Arc<[f32]>>,
    shape: Vec<usize>,
    stored: Stored,
}

impl Tensor<'_> {
    fn bytes(&self) -> Result<Vec<u8>, LocalModelError> {
        let values = match self.weight {
            Weight::Matrix(matrix) if matrix.dtype() == self.stored.dtype() => match matrix.halves() {
                Some(bytes) => return Ok(bytes),
                None => matrix.values(),
            },
            Weight::Matrix(matrix) => matrix.values(),
            Weight::Vector(values) => Cow::Borrowed(&values[..]),
        };
        self.stored.bytes(self.name, &values)
    }
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        self.stored.kind()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        // Checked before: see `tensors`.
        self.bytes().unwrap_or_default().into()
    }

    fn data_len(&self) -> usize {
        let width = if self.stored == Stored::F32 { 4 } else { 2 };
        self.shape.iter().product::<usize>() * width
    }
}

/// Weights as the library writes them.
///
/// # Errors
/// A value is too large for half precision.
fn tensors(
    weights: &[(String, Weight<HostMatrix, Arc<[f32]>>)],
    stored: Stored,
) -> Result<Vec<(&str, Tensor<'_>)>, LocalModelError> {
    let mut all = Vec::with_capacity(weights.len());
    for (name, weight) in weights {
        let shape = match weight {
            Weight::Matrix(matrix) => matrix.shape.to_vec(),
            Weight::Vector(values) => vec![values.len()],
        };
        let tensor = Tensor { name, weight, shape, stored };
        if stored == Stored::F16 {
            tensor.bytes()?;
        }
        all.push((name.as_str(), tensor));
    }
    // In the order of their names, as a file is read.
    all.sort_by_key(|(name, _)| *name);
    Ok(all)
}

/// Sorts the metadata in the header of a file. The library writes them in the order of a hash map, another one in each process.
fn sort_metadata(file: &mut [u8]) {
    let Some((length, rest)) = file.split_first_chunk_mut::<8>() else { return };
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let Some(header) = rest.get_mut(..length) else { return };
    let Ok(mut read) = serde_json::from_slice::<Value>(header) else { return };
    if let Some(metadata) = read.get_mut("__metadata__").and_then(Value::as_object_mut) {
        metadata.sort_keys();
    }
    // The same entries have the same length; what follows is padding.
    let sorted = read.to_string();
    if let Some(to) = header.get_mut(..sorted.len()) {
        to.copy_from_slice(sorted.as_bytes());
    }
}

/// Writes the weights of a model without its adapters: into one file, or into shards of at most the given number of
/// bytes (a larger weight has a shard of its own).
pub(crate) fn write(
    folder: &Path,
    model: &HostDecoder,
    stored: Stored,
    shard: Option<u64>,
) -> Result<(), LocalModelError> {
    let width = if stored == Stored::F32 { 4 } else { 2 };
    let mut shards = vec![Vec::new()];
    let (mut size, mut total) = (0, 0);
    for (name, weight) in model.without_adapters().weights() {
        let values = match &weight {
            Weight::Matrix(matrix) => matrix.count(),
            Weight::Vector(values) => values.len(),
        };
        let bytes = values as u64 * width;
        if size > 0 && shard.is_some_and(|most| size + bytes > most) {
            shards.push(Vec::new());
            size = 0;
        }
        (size, total) = (size + bytes, total + bytes);
        shards.last_mut().into_iter().for_each(|shard| shard.push((name.clone(), weight.clone())));
    }
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|error| file(&path, error))
    };
    if let [only] = shards.as_slice() {
        write_file(&folder.join(WEIGHTS), only, stored)?;
        // An old index of shards would take precedence.
        return match std::fs::remove_file(folder.join(INDEX)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(file(&folder.join(INDEX), error)),
            _ => Ok(()),
        };
    }
    let count = shards.len();
    let mut map = serde_json::Map::new();
    for (number, shard) in (1..).zip(&shards) {
        let name: String = format!("model-{number:05}-of-{count:05}.safetensors");
        write_file(&folder.join(&name), shard, stored)?;
        map.extend(shard.iter().map(|(weight, _)| (weight.clone(), json!(name))));
    }
    let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
    put(INDEX, format!("{index:#}\n").as_bytes())
}
