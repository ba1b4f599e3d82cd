//! Local models compared with `transformers` and `peft`, whose results are in `reference`, made by `make_reference.py`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod differences;
mod gguf;

use clawhost_burn::BurnDevice;
use clawhost_burn::network::{Network, Rows, values};
use clawhost_core::{Message, Origin, Partition, Role, ToolCall, ToolSpec};
use clawhost_model::cpu::{CpuModel, Work};
use clawhost_model::device::ComputeDevice;
use clawhost_model::generate::{Request, Sampling};
use clawhost_model::tokens::TemplateArguments;
use clawhost_model::train::{OptimizerSettings, Schedule, Sequence, TokenScores, Trained, Trainer};
use clawhost_model::{AdapterFolder, AdapterSettings, HostDecoder, LocalModelError, ModelConfig, ModelFolder};
use clawhost_model::{Stored, TinyModel, digest};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest difference of a logit: both sides compute in f32, in another order.
const LIMIT: f32 = 1e-5;
const MODELS: [&str; 3] = ["qwen2", "qwen3", "llama"];

fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transformers/reference").join(name)
}

fn expected(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(reference(name).join("expected.json")).unwrap()).unwrap()
}

fn read(name: &str) -> ModelFolder {
    ModelFolder::read(&reference(name), &clawhost_model::tokens::TextHost::InProcess).unwrap()
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
}

/// Logits after every token, on the processor.
fn on_processor(config: &Arc<ModelConfig>, weights: &HostDecoder, tokens: &[u32]) -> Vec<f32> {
    let model = CpuModel::new(config.clone(), weights);
    let mut cache = model.cache();
    let mut work = [Work { cache: &mut cache, tokens, logits: Vec::new(), every: true }];
    model.forward(&mut work);
    let [work] = work;
    work.logits
}

/// The same on burn's processor device.
fn on_device(config: &Arc<ModelConfig>, weights: &HostDecoder, tokens: &[u32]) -> Vec<f32> {
    let device = BurnDevice::processor();
    let network = Network::new(config.clone(), weights, device.burn());
    values(&network.logits(&Rows::padded(&[tokens], device.burn()))).unwrap()
}

/// The largest deviation.
fn worst(logits: &[f32], expected: &Value, vocabulary: usize) -> f32 {
    let places = numbers(&expected["places"]);
    let rows = expected["logits"].as_array().unwrap();
    let mut worst = 0.0f32;
    for (place, row) in places.iter().zip(rows) {
        let found = &logits[*place as usize * vocabulary..][..vocabulary];
        for (found, right) in found.iter().zip(row.as_array().unwrap()) {
            worst = worst.max((f64::from(*found) - right.as_f64().unwrap()).abs() as f32);
        }
    }
    worst
}

#[test]
fn logits_equal_those_of_transformers_on_both_paths() {
    for name in MODELS {
        let (folder, expected) = (read(name), expected(name));
        let (config, tokens) = (Arc::new(folder.config.clone()), numbers(&expected["tokens"]));
        for (path, logits) in [
            ("processor", on_processor(&config, &folder.weights, &tokens)),
            ("device", on_device(&config, &folder.weights, &tokens)),
        ] {
            let worst = worst(&logits, &expected, config.vocabulary);
            println!("{name}, {path}: {worst:e}");
            assert!(worst < LIMIT, "{name} on the {path}: {worst:e}");
        }
    }
}

#[test]
fn tokens_and_texts_equal_those_of_transformers() {
    for name in MODELS {
        let (folder, expected) = (read(name), expected(name));
        let tokenizer = folder.texts().unwrap().tokenizer;
        for one in expected["texts"].as_array().unwrap() {
            let (text, tokens) = (one["text"].as_str().unwrap(), numbers(&one["tokens"]));
            assert_eq!(tokenizer.encode(text).unwrap(), tokens, "{name}: {text:?}");
            let beginning = usize::from(name == "llama");
            assert_eq!(tokenizer.encode_whole(text).unwrap()[beginning..], tokens, "{name}: {text:?}");
            assert_eq!(tokenizer.decode(&tokens, true).unwrap(), one["decoded"].as_str().unwrap(), "{name}: {text:?}");
        }
    }
}

