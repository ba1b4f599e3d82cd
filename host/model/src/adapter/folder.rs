//! An adapter in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.

use super::{AdapterSettings, Targets};
use crate::chat_folder::JSON_BYTES;
use crate::folder::ADAPTER;
use crate::host_weights::little_endian;
use crate::weight_files::{Found, LOADED, Metadata, Stored, file, read_bytes, read_file, serialised};
use crate::{Decoder, Dtype, HostDecoder, HostMatrix, LocalModelError, LowRank, Weight, digest, memory};
use clawhost_core::Digest;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
/// The weights as PEFT wrote them once.
const PICKLED: &str = "adapter_model.bin";
/// PEFT's prefix of weight names.
const PREFIX: &str = "base_model.model.";

/// PEFT settings that change what an adapter computes in ways that this crate does not implement. They must be off,
/// empty or absent.
const MUST_BE_OFF: [&str; 18] = [
    "use_dora",
    "lora_bias",
    "fan_in_fan_out",
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
    "layer_replication",
    "target_parameters",
    "trainable_token_indices",
    "use_qalora",
    "use_bdlora",
    "alora_invocation_tokens",
    "arrow_config",
    "corda_config",
    "kasa_config",
    "lora_ga_config",
    "monteclora_config",
    "velora_config",
];
/// Projections of the attention. The others belong to the MLP.
const ATTENTION: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];
/// Initialisations that leave the base weights unchanged. Others subtract from them.
const PLAIN_BEGINNINGS: [&str; 4] = ["gaussian", "eva", "orthogonal", "true"];

/// The weights beside which an adapter was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Base {
    digest: Digest,
    /// How they were kept: rounded weights have another digest.
    dtype: Dtype,
}

impl Base {
    /// Its key in the metadata of the weights. PEFT leaves it alone.
    const KEY: &str = "base";

    /// Those of a model. `None`: formats are mixed, or int8, which is digested in two ways.
    fn of(model: &HostDecoder) -> Option<Self> {
        let plain = model.without_adapters();
        let dtype = Some(plain.embedding.dtype()).filter(|dtype| *dtype != Dtype::Int8)?;
        let is_equal = |weight: &Weight<HostMatrix, _>| match weight {
            Weight::Matrix(matrix) => matrix.dtype() == dtype,
            Weight::Vector(_) => true,
        };
        let is_uniform = plain.weights().iter().all(|(_, weight)| is_equal(weight));
        is_uniform.then(|| Self { digest: digest(&plain), dtype })
    }

    fn read(metadata: &Metadata) -> Option<Self> {
        let (dtype, digest) = metadata.get(Self::KEY)?.split_once(' ')?;
        Some(Self { digest: digest.parse().ok()?, dtype: Dtype::named(dtype)? })
    }

    fn written(&self) -> Metadata {
        Metadata::from([(Self::KEY.to_owned(), format!("{} {}", self.dtype.name(), self.digest))])
    }
}

/// An adapter that was read from a folder, or is written to one.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterFolder {
    /// Its settings.
    pub settings: AdapterSettings,
    /// The name or path of its base model.
    pub base: String,
    /// What it was written beside. `None`: nobody said.
    beside: Option<Base>,
    /// By the names of the adapted model: `model.layers.0.self_attn.q_proj.lora_A.weight`.
    weights: BTreeMap<String, HostMatrix>,
}

fn wrong(why: impl Into<String>) -> LocalModelError {
    LocalModelError::Adapter(why.into())
}

