//! `clawhost model info`: what a model is.

use super::{print_json, read};
use crate::args::Common;
use crate::exit::{Exit, UsageError};
use clawhost_model::{AdapterFolder, LocalModelError, RotaryScaling, digest};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;

/// Bytes of a value while a model runs.
const VALUE_BYTES: u64 = 4;

/// As people wrote it: 0.6 in f32 is 0.6000000238 in f64.
fn plain(number: f32) -> Value {
    json!(number.to_string().parse::<f64>().unwrap_or_default())
}

pub(super) fn info(common: &Common, folder: &Path) -> anyhow::Result<Exit> {
    let model = read(folder, None)?;
    let (config, sampling) = (&model.config, &model.sampling);
    let unusable = |error: LocalModelError| UsageError(format!("{}: {error}", folder.display()));
    let tokenizer = model.tokenizer().map_err(unusable)?;
    let template =
        if model.template.is_some() { model.chat_template(&tokenizer).map(|_| true).map_err(unusable)? } else { false };
    let adapter = model.weights.has_adapter().then(|| AdapterFolder::of(&model.weights, "")).transpose()?;
    let parameters = config.parameters();
    let scaling = match config.rotary_scaling {
        RotaryScaling::None => Value::Null,
        RotaryScaling::Linear(factor) => json!({ "type": "linear", "factor": factor }),
        RotaryScaling::Llama3 { factor, .. } => json!({ "type": "llama3", "factor": factor }),
    };
    if common.json {
        return print_json(&json!({
            "folder": folder, "architecture": config.architecture.name(), "parameters": parameters,
            "memory_bytes": parameters * VALUE_BYTES,
            "shape": {
                "width": config.width, "layers": config.layers, "heads": config.heads,
                "key_value_heads": config.key_value_heads, "head_width": config.head_width,
                "mlp_width": config.mlp_width, "vocabulary": config.vocabulary, "tied": config.tied,
            },
            "context": config.context, "rotary_scaling": scaling,
            "tokenizer": { "tokens": tokenizer.size(), "end": config.end_tokens }, "chat_template": template,
            "sampling": {
                "temperature": plain(sampling.temperature), "top_k": sampling.top_k, "top_p": plain(sampling.top_p),
                "min_p": plain(sampling.min_p),
            },
            "adapter": adapter.map(|adapter| adapter.settings), "weights": digest(&model.weights),
        }));
    }
    let mut out = anstream::stdout();
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
    let mebibytes = (parameters * VALUE_BYTES) as f64 / f64::from(1 << 20);
    row("parameters", format!("{parameters}, {mebibytes:.1} MiB in memory (f32)"))?;
    row("context", format!("{} tokens", config.context))?;
    row(
        "tokenizer",
        format!(
            "{} tokens, ending with {:?}; embeddings for {}",
            tokenizer.size(),
            config.end_tokens,
            config.vocabulary
        ),
    )?;
    row("chat template", if template { "yes" } else { "none: it goes on with texts, and does not chat" }.to_owned())?;
    let top_k = sampling.top_k.map_or("all".to_owned(), |k| k.to_string());
    let (temperature, top_p, min_p) = (sampling.temperature, sampling.top_p, sampling.min_p);
    row("sampling", format!("temperature {temperature}, top-k {top_k}, top-p {top_p}, min-p {min_p}"))?;
    if let Some(adapter) = adapter {
        let (settings, targets) = (adapter.settings, adapter.settings.targets.names().collect::<Vec<_>>().join(", "));
        row("adapter", format!("rank {}, alpha {}, beside {targets}", settings.rank, settings.alpha))?;
    }
    row("weights", digest(&model.weights).to_string())?;
    Ok(Exit::Ok)
}
