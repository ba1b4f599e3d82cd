//! The shape of a decoder: the part of Hugging Face's `config.json` that determines outputs.
//!
//! Qwen2, Qwen3 and Llama are one architecture with switches: biases on the query, key and value projections (Qwen2,
//! and Llama if `attention_bias` is true), normalised queries and keys (Qwen3), a head that shares the embedding
//! (`tied`).

use crate::{LocalModelError, Weight, config_keys};
use serde_json::{Map, Value, json};

/// A family of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2, 3 and models of the same shape.
    Llama,
    /// Qwen 2 and 2.5: biases on q, k, v.
    Qwen2,
    /// Qwen 3: normalised q and k.
    Qwen3,
}

impl Architecture {
    const ALL: [Self; 3] = [Self::Llama, Self::Qwen2, Self::Qwen3];

    /// The value of `model_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The context of a model whose file does not say it.
    fn usual_context(self) -> usize {
        match self {
            Self::Llama => 2048,
            Self::Qwen2 | Self::Qwen3 => 32_768,
        }
    }

    /// The value of `architectures`.
    fn class(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }
}

/// How positions become angles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RotaryScaling {
    /// Unscaled.
    None,
    /// All positions are divided by this factor.
    Linear(f64),
    /// Llama 3.1: long wavelengths are divided by `factor`, short ones are kept, those between are interpolated.
    Llama3 {
        /// The factor by which the context was extended.
        factor: f64,
        /// Wavelengths above `original / low` are divided.
        low: f64,
        /// Wavelengths below `original / high` are kept.
        high: f64,
        /// The context of pre-training.
        original: f64,
    },
}

/// The shape of a decoder. All sizes are at least 1.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Tokens that have an embedding (`vocab_size`).
    pub vocabulary: usize,
    /// Width of the residual stream (`hidden_size`).
    pub width: usize,
    /// Blocks (`num_hidden_layers`).
    pub layers: usize,
    /// Query heads (`num_attention_heads`).
    pub heads: usize,
    /// Key and value heads (`num_key_value_heads`); divides `heads`.
    pub key_value_heads: usize,
    /// Width of a head (`head_dim`); even.
    pub head_width: usize,
    /// Width inside the MLP (`intermediate_size`).
    pub mlp_width: usize,
    /// Largest number of tokens of prompt and answer together (`max_position_embeddings`).
    pub context: usize,
    /// Base of the rotary angles (`rope_theta`).
    pub rotary_base: f64,
    /// How positions are scaled.
    pub rotary_scaling: RotaryScaling,
    /// Added to the mean square before its root (`rms_norm_eps`).
    pub norm_epsilon: f64,
    /// Whether the head is the embedding (`tie_word_embeddings`).
    pub tied: bool,
    /// Whether q, k and v have biases.
    pub query_bias: bool,
    /// Whether the attention's output projection has a bias.
    pub output_bias: bool,
    /// Whether q and k are normalised per head.
    pub query_norm: bool,
    /// Standard deviation of fresh weights (`initializer_range`).
    pub initial_deviation: f64,
    /// Tokens that end an answer.
    pub end_tokens: Vec<u32>,
}

/// Largest size of a dimension. Beyond it products of two sizes overflow; no model is that large.
const LARGEST: u64 = 1 << 24;

/// Largest number of blocks: ten times those of the deepest models. Each block costs memory before a weight is read.
const DEEPEST: u64 = 2048;

/// Reads fields, with errors that name the field.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn size(&self, name: &str) -> Result<Option<usize>, LocalModelError> {
        self.up_to(name, LARGEST)
    }

    fn up_to(&self, name: &str, most: u64) -> Result<Option<usize>, LocalModelError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64().filter(|size| (1..=most).contains(size)) {
                Some(size) => Ok(Some(size as usize)),
                None => {
                    Err(LocalModelError::Config(format!("{name} is {value}; expected a whole number from 1 to {most}")))
                }
            },
        }
    }

    fn needed(&self, name: &str) -> Result<usize, LocalModelError> {
        self.needed_up_to(name, LARGEST)
    }

    fn needed_up_to(&self, name: &str, most: u64) -> Result<usize, LocalModelError> {
        self.up_to(name, most)?.ok_or_else(|| LocalModelError::Config(format!("{name} is missing")))
    }

    fn number(&self, name: &str) -> Result<Option<f64>, LocalModelError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) if number.is_finite() && number > 0.0 => Ok(Some(number)),
                _ => Err(LocalModelError::Config(format!("{name} is {value}; expected a number above 0"))),
            },
        }
    }

    fn flag(&self, name: &str) -> Result<bool, LocalModelError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(name, other, "expected true or false")),
        }
    }

    fn text(&self, name: &str) -> Result<Option<&str>, LocalModelError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, other, "expected a text")),
        }
    }

    /// An object with members. An empty one counts as none, as in transformers.
    fn object(&self, name: &str) -> Result<Option<&Map<String, Value>>, LocalModelError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object).filter(|object| !object.is_empty())),
            Some(other) => Err(self.wrong(name, other, "expected an object")),
        }
    }

    fn wrong(&self, name: &str, value: &Value, expected: &str) -> LocalModelError {
        LocalModelError::Config(format!("{name} is {}; {expected}", clawhost_core::escaped(&value.to_string(), 80)))
    }
}

