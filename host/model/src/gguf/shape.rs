//! The shape of the model in a GGUF file, and the names of its tensors in Hugging Face's format.

use super::values::Values;
use crate::{LocalModelError, ModelConfig, RotaryScaling};
use serde_json::json;

/// The architectures that run here. Their names are the same in both formats.
const ARCHITECTURES: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// Keys behind the architecture that are read. Others may change results.
const READ: [&str; 17] = [
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "vocab_size",
];

/// The parameters of Llama 3.1 to 3.3, from which converters computed `rope_freqs.weight`: factors, with low and high frequency factors and the
/// original context, unless the file has that.
const LLAMA_3: [f64; 3] = [8.0, 32.0, 16.0];
pub(super) const LOW: f64 = 1.0;
pub(super) const HIGH: f64 = 4.0;
const ORIGINAL: f64 = 8192.0;
/// Largest relative distance of a factor in a file, which is an f32, from the one computed here.
const NEAR: f64 = 1e-4;

/// What is known of the tensors.
#[derive(Debug, Clone)]
pub(super) struct Seen<'a> {
    /// Rows of the embedding.
    pub(super) vocabulary: usize,
    /// Whether there is a head.
    pub(super) has_head: bool,
    /// Whether the queries of the first layer have a bias.
    pub(super) has_bias: bool,
    /// `rope_freqs.weight`.
    pub(super) factors: Option<&'a [f32]>,
}

fn wrong(why: String) -> LocalModelError {
    LocalModelError::Config(why)
}

/// The architecture.
pub(super) fn architecture<'a>(values: &Values<'a>) -> Result<&'a str, LocalModelError> {
    let name = values.text("general.architecture")?.unwrap_or_default();
    match ARCHITECTURES.contains(&name) {
        true => Ok(name),
        false => {
            let shown = clawhost_core::escaped(name, 80);
            Err(wrong(format!("general.architecture is `{shown}`; this version runs {}", ARCHITECTURES.join(", "))))
        }
    }
}

/// The shape, without tokens that end an answer.
///
/// # Errors
/// A value is missing, or one changes results in a way that is not computed.
pub(super) fn shape(values: &Values<'_>, seen: &Seen<'_>) -> Result<ModelConfig, LocalModelError> {
    let name = architecture(values)?;
    let unknown = values.0.keys().find(|key| {
        key.strip_prefix(name).and_then(|key| key.strip_prefix('.')).is_some_and(|key| !READ.contains(&key))
    });
    if let Some(key) = unknown {
        let shown = clawhost_core::escaped(key, 80);
        return Err(wrong(format!("{shown} is not understood; it may change results")));
    }
    let whole = |key: &str| values.whole(&format!("{name}.{key}"));
    let needed = |key: &str| whole(key)?.ok_or_else(|| wrong(format!("{name}.{key} is missing")));
    let (width, heads) = (needed("embedding_length")?, needed("attention.head_count")?);
    let head = match whole("attention.key_length")? {
        Some(width) => width,
        None => width.checked_div(heads).unwrap_or_default(),
    };
    for key in ["attention.value_length", "rope.dimension_count"] {
        if let Some(other) = whole(key)?.filter(|other| *other != head) {
            return Err(wrong(format!("{name}.{key} is {other}, and a head has a width of {head}")));
        }
    }
    if values.flag(&format!("{name}.attention.causal"))? == Some(false) {
        return Err(wrong(format!("{name}.attention.causal is false")));
    }
    let base = values.number(&format!("{name}.rope.freq_base"))?.unwrap_or(10_000.0);
    let mut rotary = json!({ "rope_type": "default", "rope_theta": base });
    let factor = values.number(&format!("{name}.rope.scaling.factor"))?;
    match values.text(&format!("{name}.rope.scaling.type"))? {
        // llama.cpp takes a factor without a type as a linear one; its converter writes both.
        None if factor.is_some() => return Err(wrong(format!("{name}.rope.scaling.factor is there without a type"))),
        None | Some("none") => {}
        Some("linear") if seen.factors.is_some() => {
            return Err(wrong("rope_freqs.weight and a linear scaling are there together".to_owned()));
        }
        Some("linear") => {
            rotary = json!({ "rope_type": "linear", "factor": factor, "rope_theta": base });
        }
        Some(other) => {
            let shown = clawhost_core::escaped(other, 80);
            return Err(wrong(format!("{name}.rope.scaling.type is `{shown}`; none and linear are computed")));
        }
    }
    let key = format!("{name}.attention.layer_norm_rms_epsilon");
    let epsilon = values.number(&key)?.ok_or_else(|| wrong(format!("{key} is missing")))?;
    let document = json!({
        "model_type": name, "vocab_size": seen.vocabulary, "hidden_size": width, "num_hidden_layers": needed("block_count")?,
        "num_attention_heads": heads, "num_key_value_heads": whole("attention.head_count_kv")?.unwrap_or(heads), "head_dim": head,
        "intermediate_size": needed("feed_forward_length")?, "max_position_embeddings": needed("context_length")?,
        "rope_parameters": rotary, "rms_norm_eps": epsilon,
        "tie_word_embeddings": !seen.has_head, "attention_bias": name != "qwen2" && seen.has_bias,
    });
    let mut config = ModelConfig::parse(&document.to_string())?;
    if let Some(factors) = seen.factors {
        let original = whole("rope.scaling.original_context_length")?.map(|original| original as f64);
        config.rotary_scaling = scaling(&config, factors, original)?;
    }
    Ok(config)
}