fn settings(config: &Map<String, Value>) -> Result<(usize, f64), LocalModelError> {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let refuse = |name: &str, value: &Value, why: &str| {
        Err(wrong(format!("{CONFIG} says {name} is {}; {why}", clawhost_core::escaped(&value.to_string(), 80))))
    };
    if text("peft_type") != "LORA" {
        let kind = config.get("peft_type").unwrap_or(&Value::Null);
        return refuse("peft_type", kind, "this version supports LORA");
    }
    for name in MUST_BE_OFF {
        let value = config.get(name).unwrap_or(&Value::Null);
        let off = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !off {
            return refuse(name, value, "adapters with it are not supported");
        }
    }
    if let Some(bias) = config.get("bias").filter(|bias| *bias != "none") {
        return refuse("bias", bias, "adapters that change biases are not supported");
    }
    match config.get("init_lora_weights") {
        Some(how @ Value::String(name)) if !PLAIN_BEGINNINGS.contains(&name.as_str()) => {
            return refuse("init_lora_weights", how, "it changes the base weights; have PEFT convert it");
        }
        _ => {}
    }
    let rank = config.get("r").and_then(Value::as_u64).and_then(|rank| usize::try_from(rank).ok());
    let rank = rank.filter(|rank| *rank > 0).ok_or_else(|| wrong(format!("{CONFIG} has no r, the rank")))?;
    let alpha = config.get("lora_alpha").and_then(Value::as_f64).filter(|alpha| alpha.is_finite() && *alpha > 0.0);
    let alpha = alpha.ok_or_else(|| wrong(format!("{CONFIG} has no lora_alpha above 0")))?;
    // Rank-stabilised (Kalajdzievski 2023): alpha is divided by the square root of the rank. The equivalent plain alpha
    // is larger.
    let stabilised = config.get("use_rslora").and_then(Value::as_bool).unwrap_or(false);
    Ok((rank, if stabilised { alpha * (rank as f64).sqrt() } else { alpha }))
}

impl AdapterFolder {
    /// The files of an adapter, by the names that PEFT gives them.
    pub const FILES: [&str; 2] = [CONFIG, WEIGHTS];

    /// The folder of the adapter in a model's folder.
    pub fn inside(model: &Path) -> PathBuf {
        model.join(ADAPTER)
    }

    /// Whether a folder has the settings of an adapter.
    pub fn is_one(folder: &Path) -> bool {
        folder.join(CONFIG).is_file()
    }

    /// Reads a folder.
    ///
    /// # Errors
    /// A file is missing or damaged, or the kind of adapter is not supported.
    pub fn read(folder: &Path) -> Result<Self, LocalModelError> {
        let path = folder.join(CONFIG);
        if !Self::is_one(folder) {
            return Err(file(folder, format!("there is no {CONFIG}; an adapter is a folder in PEFT's format")));
        }
        if !folder.join(WEIGHTS).exists() && folder.join(PICKLED).exists() {
            return Err(file(
                folder,
                format!("its weights are in {PICKLED}, which can run code; have PEFT write {WEIGHTS}"),
            ));
        }
        let text = clawhost_files::read_text(&path, JSON_BYTES).map_err(|error| file(&path, error))?;
        let mut found = Found::new();
        let metadata = read_file(&folder.join(WEIGHTS), &mut found)?;
        Self::of_parts(&path, &text, found, &metadata)
    }

    /// Reads the contents of the two files, in the order of [`Self::FILES`].
    ///
    /// # Errors
    /// They are damaged, or the kind of adapter is not supported.
    pub fn of_files([config, weights]: [&[u8]; 2]) -> Result<Self, LocalModelError> {
        let [path, of_weights] = Self::FILES.map(Path::new);
        let text = std::str::from_utf8(config).map_err(|error| file(path, error))?;
        memory::check("the adapter", (weights.len() as u64).saturating_mul(LOADED))?;
        let mut found = Found::new();
        let metadata = read_bytes(of_weights, weights, &mut found)?;
        Self::of_parts(path, text, found, &metadata)
    }