impl ModelConfig {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// The architecture is unknown, a size is missing, or a setting that changes outputs is not supported.
    pub fn parse(text: &str) -> Result<Self, LocalModelError> {
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| LocalModelError::Config(format!("no JSON object: {error}")))?;
        let fields = Fields(&object);
        let kind = object.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let architecture = Architecture::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(|| {
            let known = Architecture::ALL.map(Architecture::name).join(", ");
            LocalModelError::Config(format!(
                "model_type is `{}`; this version runs {known}",
                clawhost_core::escaped(kind, 80)
            ))
        })?;
        config_keys::check(&object, architecture)?;
        if fields.flag("mlp_bias")? {
            return Err(LocalModelError::Config("mlp_bias is true: biases in the MLP are not supported".into()));
        }
        match fields.text("hidden_act")? {
            // Two names of one function.
            None | Some("silu" | "swish") => {}
            Some(other) => {
                let other = clawhost_core::escaped(other, 80);
                return Err(LocalModelError::Config(format!("hidden_act is `{other}`; this version supports silu")));
            }
        }
        let (width, heads) = (fields.needed("hidden_size")?, fields.needed("num_attention_heads")?);
        let missing = |name: &str| !object.contains_key(name);
        if architecture != Architecture::Llama && missing("num_key_value_heads") {
            // transformers' default is 32, whatever the number of heads.
            return Err(LocalModelError::Config("num_key_value_heads is missing".into()));
        }
        let key_value_heads = fields.size("num_key_value_heads")?.unwrap_or(heads);
        let head_width = match fields.size("head_dim")? {
            Some(size) => size,
            // transformers' default is 128, whatever the width.
            None if architecture == Architecture::Qwen3 => {
                return Err(LocalModelError::Config("head_dim is missing".into()));
            }
            None if width.is_multiple_of(heads) => width / heads,
            None => {
                let why = format!(
                    "hidden_size {width} is not a multiple of num_attention_heads {heads}, and head_dim is missing"
                );
                return Err(LocalModelError::Config(why));
            }
        };
        if !heads.is_multiple_of(key_value_heads) || !head_width.is_multiple_of(2) {
            let why = format!(
                "{heads} heads of {head_width}, {key_value_heads} for keys and values: the second must divide the first, \
                 and a head's width be even"
            );
            return Err(LocalModelError::Config(why));
        }
        // transformers 5 writes `rope_parameters`, older versions `rope_scaling`. Where a file has both, transformers takes the older one.
        let (older, newer) = (fields.object("rope_scaling")?, fields.object("rope_parameters")?);
        let empty = Map::new();
        let rotary = Fields(older.or(newer).unwrap_or(&empty));
        let base = match rotary.number("rope_theta")? {
            Some(base) => base,
            None => fields.number("rope_theta")?.unwrap_or(10_000.0),
        };
        let attention_bias = fields.flag("attention_bias")?;
        Ok(Self {
            architecture,
            vocabulary: fields.needed("vocab_size")?,
            width,
            layers: fields.needed_up_to("num_hidden_layers", DEEPEST)?,
            heads,
            key_value_heads,
            head_width,
            mlp_width: fields.needed("intermediate_size")?,
            context: fields.size("max_position_embeddings")?.unwrap_or(architecture.usual_context()),
            rotary_base: within("rope_theta", base, 1.0..=1e12)?,
            rotary_scaling: scaling(&rotary)?,
            norm_epsilon: within("rms_norm_eps", fields.number("rms_norm_eps")?.unwrap_or(1e-6), 0.0..=1.0)?,
            tied: fields.flag("tie_word_embeddings")?,
            query_bias: architecture == Architecture::Qwen2 || attention_bias,
            output_bias: architecture != Architecture::Qwen2 && attention_bias,
            query_norm: architecture == Architecture::Qwen3,
            initial_deviation: fields.number("initializer_range")?.unwrap_or(0.02),
            end_tokens: end_tokens(&object),
        })
    }

    /// The `config.json` that transformers reads.
    pub fn to_json(&self) -> String {
        let mut rotary = json!({ "rope_theta": self.rotary_base, "rope_type": "default" });
        match self.rotary_scaling {
            RotaryScaling::None => {}
            RotaryScaling::Linear(factor) => {
                rotary = json!({ "rope_theta": self.rotary_base, "rope_type": "linear", "factor": factor });
            }
            RotaryScaling::Llama3 { factor, low, high, original } => {
                rotary = json!({
                    "rope_theta": self.rotary_base, "rope_type": "llama3", "factor": factor, "low_freq_factor": low,
                    "high_freq_factor": high, "original_max_position_embeddings": original as u64,
                });
            }
        }
        let document = json!({
            "architectures": [self.architecture.class()],
            "model_type": self.architecture.name(),
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_value_heads,
            "head_dim": self.head_width,
            "intermediate_size": self.mlp_width,
            "max_position_embeddings": self.context,
            "rope_theta": self.rotary_base,
            "rope_parameters": rotary,
            "rms_norm_eps": self.norm_epsilon,
            "tie_word_embeddings": self.tied,
            "attention_bias": self.architecture != Architecture::Qwen2 && self.query_bias,
            "hidden_act": "silu",
            "initializer_range": self.initial_deviation,
            "eos_token_id": self.end_tokens,
            "use_sliding_window": false,
            "torch_dtype": "float32",
        });
        format!("{document:#}\n")
    }

    /// Angles per position: `head_width / 2` frequencies (Su et al. 2021, optionally with Llama 3.1's scaling).
    pub fn rotary_frequencies(&self) -> Vec<f64> {
        (0..self.head_width / 2)
            .map(|pair| {
                let frequency = self.rotary_base.powf(-(2.0 * pair as f64) / self.head_width as f64);
                match self.rotary_scaling {
                    RotaryScaling::None => frequency,
                    RotaryScaling::Linear(factor) => frequency / factor,
                    RotaryScaling::Llama3 { factor, low, high, original } => {
                        let turns = original * frequency / std::f64::consts::TAU;
                        let share = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                        frequency * (share + (1.0 - share) / factor)
                    }
                }
            })
            .collect()
    }

    /// The number of weights (scalars) of the whole model.
    pub fn parameters(&self) -> u64 {
        let mut count = 0u64;
        for (_, weight) in crate::Decoder::blueprint(self).weights() {
            count = count.saturating_add(match weight {
                Weight::Matrix([out, input]) => (out as u64).saturating_mul(input as u64),
                Weight::Vector(length) => length as u64,
            });
        }
        count
    }
}