fn message(told: &Value) -> Message {
    let role: Role = serde_json::from_value(told["role"].clone()).unwrap();
    let mut message = Message::text(role, Origin::Host, told["content"].as_str().unwrap());
    for call in told["tool_calls"].as_array().into_iter().flatten() {
        let text = |name: &str| call["function"][name].as_str().unwrap().to_owned();
        let arguments = call["function"]["arguments"].to_string();
        let id = call["id"].as_str().unwrap().to_owned();
        message.tool_calls.push(ToolCall { id, name: text("name"), arguments, extra: Vec::new() });
    }
    message.tool_call_id = told["tool_call_id"].as_str().map(str::to_owned);
    message
}

fn tool(told: &Value) -> ToolSpec {
    let text = |name: &str| told["function"][name].as_str().unwrap().to_owned();
    let input_schema = told["function"]["parameters"].to_string();
    ToolSpec { name: text("name"), description: text("description"), input_schema, extra: Vec::new() }
}

#[test]
fn conversations_are_rendered_exactly_as_by_transformers() {
    for name in MODELS {
        let (folder, expected) = (read(name), expected(name));
        let template = folder.texts().unwrap().template.unwrap();
        let chats = expected["chats"].as_object().unwrap();
        assert!(chats.len() > 5);
        for (what, chat) in chats {
            let messages: Vec<Message> = chat["messages"].as_array().unwrap().iter().map(message).collect();
            let tools: Vec<ToolSpec> = chat["tools"].as_array().into_iter().flatten().map(tool).collect();
            let text = template.render(&messages, &tools, &TemplateArguments::default()).unwrap();
            assert_eq!(text, chat["text"].as_str().unwrap(), "{name}: {what}");
        }
    }
}

#[tokio::test]
async fn greedy_answers_equal_those_of_generate() {
    for name in MODELS {
        let (folder, expected) = (read(name), expected(name));
        let config = Arc::new(folder.config.clone());
        let engine = folder.engine(&ComputeDevice::processor()).unwrap();
        let answer = numbers(&expected["answer"]);
        let request = Request {
            prompt: numbers(&expected["prompt"]),
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            grammar: None,
            seed: 0,
            choice: 0,
            max_tokens: 24,
            end: config.end_tokens.clone(),
            alternatives: 0,
            partition: Partition::OWN,
        };
        let tokens: Vec<u32> = engine.ask(request).await.unwrap().tokens.iter().map(|token| token.token).collect();
        assert_eq!(tokens, answer, "{name}");
    }
}

#[test]
fn the_default_sampling_of_a_model_is_read() {
    let check = |name: &str, sampling: Sampling, end: &[&str]| {
        let folder = read(name);
        let tokenizer = folder.texts().unwrap().tokenizer;
        let end: Vec<u32> = end.iter().map(|word| tokenizer.token(word).unwrap().unwrap()).collect();
        assert_eq!((folder.sampling, folder.config.end_tokens), (sampling, end), "{name}");
    };
    let plain = Sampling::default();
    let qwen2 = Sampling { temperature: 0.7, top_p: 0.8, top_k: Some(20), ..plain.clone() };
    check("qwen2", qwen2, &["<|im_end|>", "<|endoftext|>"]);
    // The folder does not say `top_k`, and transformers takes 50 then.
    let qwen3 = Sampling { temperature: 0.6, top_p: 0.95, min_p: 0.05, top_k: Some(50), ..plain.clone() };
    check("qwen3", qwen3, &["<|im_end|>"]);
    check("llama", Sampling { temperature: 0.0, ..plain }, &["<|eot_id|>"]);
}

#[test]
fn adapters_from_peft_give_its_logits() {
    for name in ["adapter", "adapter-rs"] {
        let (folder, expected) = (read("qwen3"), expected(name));
        let (config, tokens) = (Arc::new(folder.config.clone()), numbers(&expected["tokens"]));
        let weights = AdapterFolder::read(&reference(name)).unwrap().attach(&folder.weights).unwrap();
        let before = worst(&on_processor(&config, &folder.weights, &tokens), &expected, config.vocabulary);
        assert!(before > 0.1, "{name} moves logits by {before}");
        for (path, logits) in
            [("processor", on_processor(&config, &weights, &tokens)), ("device", on_device(&config, &weights, &tokens))]
        {
            let worst = worst(&logits, &expected, config.vocabulary);
            println!("{name}, {path}: {worst:e}");
            assert!(worst < LIMIT, "{name} on the {path}: {worst:e}");
        }
        // Merged, and written again as an adapter, it is the same.
        let folder = tempfile::tempdir().unwrap();
        AdapterFolder::of(&weights, "qwen3").unwrap().write(folder.path()).unwrap();
        let again = AdapterFolder::read(folder.path()).unwrap().attach(&weights).unwrap();
        assert!(worst(&on_processor(&config, &again.merged(), &tokens), &expected, config.vocabulary) < LIMIT);
    }
}

