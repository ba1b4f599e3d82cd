//! What is written, compared with what the package `gguf` and llama.cpp's converter write, and with what is read again.

use super::*;
use crate::gguf::header::{GgufValue, Header};
use crate::tokens::TextHost;
use crate::{AdapterSettings, Architecture, Dtype, HostDecoder, TinyModel, digest, gguf, initial};
use clawhost_core::Digest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

const MODELS: [&str; 3] = ["llama", "qwen2", "qwen3"];
const ALL: [GgufNumbers; 4] = [GgufNumbers::F32, GgufNumbers::F16, GgufNumbers::BF16, GgufNumbers::Q8_0];

fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transformers/reference").join(name)
}

fn model(path: &Path) -> ModelFolder {
    ModelFolder::read(path, &TextHost::InProcess).unwrap()
}

/// The file of a model, in a folder that lasts as long.
fn written(model: &ModelFolder, numbers: GgufNumbers) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    model.write_gguf(&path, "a model", numbers).unwrap();
    (folder, path)
}

/// Values, and the tensors by name: type, shape and bytes.
fn parts(path: &Path) -> (BTreeMap<String, GgufValue>, BTreeMap<String, (u32, Vec<usize>, Vec<u8>)>) {
    let header = Header::read(path, &std::fs::File::open(path).unwrap()).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let mut tensors = BTreeMap::new();
    for tensor in header.tensors {
        let start = (header.start + tensor.offset) as usize;
        let length = gguf::format(tensor.kind).unwrap().bytes(&tensor.shape).unwrap() as usize;
        tensors.insert(tensor.name, (tensor.kind, tensor.shape, bytes[start..start + length].to_vec()));
    }
    (header.values, tensors)
}

/// The numbers of a format as they are when the file is read as f32.
fn rounded(weights: &HostDecoder, numbers: GgufNumbers) -> HostDecoder {
    let dtype = match numbers {
        GgufNumbers::F32 => Dtype::F32,
        GgufNumbers::F16 => Dtype::F16,
        GgufNumbers::BF16 => Dtype::BF16,
        GgufNumbers::Q8_0 => Dtype::Int8,
    };
    weights.kept_as(Dtype::F32).unwrap().kept_as(dtype).unwrap().kept_as(Dtype::F32).unwrap()
}

