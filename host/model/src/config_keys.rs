//! The keys of `config.json`: which are read, which this program computes at one value only, and which change no result.
//!
//! transformers ignores a key that the class of a model does not know. A derived model may give it a meaning, though, so a key that is
//! unknown here is refused where its value can be one: a number, a true, a list or an object. `tests/transformers` changes every key of the
//! supported families, and compares the logits with those of transformers.

use crate::LocalModelError;
use crate::config::Architecture;
use clawhost_core::escaped;
use serde_json::{Map, Value};

/// A value at which a key has no effect. `null` and `false` always are such values.
#[derive(Debug, Clone, Copy)]
enum Neutral {
    Number(f64),
    True,
    Text(&'static str),
    /// An empty list or object.
    Empty,
}

impl Neutral {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::Number(number) => value.as_f64() == Some(number),
            Self::True => value == &Value::Bool(true),
            Self::Text(text) => value.as_str() == Some(text),
            Self::Empty => value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty),
        }
    }
}

/// Keys that `ModelConfig::parse` reads, or that this file compares with others.
const READ: [&str; 23] = [
    "attention_bias",
    "eos_token_id",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "use_sliding_window",
    "vocab_size",
];

/// Keys that change no logits, with any value.
const FREE: [&str; 49] = [
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "decoder_start_token_id",
    "do_sample",
    "dtype",
    "diversity_penalty",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_max_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "top_k",
    "top_p",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "use_cache",
];

/// The same for all keys with these beginnings: notes of transformers, and of a tool.
const FREE_BEGINNINGS: [&str; 2] = ["_", "unsloth_"];

/// Keys that change what is computed, in transformers or in models that derive from these families. Beside `null` and `false` they may have the
/// neutral value alone.
const ONLY: [(&str, Option<Neutral>); 44] = [
    ("activation_function", Some(Neutral::Text("silu"))),
    ("add_cross_attention", None),
    ("alibi", None),
    ("attention_multiplier", None),
    ("attn_logit_softcapping", None),
    ("auto_map", Some(Neutral::Empty)),
    ("compression_config", Some(Neutral::Empty)),
    ("cross_attention_hidden_size", None),
    ("embedding_multiplier", Some(Neutral::Number(1.0))),
    ("final_logit_softcapping", None),
    ("hidden_activation", Some(Neutral::Text("silu"))),
    ("hidden_dropout", Some(Neutral::Number(0.0))),
    ("is_causal", Some(Neutral::True)),
    ("is_decoder", Some(Neutral::True)),
    ("is_encoder_decoder", None),
    ("layer_norm_eps", None),
    ("logit_scale", Some(Neutral::Number(1.0))),
    ("logits_scaling", Some(Neutral::Number(1.0))),
    ("mlp_only_layers", Some(Neutral::Empty)),
    ("mrope_section", Some(Neutral::Empty)),
    ("no_rope_layers", Some(Neutral::Empty)),
    ("no_rope_layer_interval", None),
    ("norm_type", Some(Neutral::Text("rmsnorm"))),
    ("num_experts", None),
    ("num_local_experts", None),
    ("original_max_position_embeddings", None),
    ("output_router_logits", None),
    ("parallel_attn", None),
    ("partial_rotary_factor", Some(Neutral::Number(1.0))),
    ("per_layer_config", Some(Neutral::Empty)),
    ("position_embedding_type", Some(Neutral::Text("rope"))),
    ("pruned_heads", Some(Neutral::Empty)),
    ("qk_layernorm", None),
    ("quantization", Some(Neutral::Empty)),
    ("quantization_config", Some(Neutral::Empty)),
    ("query_pre_attn_scalar", None),
    ("residual_multiplier", Some(Neutral::Number(1.0))),
    ("rope_interleaved", None),
    ("rope_local_base_freq", None),
    ("rotary_pct", Some(Neutral::Number(1.0))),
    ("tie_encoder_decoder", None),
    ("use_bidirectional_attention", None),
    ("use_mrope", None),
    ("use_qk_norm", None),
];

/// What an error says beside the key and its value.
fn why(name: &str) -> &'static str {
    match name {
        "quantization_config" | "quantization" | "compression_config" => {
            "the weights are quantised in a way that this version does not read; use the folder with weights in bf16, f16 or f32"
        }
        "auto_map" => "the model brings code of its own, which is not run; use a model without it",
        _ => "the model computes something that this version does not",
    }
}

/// The beginning of a value in an error.
const SHOWN: usize = 80;

fn refused(name: &str, value: &Value, why: &str) -> LocalModelError {
    LocalModelError::Config(format!("{} is {}: {why}", escaped(name, SHOWN), escaped(&value.to_string(), SHOWN)))
}

/// Checks all keys of a `config.json`.
///
/// # Errors
/// A key has a value that changes results and that this version does not compute, or nobody here knows it.
pub(crate) fn check(config: &Map<String, Value>, architecture: Architecture) -> Result<(), LocalModelError> {
    for (name, value) in config {
        let known = |names: &[&str]| names.contains(&name.as_str());
        if known(&READ) || known(&FREE) {
            continue;
        }
        if value.is_null() || value == &Value::Bool(false) {
            continue;
        }
        if let Some((_, neutral)) = ONLY.iter().find(|(only, _)| only == name) {
            match neutral.is_some_and(|neutral| neutral.is(value)) {
                true => continue,
                false => return Err(refused(name, value, why(name))),
            }
        }
        let noted = FREE_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
        if !noted && !value.is_string() {
            let why = "nobody here knows this key; if it changes no result, remove it from the file";
            return Err(refused(name, value, why));
        }
    }
    windows(config, architecture)
}