/// For `make_reference.py --ours`: logits that were computed here.
fn computed(folder: &Path, config: &Arc<ModelConfig>, weights: &HostDecoder, more: Value) {
    let tokens: Vec<u32> = (0..20).map(|place| (place * 37 + 11) % config.vocabulary as u32).collect();
    let logits = on_processor(config, weights, &tokens);
    let rows: Vec<&[f32]> = logits.chunks(config.vocabulary).collect();
    let mut told = serde_json::json!({ "tokens": tokens, "logits": rows });
    told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    std::fs::write(folder.join("computed.json"), told.to_string()).unwrap();
}

/// Models and adapters that were made and trained here, for `transformers` and `peft` to load. `cargo xtask
/// transformers` sets the folder.
#[test]
fn exported_models_and_adapters_are_written_for_other_programs() {
    let temporary = tempfile::tempdir().unwrap();
    let root = std::env::var_os("CLAWHOST_TRANSFORMERS_OUT").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    for (name, stored, shard) in
        [("qwen2", Stored::F32, None), ("qwen3", Stored::BF16, None), ("llama", Stored::F16, Some(30_000))]
    {
        // The reference is stored in 16 bits, so writing it in 16 bits loses nothing.
        let model = read(name);
        let folder = root.join(name);
        model.write_as(&folder, stored, shard).unwrap();
        let again = ModelFolder::read(&folder, &clawhost_model::tokens::TextHost::InProcess).unwrap();
        assert_eq!((digest(&again.weights), &again.sampling), (digest(&model.weights), &model.sampling), "{name}");
        assert_eq!((&again.config, &again.template), (&model.config, &model.template), "{name}");
        let text = "Hello, world! <|im_end|>";
        let told =
            serde_json::json!({ "text": text, "text_tokens": model.texts().unwrap().tokenizer.encode(text).unwrap() });
        computed(&folder, &Arc::new(model.config.clone()), &again.weights, told);
    }
    let tiny = TinyModel { seed: 3, ..TinyModel::default() }.make().unwrap();
    tiny.write(&root.join("tiny")).unwrap();
    let text = serde_json::json!({ "text": "1+2=3#", "text_tokens": [1, 10, 2, 11, 3, 15] });
    computed(&root.join("tiny"), &Arc::new(tiny.config.clone()), &tiny.weights, text);

    // An adapter that was trained here, separately and merged.
    let base = read("qwen3");
    let config = Arc::new(base.config.clone());
    let settings = AdapterSettings { rank: 4, alpha: 8.0, seed: 1, ..AdapterSettings::default() };
    let (optimizer, schedule) = (OptimizerSettings::default(), Schedule::constant(2e-2));
    let begun = settings.attach(&base.weights).unwrap();
    let mut trainer = Trainer::on_processor(config.clone(), &begun, Trained::Adapters, optimizer, schedule);
    let tokens: Vec<u32> = (0..24).map(|place| place * 13 % 320).collect();
    let mask: Vec<bool> = (0..24).map(|place| place > 0).collect();
    let sequence = Sequence::new(tokens, &mask, 1.0).unwrap();
    for _ in 0..5 {
        let loss = |_: usize, scores: &[Vec<TokenScores>]| {
            let of = |unit: &Vec<TokenScores>| vec![-0.1; unit.iter().map(|one| one.logprobs.len()).sum()];
            Ok::<_, LocalModelError>((scores.iter().map(of).collect(), ()))
        };
        trainer.accumulate(&[std::slice::from_ref(&sequence)], &loss).unwrap();
        trainer.step().unwrap().unwrap();
    }
    let learned = trainer.host().unwrap();
    let folder = root.join("trained-adapter");
    AdapterFolder::of(&learned, "qwen3").unwrap().write(&folder).unwrap();
    computed(&folder, &config, &learned, serde_json::json!({ "base": "qwen3" }));
    let whole = ModelFolder { weights: learned.merged(), ..base };
    whole.write(&root.join("merged")).unwrap();
    computed(&root.join("merged"), &config, &learned, serde_json::json!({}));
}