#[test]
fn tensors_and_values_are_those_that_the_package_gguf_writes() {
    let text = std::fs::read_to_string(reference("gguf/written.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let kinds = |kind: u32| ["F32", "F16", "Q8_0", "BF16"][[0, 1, 8, 30].iter().position(|one| *one == kind).unwrap()];
    for name in MODELS {
        let model = model(&reference(name));
        for numbers in ALL {
            let (_folder, path) = written(&model, numbers);
            let (values, mut tensors) = parts(&path);
            if let Some(factors) = expected[name]["factors"].as_array() {
                let (_, _, bytes) = tensors.remove(FACTORS).unwrap();
                for (bytes, right) in bytes.as_chunks::<4>().0.iter().zip(factors) {
                    assert!((f64::from(f32::from_le_bytes(*bytes)) - right.as_f64().unwrap()).abs() < 1e-5);
                }
            }
            let found: BTreeMap<String, Value> = tensors
                .iter()
                .map(|(name, (kind, shape, bytes))| {
                    (name.clone(), json!([kinds(*kind), shape, Digest::of(bytes).hex()]))
                })
                .collect();
            assert_eq!(json!(found), expected[name]["tensors"][numbers.name()], "{name} as {}", numbers.name());
            let list = |all: Vec<String>| json!(Digest::of(all.join("\n").as_bytes()).hex());
            for (key, right) in expected[name]["values"].as_object().unwrap() {
                let found = match &values[key] {
                    GgufValue::Whole(whole) => json!(*whole as u64),
                    GgufValue::Float(number) => json!(number),
                    GgufValue::Flag(flag) => json!(flag),
                    GgufValue::Text(text) => json!(text),
                    GgufValue::Texts(texts) => list(texts.clone()),
                    GgufValue::Numbers(numbers) => list(numbers.iter().map(i64::to_string).collect()),
                    GgufValue::List(length) => json!(length),
                };
                assert_eq!(&found, right, "{name}: {key}");
            }
        }
    }
}

#[test]
fn a_file_of_the_package_gguf_is_written_again_with_equal_tensors() {
    for (name, numbers) in [
        ("llama-f16", GgufNumbers::F16),
        ("llama-q8_0", GgufNumbers::Q8_0),
        ("qwen2-bf16", GgufNumbers::BF16),
        ("qwen3-q8_0", GgufNumbers::Q8_0),
    ] {
        let place = reference(&format!("gguf/{name}.gguf"));
        let (_folder, path) = written(&model(&place), numbers);
        let (mut found, mut expected) = (parts(&path).1, parts(&place).1);
        // Computed in another order; the other test compares its numbers.
        assert_eq!(found.remove(FACTORS).is_some(), expected.remove(FACTORS).is_some());
        assert!(found == expected, "{name}");
    }
}

#[test]
fn what_is_written_is_read_again_with_equal_numbers_tokens_templates_and_ends() {
    for name in MODELS {
        let source = model(&reference(name));
        for numbers in ALL {
            let (_folder, path) = written(&source, numbers);
            let read = ModelFolder::read_as(&path, &TextHost::InProcess, Some(Dtype::F32)).unwrap();
            if numbers != GgufNumbers::Q8_0 {
                assert_eq!(digest(&read.weights), digest(&rounded(&source.weights, numbers)), "{name} as {numbers:?}");
            }
            assert_eq!(read.config.rotary_scaling, source.config.rotary_scaling, "{name}");
            assert_eq!((&read.template, &read.words), (&source.template, &source.words), "{name}");
            let [ends, expected] = [&read, &source].map(|model| {
                let mut ends = model.config.end_tokens.clone();
                ends.sort_unstable();
                ends
            });
            assert!(expected.iter().all(|end| ends.contains(end)), "{name}: {ends:?}, {expected:?}");
            let (one, other) = (read.texts().unwrap().tokenizer, source.texts().unwrap().tokenizer);
            for text in ["Hello  world, it's 12345 o'clock!\n\n", "<|im_start|>user\nHi<|eot_id|>", "né\u{301} ←  \t x"]
            {
                assert_eq!(one.encode_whole(text).unwrap(), other.encode_whole(text).unwrap(), "{name}: {text:?}");
            }
            read.check().unwrap();
        }
    }
}

#[test]
fn biases_of_queries_and_keys_are_written_in_pairs_in_llama_alone() {
    for architecture in [Architecture::Llama, Architecture::Qwen2] {
        let mut source = model(&reference("qwen2"));
        source.config.architecture = architecture;
        source.config.output_bias = architecture == Architecture::Llama;
        let numbered = |length: &usize| (0..*length).map(|place| place as f32).collect();
        source.weights = crate::Decoder::blueprint(&source.config).map(
            &mut |_, shape| crate::HostMatrix::of_rows(*shape, vec![0.0; shape[0] * shape[1]].into()),
            &mut |_, length| numbered(length),
        );
        let (_folder, path) = written(&source, GgufNumbers::F32);
        let (_, _, bytes) = parts(&path).1.remove("blk.0.attn_q.bias").unwrap();
        let first: Vec<f32> = bytes.as_chunks::<4>().0.iter().take(4).map(|one| f32::from_le_bytes(*one)).collect();
        let paired = [0.0, 4.0, 1.0, 5.0];
        let expect = if architecture == Architecture::Llama { paired } else { [0.0, 1.0, 2.0, 3.0] };
        assert_eq!((source.config.head_width, first.as_slice()), (8, &expect[..]), "{architecture:?}");
        let read = ModelFolder::read(&path, &TextHost::InProcess).unwrap();
        assert_eq!(digest(&read.weights), digest(&source.weights), "{architecture:?}");
    }
}

#[test]
fn an_adapter_is_written_alone_with_its_rows_of_queries_and_keys_in_pairs() {
    for name in ["llama", "qwen3"] {
        let mut source = model(&reference(name));
        source.weights =
            AdapterSettings { rank: 4, alpha: 6.0, ..AdapterSettings::default() }.attach(&source.weights).unwrap();
        let mut adapter = AdapterFolder::of(&source.weights, "").unwrap();
        adapter.shake();
        source.weights = adapter.attach(&source.weights).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adapter.gguf");
        source.write_gguf_adapter(&path, "an adapter", GgufNumbers::F32).unwrap();
        let (values, tensors) = parts(&path);
        let text = |text: &str| GgufValue::Text(text.to_owned());
        for (key, expect) in [
            ("general.architecture", text(name)),
            ("general.type", text("adapter")),
            ("adapter.type", text("lora")),
            ("adapter.lora.alpha", GgufValue::Float(6.0)),
        ] {
            assert_eq!(values[key], expect, "{name}: {key}");
        }
        assert_eq!(tensors.len(), 2 * 7 * source.config.layers);
        let query = source.weights.blocks[0].query.adapter.clone().unwrap();
        let floats = |name: &str| -> (Vec<usize>, Vec<f32>) {
            let (_, shape, bytes) = &tensors[name];
            (shape.clone(), bytes.as_chunks::<4>().0.iter().map(|one| f32::from_le_bytes(*one)).collect())
        };
        assert_eq!(floats("blk.0.attn_q.weight.lora_a"), (query.a.shape.to_vec(), query.a.values().into_owned()));
        let (shape, rows) = floats("blk.0.attn_q.weight.lora_b");
        assert_eq!(shape, query.b.shape);
        // The second row of the file is the one of the second half of the first head, where rows are in pairs.
        let second = if name == "llama" { source.config.head_width / 2 } else { 1 };
        assert_eq!(rows[4..8], query.b.values()[second * 4..second * 4 + 4], "{name}");
        let error = ModelFolder::read(&path, &TextHost::InProcess).unwrap_err().to_string();
        assert!(error.contains("it holds an adapter without its model"), "{error}");
    }
}

#[test]
fn a_template_for_tools_and_unused_embeddings_are_kept() {
    let mut source = model(&reference("qwen3"));
    source.tool_template = Some("with tools".to_owned());
    source.config.vocabulary += 5;
    source.weights = initial(&source.config, 1);
    let (_folder, path) = written(&source, GgufNumbers::F32);
    let read = model(&path);
    assert_eq!(read.tool_template.as_deref(), Some("with tools"));
    assert_eq!(digest(&read.weights), digest(&source.weights));
    let GgufValue::Texts(tokens) = &parts(&path).0["tokenizer.ggml.tokens"] else { panic!("no tokens") };
    assert_eq!(tokens[320..], ["[PAD320]", "[PAD321]", "[PAD322]", "[PAD323]", "[PAD324]"]);
    assert_eq!(
        read.texts().unwrap().tokenizer.encode("Hi").unwrap(),
        source.texts().unwrap().tokenizer.encode("Hi").unwrap()
    );
}

#[test]
fn what_a_gguf_file_cannot_hold_is_refused_by_name_and_leaves_no_file() {
    let refused = |name: &str, change: &dyn Fn(&mut ModelFolder, &mut Value), expect: &str| {
        let mut source = model(&reference(name));
        let mut tokenizer: Value = serde_json::from_str(&source.tokenizer_json).unwrap();
        change(&mut source, &mut tokenizer);
        source.tokenizer_json = tokenizer.to_string();
        let folder = tempfile::tempdir().unwrap();
        let error = source.write_gguf(&folder.path().join("m.gguf"), "m", GgufNumbers::F16).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    };
    let splits = "splits texts in a way that has no name there";
    refused("llama", &|_, json| json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!("x+"), splits);
    refused("llama", &|_, json| json["pre_tokenizer"]["pretokenizers"][0]["invert"] = json!(true), splits);
    refused("llama", &|_, json| json["model"]["ignore_merges"] = json!(false), splits);
    refused("qwen2", &|_, json| json["normalizer"] = Value::Null, splits);
    refused("qwen2", &|_, json| json["normalizer"] = json!({ "type": "Lowercase" }), "changes texts by Lowercase");
    refused("qwen2", &|_, json| json["model"]["byte_fallback"] = json!(true), "has the setting byte_fallback");
    refused("qwen2", &|_, json| json["added_tokens"][0]["lstrip"] = json!(true), "takes spaces beside it");
    refused("qwen2", &|_, json| json["added_tokens"][0]["id"] = json!(320), "has the number 320");
    refused("qwen2", &|_, json| json["added_tokens"][0]["content"] = json!("<|im_end|>"), "is there twice");
    refused("qwen2", &|_, json| json["model"]["merges"][0] = json!("a b c"), "the merge `a b c` is no pair");
    refused(
        "llama",
        &|_, json| json["post_processor"]["single"].as_array_mut().unwrap().reverse(),
        "adds something else to a text",
    );
    refused(
        "llama",
        &|model, _| model.words = [("bos_token".to_owned(), "<|eot_id|>".to_owned())].into(),
        "texts begin with another token than the bos_token",
    );
    refused(
        "llama",
        &|model, _| model.words = [("bos_token".to_owned(), "<s>".to_owned())].into(),
        "its template uses the bos_token, which is none of its tokens",
    );
    refused("qwen2", &|model, _| model.config.end_tokens = vec![1, 2, 3, 4], "4 tokens end an answer");
    refused(
        "qwen2",
        &|model, _| {
            model.words.clear();
            model.config.end_tokens.clear();
        },
        "no token ends an answer",
    );
    refused(
        "llama",
        &|model, _| {
            let (low, high) = (1.0, 8.0);
            model.config.rotary_scaling = crate::RotaryScaling::Llama3 { factor: 8.0, low, high, original: 64.0 };
        },
        "low_freq_factor 1 and high_freq_factor 8",
    );
    let tiny = TinyModel::default().make().unwrap();
    let error = tiny.write_gguf(Path::new("m.gguf"), "m", GgufNumbers::F16).unwrap_err().to_string();
    let expect = "a GGUF file cannot hold this model: its tokenizer is of the kind WordLevel, and byte-level BPE is written; export it as a folder";
    assert_eq!(error, expect);
    let error = tiny.write_gguf_adapter(Path::new("m.gguf"), "m", GgufNumbers::F16).unwrap_err().to_string();
    assert!(error.contains("the model has no adapter"), "{error}");
}

#[test]
fn a_file_is_replaced_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut source = model(&reference("llama"));
    // What a process that was killed left.
    std::fs::write(folder.path().join(".model.gguf.new"), "half of a file").unwrap();
    source.write_gguf(&path, "m", GgufNumbers::F32).unwrap();
    let before = std::fs::read(&path).unwrap();
    source.weights.norm = vec![1.0; source.config.width].into();
    let mut values = source.weights.embedding.values().into_owned();
    values[0] = 9e8;
    source.weights.embedding = crate::HostMatrix::new("e", source.weights.embedding.shape, values).unwrap();
    let error = source.write_gguf(&path, "m", GgufNumbers::F16).unwrap_err().to_string();
    assert!(error.contains("too large for f16"), "{error}");
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