/// Checks that no layer has a sliding window that is shorter than the context.
fn windows(config: &Map<String, Value>, architecture: Architecture) -> Result<(), LocalModelError> {
    let number = |name: &str| config.get(name).and_then(Value::as_u64);
    if let Some(types) = config.get("layer_types").filter(|types| !types.is_null()) {
        let full = |one: &Value| one == "full_attention";
        let layers = types.as_array().filter(|types| number("num_hidden_layers") == Some(types.len() as u64));
        if !layers.is_some_and(|types| types.iter().all(full)) {
            let why = "this version computes `full_attention` in every layer";
            return Err(refused("layer_types", types, why));
        }
        // Windows are of layers that are called otherwise.
        return Ok(());
    }
    let on = match config.get("use_sliding_window") {
        None | Some(Value::Null) => architecture == Architecture::Llama,
        Some(Value::Bool(on)) => *on,
        Some(other) => return Err(refused("use_sliding_window", other, "expected true or false")),
    };
    let Some(window) = config.get("sliding_window").filter(|window| on && !window.is_null()) else {
        return match on && architecture != Architecture::Llama && !config.contains_key("sliding_window") {
            // transformers' default is shorter than most contexts.
            true => Err(refused("use_sliding_window", &Value::Bool(true), "sliding_window is missing")),
            false => Ok(()),
        };
    };
    let wide = match (window.as_u64(), number("max_position_embeddings")) {
        (Some(window), Some(context)) => window >= context,
        _ => false,
    };
    // Layers from `max_window_layers` on have the window. A Llama of transformers has none; one that names it was made for something else.
    let unused = architecture != Architecture::Llama
        && matches!((number("max_window_layers"), number("num_hidden_layers")), (Some(first), Some(layers)) if first >= layers);
    match wide || unused {
        true => Ok(()),
        false => Err(refused("sliding_window", window, "sliding windows are not computed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(architecture: Architecture, more: Value) -> Result<(), String> {
        let mut config = json!({ "num_hidden_layers": 2, "max_position_embeddings": 512 });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check(config.as_object().unwrap(), architecture).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_that_change_results_are_refused_and_others_are_not() {
        let check = |more: Value, expect: &str| {
            let found = checked(Architecture::Llama, more.clone());
            match expect {
                "" => assert_eq!(found, Ok(()), "{more}"),
                expect => assert!(found.clone().is_err_and(|error| error.contains(expect)), "{more}: {found:?}"),
            }
        };
        check(json!({ "pretraining_tp": 4, "use_cache": true, "_name_or_path": ["x"], "unsloth_fixed": true }), "");
        check(json!({ "logit_scale": 1, "partial_rotary_factor": 1.0, "auto_map": {}, "pruned_heads": {} }), "");
        check(json!({ "logit_scale": 2 }), "config.json: logit_scale is 2: the model computes something");
        check(json!({ "quantization_config": { "bits": 4 } }), "quantised in a way");
        check(json!({ "auto_map": { "AutoModel": "m.M" } }), "code of its own");
        check(json!({ "is_causal": true }), "");
        check(json!({ "use_mrope": true }), "use_mrope is true");
        check(json!({ "new_note": "text", "new_flag": false, "new_nothing": null }), "");
        for value in [json!(true), json!(0.5), json!([1]), json!({ "a": 1 })] {
            check(json!({ "new\nkey": value }), "config.json: new\\nkey is ");
        }
    }

    #[test]
    fn a_sliding_window_is_refused_where_a_layer_would_use_it() {
        use Architecture::{Llama, Qwen3};
        let check = |architecture, more: Value, expect: bool| {
            assert_eq!(checked(architecture, more.clone()).is_ok(), expect, "{more}");
        };
        let window = |on: Value, window: Value, first: u64| json!({ "use_sliding_window": on, "sliding_window": window, "max_window_layers": first });
        check(Qwen3, window(json!(false), json!(64), 0), true);
        check(Qwen3, window(json!(true), json!(64), 2), true);
        check(Qwen3, window(json!(true), json!(64), 1), false);
        check(Qwen3, window(json!(true), json!(512), 1), true);
        check(Qwen3, window(json!(true), Value::Null, 0), true);
        check(Qwen3, window(json!("true"), json!(64), 2), false);
        check(Qwen3, json!({ "use_sliding_window": true }), false);
        check(Llama, json!({ "sliding_window": 64 }), false);
        check(Llama, json!({ "sliding_window": null }), true);
        check(Qwen3, json!({ "layer_types": ["full_attention", "full_attention"] }), true);
        check(Qwen3, json!({ "layer_types": ["full_attention", "sliding_attention"] }), false);
        check(Qwen3, json!({ "layer_types": ["full_attention"] }), false);
        check(Qwen3, json!({ "layer_types": "full_attention" }), false);
    }
}