/// The scaling that has these factors for the wavelengths. The longest one has the whole factor.
pub(super) fn scaling(
    config: &ModelConfig,
    factors: &[f32],
    original: Option<f64>,
) -> Result<RotaryScaling, LocalModelError> {
    let plain = ModelConfig { rotary_scaling: RotaryScaling::None, ..config.clone() }.rotary_frequencies();
    let original = original.unwrap_or(ORIGINAL);
    let of = |factor| RotaryScaling::Llama3 { factor, low: LOW, high: HIGH, original };
    let own = factors.last().map(|factor| f64::from(*factor)).filter(|factor| *factor >= 1.0);
    let fits = |scaling: &RotaryScaling| {
        let scaled = ModelConfig { rotary_scaling: *scaling, ..config.clone() }.rotary_frequencies();
        let near =
            |((plain, scaled), factor): ((&f64, &f64), &f32)| (plain / scaled / f64::from(*factor) - 1.0).abs() < NEAR;
        plain.len() == factors.len() && plain.iter().zip(&scaled).zip(factors).all(near)
    };
    LLAMA_3
        .into_iter()
        .chain(own)
        .map(of)
        .find(fits)
        .ok_or_else(|| wrong("rope_freqs.weight has factors that are not those of Llama 3.1 to 3.3".to_owned()))
}

/// The names of a layer's parts.
const PARTS: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The name of a tensor in Hugging Face's format. `None`: these families have no such tensor.
pub(super) fn name(tensor: &str) -> Option<String> {
    match tensor {
        "token_embd.weight" => return Some("model.embed_tokens.weight".to_owned()),
        "output_norm.weight" => return Some("model.norm.weight".to_owned()),
        "output.weight" => return Some("lm_head.weight".to_owned()),
        _ => {}
    }
    let (layer, rest) = tensor.strip_prefix("blk.")?.split_once('.')?;
    // As it is written there: `00` is another name.
    let layer = layer.parse::<u32>().ok().filter(|number| number.to_string() == layer)?;
    let (part, ending) = rest.rsplit_once('.').filter(|(_, ending)| matches!(*ending, "weight" | "bias"))?;
    let (_, part) = PARTS.iter().find(|(known, _)| *known == part)?;
    Some(format!("model.layers.{layer}.{part}.{ending}"))
}

/// The name of a tensor in a GGUF file: the inverse of [`name`].
pub(super) fn tensor_of(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".to_owned()),
        "model.norm.weight" => return Some("output_norm.weight".to_owned()),
        "lm_head.weight" => return Some("output.weight".to_owned()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (part, ending) = rest.rsplit_once('.')?;
    let (part, _) = PARTS.iter().find(|(_, known)| *known == part)?;
    Some(format!("blk.{layer}.{part}.{ending}"))
}

/// Whether the rows of a head are in pairs of one frequency, as converters write queries and keys of this architecture. In Hugging Face's format the
/// first elements of all pairs come first.
pub(super) fn is_paired(architecture: &str, tensor: &str) -> bool {
    let parts = ["attn_q.weight", "attn_k.weight", "attn_q.bias", "attn_k.bias"];
    architecture == "llama"
        && tensor.split_once('.').is_some_and(|(_, rest)| parts.iter().any(|part| rest.ends_with(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_hugging_face() {
        let check = |tensor: &str, expect: Option<&str>| {
            assert_eq!(name(tensor).as_deref(), expect, "{tensor}");
            assert_eq!(expect.and_then(tensor_of), expect.map(|_| tensor.to_owned()));
        };
        check("token_embd.weight", Some("model.embed_tokens.weight"));
        check("blk.12.attn_q.bias", Some("model.layers.12.self_attn.q_proj.bias"));
        check("blk.0.attn_q_norm.weight", Some("model.layers.0.self_attn.q_norm.weight"));
        check("blk.0.ffn_gate_inp.weight", None);
        check("blk.x.attn_q.weight", None);
        check("blk.00.attn_q.weight", None);
        check("rope_freqs.weight", None);
        assert!(is_paired("llama", "blk.3.attn_k.weight") && is_paired("llama", "blk.3.attn_q.bias"));
        assert!(!is_paired("llama", "blk.3.attn_v.weight") && !is_paired("qwen2", "blk.3.attn_q.weight"));
        assert!(!is_paired("llama", "blk.3.attn_q_norm.weight"));
    }
}
