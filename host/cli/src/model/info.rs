//! `clawhost model info`: describes a model.

use super::{notes, print_json};
use crate::context::{Context, texts};
use crate::exit::Exit;
use clawhost_app::local_models::{Dtype, LocalSource, ModelDescription, RotaryScaling, describe_model};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;

/// In its shortest digits: 0.6 in f32 is 0.6000000238 in f64.
fn plain(number: f32) -> Value {
    json!(number.to_string().parse::<f64>().unwrap_or_default())
}

pub(super) fn info(context: &Context, folder: &Path, dtype: Option<Dtype>) -> anyhow::Result<Exit> {
    let described = describe_model(LocalSource { dtype, ..LocalSource::new(folder) }, &texts()?, &notes(context))?;
    let ModelDescription { config, sampling, parameters, memory_bytes, tokens, adapter, weights, .. } = &described;
    let scaling = match config.rotary_scaling {
        RotaryScaling::None => Value::Null,
        RotaryScaling::Linear(factor) => json!({ "type": "linear", "factor": factor }),
        RotaryScaling::Llama3 { factor, .. } => json!({ "type": "llama3", "factor": factor }),
    };
    if context.json() {
        return print_json(&json!({
            "folder": folder, "architecture": config.architecture.name(), "parameters": parameters,
            "memory_bytes": memory_bytes, "dtype": described.dtype.name(),
            "shape": {
                "width": config.width, "layers": config.layers, "heads": config.heads,
                "key_value_heads": config.key_value_heads, "head_width": config.head_width,
                "mlp_width": config.mlp_width, "vocabulary": config.vocabulary, "tied": config.tied,
            },
            "context": config.context, "rotary_scaling": scaling,
            "tokenizer": { "tokens": tokens, "end": config.end_tokens },
            "chat_template": described.has_chat_template,
            "sampling": {
                "temperature": plain(sampling.temperature), "top_k": sampling.top_k, "top_p": plain(sampling.top_p),
                "min_p": plain(sampling.min_p),
            },
            "adapter": adapter, "weights": weights,
        }));
    }
    let mut out = crate::terminal::stdout();
    let mut row = |name: &str, told: String| writeln!(out, "{name:<14} {told}");
    row("architecture", config.architecture.name().to_owned())?;
    let (heads, shared) = (config.heads, config.key_value_heads);
    row(
        "shape",
        format!(
            "{} layers of width {}, {heads} heads of {} ({shared} for keys and values), MLP {}",
            config.layers, config.width, config.head_width, config.mlp_width
        ),
    )?;
    let mebibytes = *memory_bytes as f64 / f64::from(1 << 20);
    row("parameters", format!("{parameters}, {mebibytes:.1} MiB in memory ({})", described.dtype.name()))?;
    row("context", format!("{} tokens", config.context))?;
    row(
        "tokenizer",
        format!("{tokens} tokens, ending with {:?}; embeddings for {}", config.end_tokens, config.vocabulary),
    )?;
    let template = if described.has_chat_template { "yes" } else { "none: it completes texts, and does not chat" };
    row("chat template", template.to_owned())?;
    let top_k = sampling.top_k.map_or("all".to_owned(), |k| k.to_string());
    let (temperature, top_p, min_p) = (sampling.temperature, sampling.top_p, sampling.min_p);
    row("sampling", format!("temperature {temperature}, top-k {top_k}, top-p {top_p}, min-p {min_p}"))?;
    if let Some(adapter) = adapter {
        let targets = adapter.targets.names().collect::<Vec<_>>().join(", ");
        row("adapter", format!("rank {}, alpha {}, on {targets}", adapter.rank, adapter.alpha))?;
    }
    row("weights", weights.to_string())?;
    Ok(Exit::Ok)
}
