//! The shape of a model as values of a GGUF file.

use super::file::Values;
use super::unheld;
use crate::gguf::shape::{HIGH, LOW, scaling};
use crate::{LocalModelError, ModelConfig, RotaryScaling};

/// Writes the sizes, and how positions become angles.
pub(super) fn shape(config: &ModelConfig, values: &mut Values) {
    let name = config.architecture.name();
    let sizes = [
        ("context_length", config.context),
        ("embedding_length", config.width),
        ("block_count", config.layers),
        ("feed_forward_length", config.mlp_width),
        ("attention.head_count", config.heads),
        ("attention.head_count_kv", config.key_value_heads),
        ("attention.key_length", config.head_width),
        ("attention.value_length", config.head_width),
        ("rope.dimension_count", config.head_width),
        ("vocab_size", config.vocabulary),
    ];
    for (key, size) in sizes {
        // Sizes are at most 2^24.
        values.whole(&format!("{name}.{key}"), u32::try_from(size).unwrap_or(u32::MAX));
    }
    values.float(&format!("{name}.attention.layer_norm_rms_epsilon"), config.norm_epsilon as f32);
    values.float(&format!("{name}.rope.freq_base"), config.rotary_base as f32);
    match config.rotary_scaling {
        RotaryScaling::None => {}
        RotaryScaling::Linear(factor) => {
            values.text(&format!("{name}.rope.scaling.type"), "linear");
            values.float(&format!("{name}.rope.scaling.factor"), factor as f32);
        }
        RotaryScaling::Llama3 { original, .. } => {
            values.whole(&format!("{name}.rope.scaling.original_context_length"), original as u32);
        }
    }
}

/// The numbers of `rope_freqs.weight`: what the wavelength of each pair is multiplied by. `None`: there is no such scaling.
///
/// # Errors
/// A reader could not tell the scaling from the factors.
pub(super) fn factors(config: &ModelConfig) -> Result<Option<Vec<f32>>, LocalModelError> {
    let RotaryScaling::Llama3 { low, high, original, .. } = config.rotary_scaling else { return Ok(None) };
    if (low, high) != (LOW, HIGH) {
        let why = "the scaling of positions has low_freq_factor";
        return Err(unheld(format!("{why} {low} and high_freq_factor {high}, where {LOW} and {HIGH} are known")));
    }
    let plain = ModelConfig { rotary_scaling: RotaryScaling::None, ..config.clone() }.rotary_frequencies();
    let scaled = plain.iter().zip(config.rotary_frequencies());
    let factors: Vec<f32> = scaled.map(|(plain, scaled)| (plain / scaled) as f32).collect();
    // A reader finds the scaling again from these numbers alone.
    if scaling(config, &factors, Some(original)).is_err() {
        return Err(unheld("the factors do not show the scaling of positions".to_owned()));
    }
    Ok(Some(factors))
}