/// The keys of the objects `rope_scaling` and `rope_parameters` that are read.
const ROTARY: [&str; 7] = [
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "original_max_position_embeddings",
];

fn scaling(rotary: &Fields<'_>) -> Result<RotaryScaling, LocalModelError> {
    let kind = match rotary.text("rope_type")? {
        Some(kind) => kind,
        None => rotary.text("type")?.unwrap_or("default"),
    };
    let used = match kind {
        "default" => 3,
        "linear" => 4,
        "llama3" => ROTARY.len(),
        other => {
            let other = clawhost_core::escaped(other, 80);
            return Err(LocalModelError::Config(format!(
                "rope_type is `{other}`; this version supports default, linear and llama3"
            )));
        }
    };
    let used = ROTARY.get(..used).unwrap_or_default();
    let whole = |value: &Value| value.is_null() || value == 1.0;
    let unknown = rotary.0.iter().find(|(name, value)| match name.as_str() {
        "partial_rotary_factor" => !whole(value),
        name => !value.is_null() && !used.contains(&name),
    });
    if let Some((name, value)) = unknown {
        let name = clawhost_core::escaped(name, 80);
        return Err(rotary.wrong(&name, value, &format!("rope_type `{kind}` does not use it")));
    }
    let needed = |name: &str| {
        rotary.number(name)?.ok_or_else(|| LocalModelError::Config(format!("rope_type `{kind}` needs {name}")))
    };
    match kind {
        "linear" => Ok(RotaryScaling::Linear(within("factor", needed("factor")?, FACTORS)?)),
        "llama3" => {
            let (factor, low, high) = (needed("factor")?, needed("low_freq_factor")?, needed("high_freq_factor")?);
            let original = needed("original_max_position_embeddings")?;
            if low >= high {
                let why = format!("low_freq_factor {low} is not below high_freq_factor {high}");
                return Err(LocalModelError::Config(why));
            }
            Ok(RotaryScaling::Llama3 { factor: within("factor", factor, FACTORS)?, low, high, original })
        }
        _ => Ok(RotaryScaling::None),
    }
}

/// Factors by which contexts are extended. Known ones are 2 to 32.
const FACTORS: std::ops::RangeInclusive<f64> = 1.0..=1e6;

/// A number that can be computed with: larger ones overflow, and answers would be uniform.
fn within(name: &str, number: f64, range: std::ops::RangeInclusive<f64>) -> Result<f64, LocalModelError> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(LocalModelError::Config(format!("{name} is {number}; {least} to {most:e} is computed with")))
}

fn end_tokens(object: &Map<String, Value>) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match object.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}
