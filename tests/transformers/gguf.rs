//! GGUF files that the package `gguf` and llama.cpp's quantiser wrote, compared with what transformers computes with their numbers; and files that are
//! written here, for llama.cpp. `make_gguf.py` makes the former and reads the latter.

use crate::{numbers, on_processor, worst};
use clawhost_model::tokens::TextHost;
use clawhost_model::{
    AdapterSettings, Dtype, GgufNumbers, HostDecoder, HostMatrix, ModelConfig, ModelFolder, Weight, digest,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest difference of a logit: both sides compute in f32, in another order.
const LIMIT: f32 = 2e-5;
/// The same as a share of the largest logit, where inputs of products are rounded to 8 bits, and weights of the K formats once more. Random weights are the
/// worst case: nothing in them stands out of its block.
const ROUNDED: f64 = 0.06;

fn folder() -> PathBuf {
    crate::reference("gguf")
}

fn expected() -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join("expected.json")).unwrap()).unwrap()
}

fn read(path: &Path, dtype: Option<Dtype>) -> ModelFolder {
    ModelFolder::read_as(path, &TextHost::InProcess, dtype).unwrap()
}

#[test]
fn gguf_files_give_the_logits_of_their_numbers() {
    for (name, case) in expected().as_object().unwrap() {
        let path = folder().join(format!("{name}.gguf"));
        let tokens = numbers(&case["tokens"]);
        let far = |dtype| {
            let model = read(&path, dtype);
            let config = Arc::new(model.config);
            (worst(&on_processor(&config, &model.weights, &tokens), case, config.vocabulary), model.weights)
        };
        let (plain, _) = far(Some(Dtype::F32));
        let (kept, weights) = far(None);
        let (rounded, _) = far(Some(Dtype::Int8));
        println!("{name}: f32 {plain:e}, as stored ({}) {kept:e}, int8 {rounded:e}", weights.embedding.dtype().name());
        assert!(plain < LIMIT, "{name}: {plain:e}");
        let rows = case["logits"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
        let largest = rows.map(|logit| logit.as_f64().unwrap().abs()).fold(0.0, f64::max);
        let rounds = |weight: &Weight<HostMatrix, Arc<[f32]>>| matches!(weight, Weight::Matrix(one) if one.dtype() == Dtype::Int8);
        let any = weights.weights().iter().any(|(_, weight)| rounds(weight));
        let limit = if any { (ROUNDED * largest) as f32 } else { LIMIT };
        assert!(kept < limit, "{name}: {kept:e} of {largest}");
        if name.ends_with("_k") {
            assert!(f64::from(rounded) < ROUNDED * largest, "{name}: {rounded:e} of {largest}");
        }
    }
}

#[test]
fn tokenizer_template_and_words_of_a_gguf_file_are_those_that_it_was_made_from() {
    for (name, case) in expected().as_object().unwrap() {
        let model = read(&folder().join(format!("{name}.gguf")), None);
        let texts = model.texts().unwrap();
        for one in case["texts"].as_array().unwrap() {
            let text = one["text"].as_str().unwrap();
            assert_eq!(texts.tokenizer.encode(text).unwrap(), numbers(&one["tokens"]), "{name}: {text:?}");
        }
        let words: std::collections::BTreeMap<String, String> = serde_json::from_value(case["words"].clone()).unwrap();
        assert_eq!(model.words, words, "{name}");
        let family = if name.starts_with("llama") { "llama" } else { "qwen3" };
        let template =
            std::fs::read_to_string(crate::reference("../templates").join(format!("{family}.jinja"))).unwrap();
        assert_eq!(model.template.as_deref(), Some(template.as_str()), "{name}");
        let other = if family == "llama" { "<|end_of_text|>" } else { "<|endoftext|>" };
        let ends = [words["eos_token"].as_str(), other].map(|word| texts.tokenizer.token(word).unwrap().unwrap());
        assert_eq!(model.config.end_tokens, ends, "{name}");
        let whole = texts.tokenizer.encode_whole("Hi").unwrap();
        let beginning = words.get("bos_token").map(|word| texts.tokenizer.token(word).unwrap().unwrap());
        assert_eq!(whole.first().copied().filter(|_| beginning.is_some()), beginning, "{name}");
    }
}

#[test]
fn blocks_of_gguf_are_kept_as_they_are_by_int8() {
    for (name, exact) in [("qwen3-q8_0", true), ("llama-q8_0", true), ("qwen2-q4_0", true)] {
        let path = folder().join(format!("{name}.gguf"));
        let (kept, plain) = (read(&path, None), read(&path, Some(Dtype::F32)));
        assert_eq!(kept.weights.embedding.dtype(), Dtype::Int8);
        let same = kept.weights.kept_as(Dtype::F32).unwrap();
        assert_eq!(digest(&same) == digest(&plain.weights), exact, "{name}");
    }
}

#[test]
fn the_folder_of_a_gguf_file_is_that_model_and_export_writes_it_for_transformers() {
    let place = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join("llama-f16.gguf"), place.path().join("any.gguf")).unwrap();
    let model = read(place.path(), None);
    assert!(ModelFolder::is_one(place.path()).unwrap());
    let out = tempfile::tempdir().unwrap();
    model.write(out.path()).unwrap();
    let again = read(out.path(), None);
    assert_eq!(digest(&again.weights), digest(&model.weights));
    assert_eq!((&again.config, &again.words, &again.template), (&model.config, &model.words, &model.template));
}