    fn of_parts(path: &Path, text: &str, found: Found, metadata: &Metadata) -> Result<Self, LocalModelError> {
        let config: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| file(path, format!("no JSON object: {error}")))?;
        let (rank, alpha) = settings(&config)?;
        let mut weights = BTreeMap::new();
        let mut targets = Vec::new();
        for (name, (shape, values)) in found {
            let plain = name.strip_prefix(PREFIX).unwrap_or(&name).to_owned();
            let target = plain.split('.').rev().nth(2).unwrap_or_default().to_owned();
            let part = [".lora_A.weight", ".lora_B.weight"].into_iter().find(|part| plain.ends_with(part));
            let (Some(part), [rows, columns]) = (part, shape.as_slice()) else {
                return Err(wrong(format!(
                    "{WEIGHTS} holds {}, which is neither an A nor a B",
                    clawhost_core::escaped(&name, 200)
                )));
            };
            let of_rank = if part == ".lora_A.weight" { *rows } else { *columns };
            if of_rank != rank {
                return Err(wrong(format!(
                    "the weight {plain} has the shape {shape:?}, but {CONFIG} says r is {rank}"
                )));
            }
            targets.push(target);
            weights.insert(plain.clone(), HostMatrix::new(&plain, [*rows, *columns], values)?);
        }
        let targets = Targets::named(targets.iter().map(String::as_str))?;
        let base = config.get("base_model_name_or_path").and_then(Value::as_str).unwrap_or_default().to_owned();
        let beside = Base::read(metadata);
        Ok(Self { settings: AdapterSettings { rank, alpha, targets, seed: 0 }, base, beside, weights })
    }

    /// The adapter of a model. `base` is the name or path of its base model.
    ///
    /// # Errors
    /// The model has no adapter.
    pub fn of(model: &HostDecoder, base: &str) -> Result<Self, LocalModelError> {
        let mut projections = model.blocks.iter().flat_map(|block| block.projections());
        let (rank, scale) = projections
            .find_map(|(_, projection)| projection.adapter.as_ref().map(|low| (low.a.shape[0], low.scale)))
            .ok_or_else(|| wrong("the model has no adapter; train one, or name the folder of one"))?;
        let mut weights = BTreeMap::new();
        for (name, weight) in model.weights() {
            if let (Weight::Matrix(matrix), true) = (weight, crate::is_adapter(&name)) {
                weights.insert(name, matrix);
            }
        }
        let targets = Targets::named(weights.keys().filter_map(|name| name.split('.').rev().nth(2)))?;
        let settings = AdapterSettings { rank, alpha: scale * rank as f64, targets, seed: 0 };
        Ok(Self { settings, base: base.to_owned(), beside: None, weights })
    }

    /// The same, which keeps the digest of the model's own weights and is refused beside others.
    ///
    /// # Errors
    /// As [`AdapterFolder::of`].
    pub fn bound(model: &HostDecoder, base: &str) -> Result<Self, LocalModelError> {
        Ok(Self { beside: Base::of(model), ..Self::of(model, base)? })
    }

    /// Attaches it to a model. An adapter that the model already has is replaced.
    ///
    /// # Errors
    /// The adapter belongs to another model: it was written beside other weights, or a weight is missing, has another shape, or has no projection here.
    pub fn attach(&self, model: &HostDecoder) -> Result<HostDecoder, LocalModelError> {
        let mut adapted = model.clone();
        self.attach_to(&mut adapted, &|matrix: &HostMatrix| matrix.shape, &HostMatrix::clone)?;
        // Weights in another format are rounded to other numbers, so nobody can compare them.
        if let Some(beside) = self.beside
            && let Some(here) = Base::of(model).filter(|here| here.dtype == beside.dtype)
            && here != beside
        {
            let (there, here) = (beside.digest.short(), here.digest.short());
            return Err(wrong(format!("it was written beside other weights: {there}, and these are {here}")));
        }
        Ok(adapted)
    }

    /// The same for weights of any kind: `shape` gives that of a projection, `[out, in]`, and `matrix` converts those of the adapter.
    ///
    /// # Errors
    /// As [`AdapterFolder::attach`]. Then the model is of no use.
    pub(crate) fn attach_to<M: Clone, V: Clone>(
        &self,
        model: &mut Decoder<M, V>,
        shape: &dyn Fn(&M) -> [usize; 2],
        matrix: &dyn Fn(&HostMatrix) -> M,
    ) -> Result<(), LocalModelError> {
        let mut used = BTreeSet::new();
        for (number, block) in model.blocks.iter_mut().enumerate() {
            for (target, projection) in block.projections_mut() {
                projection.adapter = None;
                let part = if ATTENTION.contains(&target) { "self_attn" } else { "mlp" };
                let name = |letter: char| format!("model.layers.{number}.{part}.{target}.lora_{letter}.weight");
                let (a, b) = match (self.weights.get(&name('A')), self.weights.get(&name('B'))) {
                    (None, None) => continue,
                    (Some(a), Some(b)) => (a, b),
                    (found, _) => {
                        let missing = name(if found.is_some() { 'B' } else { 'A' });
                        return Err(wrong(format!("the weight {missing} is missing; is the file damaged?")));
                    }
                };
                let [out, input] = shape(&projection.weight);
                for (letter, found, needed) in
                    [('A', a.shape, [self.settings.rank, input]), ('B', b.shape, [out, self.settings.rank])]
                {
                    if found != needed {
                        return Err(wrong(format!(
                            "the weight {} has the shape {found:?} where this model needs {needed:?}; it belongs to another model",
                            name(letter)
                        )));
                    }
                }
                projection.adapter = Some(LowRank { a: matrix(a), b: matrix(b), scale: self.scale() });
                used.extend([name('A'), name('B')]);
            }
        }
        match self.weights.keys().find(|name| !used.contains(*name)) {
            Some(foreign) => {
                let foreign = clawhost_core::escaped(foreign, 200);
                Err(wrong(format!("the weight {foreign} has no projection here; it belongs to another model")))
            }
            None => Ok(()),
        }
    }

    /// Gives every weight a value, so that the adapter changes answers.
    #[cfg(test)]
    pub(crate) fn shake(&mut self) {
        for (name, matrix) in &mut self.weights {
            let mut stream = crate::host_weights::Stream::of(1, name);
            let values = (0..matrix.count()).map(|_| (stream.uniform() - 0.5) as f32);
            *matrix = HostMatrix::of_rows(matrix.shape, values.collect());
        }
    }

    /// Alpha over rank.
    fn scale(&self) -> f64 {
        self.settings.alpha / self.settings.rank as f64
    }

    /// The digest of a model with this adapter, from the digest of the model's own weights.
    pub fn digest_with(&self, base: Digest) -> Digest {
        let mut bytes = base.to_string().into_bytes();
        bytes.extend(self.scale().to_le_bytes());
        for (name, matrix) in &self.weights {
            bytes.extend_from_slice(format!(" {name} {:?} ", matrix.shape).as_bytes());
            bytes.extend(little_endian(&matrix.values()));
        }
        Digest::of(&bytes)
    }

    /// Writes a folder that PEFT reads. Files of the same names are overwritten.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), LocalModelError> {
        std::fs::create_dir_all(folder).map_err(|error| file(folder, error))?;
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| file(&path, error))
        };
        let AdapterSettings { rank, alpha, targets, .. } = self.settings;
        // Whole numbers without a decimal point, as people write them.
        let alpha = if alpha.fract() == 0.0 { json!(alpha as u64) } else { json!(alpha) };
        let config = json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": self.base, "r": rank, "lora_alpha": alpha,
            "target_modules": targets.names().collect::<Vec<_>>(), "lora_dropout": 0.0, "bias": "none",
            "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true, "modules_to_save": null,
            "use_dora": false, "use_rslora": false,
        });
        put(CONFIG, format!("{config:#}\n").as_bytes())?;
        let named = self.weights.iter().map(|(name, one)| (format!("{PREFIX}{name}"), Weight::Matrix(one.clone())));
        let metadata = self.beside.map(|base| base.written()).unwrap_or_default();
        put(WEIGHTS, &serialised(&named.collect::<Vec<_>>(), Stored::F32, metadata)?)
    }
}