#[test]
fn damaged_gguf_files_are_refused_by_name() {
    let refused = |name: &str, change: &dyn Fn(&mut Vec<u8>), expect: &str| {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("changed.gguf");
        let mut bytes = std::fs::read(folder().join(format!("{name}.gguf"))).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let error = ModelFolder::read(&path, &TextHost::InProcess).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let replace = |from: &'static str, to: &'static str| {
        move |bytes: &mut Vec<u8>| {
            assert_eq!(from.len(), to.len());
            let place = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
            bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
        }
    };
    // The type of a tensor is the number behind its name, its count of dimensions and the dimensions.
    let kind = |tensor: &'static str, kind: u32| {
        move |bytes: &mut Vec<u8>| {
            let place = bytes.windows(tensor.len()).position(|part| part == tensor.as_bytes()).unwrap() + tensor.len();
            let at = place + 4 + 2 * 8;
            bytes[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        }
    };
    refused("qwen3-q8_0", &|bytes| bytes.truncate(bytes.len() - 64), "it ends inside of the tensor");
    refused("qwen3-q8_0", &|bytes| bytes.truncate(500), "ends early");
    refused("qwen3-q8_0", &|bytes| bytes[4] = 9, "version 9 of the format");
    refused(
        "qwen3-q8_0",
        &kind("blk.0.attn_q.weight", 13),
        "q_proj.weight is stored as Q5_K; F32, F16, BF16, and of GGUF",
    );
    refused("qwen3-q8_0", &kind("blk.0.attn_q.weight", 99), "the type 99 of ggml");
    refused("qwen3-q8_0", &kind("blk.0.attn_q.weight", 12), "is not made of whole blocks");
    refused("qwen3-q8_0", &replace("qwen3.block_count", "qwen3.block_cound"), "qwen3.block_cound is not understood");
    refused("qwen3-q8_0", &replace("blk.0.attn_q.weight", "blk.0.attn_x.weight"), "q_proj.weight is in no file");
    refused("qwen3-q8_0", &replace("tokenizer.ggml.pre", "tokenizer.ggml.prx"), "tokenizer.ggml.prx is not understood");
    refused("qwen3-q8_0", &replace("tokenizer.ggml.token_type", "tokenizer.ggml.x_token_id"), "token_type is missing");
    refused("qwen3-q8_0", &replace("blk.1.attn_k.weight", "blk.1.attn_v.weight"), "v_proj.weight is there twice");
    refused(
        "qwen3-q8_0",
        &replace("qwen3.rope.freq_base", "qwen3.rope.scaling.x"),
        "qwen3.rope.scaling.x is not understood",
    );
    refused("llama-f16", &replace("llama-bpe", "tekken-bp"), "tokenizer.ggml.pre is `tekken-bp`");
    refused(
        "qwen3-q8_0",
        &replace("general.architecture\u{8}", "general.architecturx\u{8}"),
        "general.architecture is ``; this version runs",
    );
    let not_a_number = |bytes: &mut Vec<u8>| {
        let behind =
            |name: &str| bytes.windows(name.len()).position(|part| part == name.as_bytes()).unwrap() + name.len();
        // Behind a name are the count of dimensions, the dimensions, the type and the offset. The norm is the last tensor.
        let start = (behind("output_norm.weight") + 4 + 8 + 4 + 8).next_multiple_of(32);
        let of_embedding = behind("token_embd.weight") + 4 + 16 + 4;
        let offset = u64::from_le_bytes(bytes[of_embedding..of_embedding + 8].try_into().unwrap()) as usize;
        bytes[start + offset..start + offset + 2].copy_from_slice(&[0, 0x7e]);
    };
    refused("qwen3-q8_0", &not_a_number, "embed_tokens.weight holds a value that is not finite");
}

/// The most likely next token, again and again.
fn greedy(config: &Arc<ModelConfig>, weights: &HostDecoder, tokens: &[u32], count: usize) -> Vec<u32> {
    let mut all = tokens.to_vec();
    for _ in 0..count {
        let logits = on_processor(config, weights, &all);
        let last = &logits[(all.len() - 1) * config.vocabulary..];
        let best = (0..last.len()).max_by(|one, other| last[*one].total_cmp(&last[*other])).unwrap();
        all.push(best as u32);
    }
    all.split_off(tokens.len())
}

/// For `make_gguf.py --ours`: what is computed here with a file of ours, or with an adapter beside it.
fn computed(path: &Path, model: &ModelFolder, weights: &HostDecoder, limit: f64, more: Value) {
    let (config, text) = (Arc::new(model.config.clone()), "Hello, world! It's 1234.");
    let tokens: Vec<u32> = (0..20).map(|place| (place * 37 + 11) % 300).collect();
    let (logits, places) = (on_processor(&config, weights, &tokens), [0, 9, 19]);
    let rows: Vec<&[f32]> =
        places.iter().map(|place| &logits[place * config.vocabulary..][..config.vocabulary]).collect();
    let mut said = json!({
        "text": text, "text_tokens": model.texts().unwrap().tokenizer.encode(text).unwrap(), "tokens": tokens,
        "places": places, "logits": rows, "answer": greedy(&config, weights, &tokens, 12), "limit": limit,
    });
    said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    std::fs::write(path.with_extension("json"), said.to_string()).unwrap();
}

/// Files for llama.cpp to load. `cargo xtask transformers` sets the folder.
#[test]
fn models_and_adapters_are_written_as_gguf_files_for_llama_cpp() {
    let temporary = tempfile::tempdir().unwrap();
    let root = std::env::var_os("CLAWHOST_TRANSFORMERS_OUT").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let root = root.join("gguf");
    std::fs::create_dir_all(&root).unwrap();
    // llama.cpp rounds inputs of products with 16 bits and 8 bits.
    for (numbers, limit) in
        [(GgufNumbers::F32, 1e-4), (GgufNumbers::F16, 0.01), (GgufNumbers::BF16, 0.05), (GgufNumbers::Q8_0, 0.15)]
    {
        for name in crate::MODELS {
            let path = root.join(format!("{name}-{}.gguf", numbers.name()));
            crate::read(name).write_gguf(&path, name, numbers).unwrap();
            let model = read(&path, Some(Dtype::F32));
            computed(&path, &model, &model.weights, limit, json!({}));
        }
    }
    for name in ["llama", "qwen3"] {
        let mut model = crate::read(name);
        let path = root.join(format!("{name}-with-adapter.gguf"));
        model.write_gguf(&path, name, GgufNumbers::F32).unwrap();
        model.weights =
            AdapterSettings { rank: 4, alpha: 6.0, ..AdapterSettings::default() }.attach(&model.weights).unwrap();
        for block in &mut model.weights.blocks {
            for (_, projection) in block.projections_mut() {
                let low = projection.adapter.as_mut().unwrap();
                let values = (0..low.b.count()).map(|place| ((place * 7 % 11) as f32 - 5.0) * 0.02).collect();
                low.b = HostMatrix::new("b", low.b.shape, values).unwrap();
            }
        }
        let adapter = format!("{name}-adapter.gguf");
        model.write_gguf_adapter(&root.join(&adapter), name, GgufNumbers::F32).unwrap();
        computed(&path, &model, &model.weights, 1e-4, json!({ "lora": adapter }));
    }
}
