//! What differs silently where a reader overlooks it, compared with transformers: keys of config.json, restrictions of sampling, templates.
//! `differences.py` makes the reference.

use crate::{expected, message, numbers, on_processor, reference};
use clawhost_model::ModelFolder;
use clawhost_model::generate::{Penalties, Sampler, Sampling};
use clawhost_model::tokens::{TemplateArguments, TextFiles, TextHost, Texts};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Largest difference of a logit: the documents have six digits after the point, and both sides compute in f32, in another order.
const LIMIT: f64 = 2e-5;

fn document(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The first logits at the last place, of the folder with another config.json.
fn first_logits(name: &str, config: &Map<String, Value>, count: usize) -> Result<Vec<f32>, String> {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(reference(name)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let text = Value::Object(config.clone()).to_string();
    std::fs::write(folder.path().join("config.json"), text).unwrap();
    let model = ModelFolder::read(folder.path(), &TextHost::InProcess).map_err(|error| error.to_string())?;
    let (config, tokens) = (Arc::new(model.config), numbers(&expected(name)["tokens"]));
    let logits = on_processor(&config, &model.weights, &tokens);
    Ok(logits[logits.len() - config.vocabulary..][..count].to_vec())
}

/// Changes that transformers ignores, and that are refused here: a program that derives from the family may give them a meaning. Of a tied
/// model with another head, versions of transformers take the one or the other.
const STRICTER: [&str; 8] = [
    "final_logit_softcapping",
    "is_encoder_decoder",
    "logit_scale",
    "mlp_bias",
    "partial_rotary_factor",
    "rope_scaling",
    "sliding_window",
    "tie_word_embeddings",
];

#[test]
fn every_key_of_config_json_is_refused_or_gives_the_logits_of_transformers() {
    for name in crate::MODELS {
        let written = document(&reference(name).join("config.json")).as_object().unwrap().clone();
        let cases = document(&reference(name).join("keys.json"));
        let (mut equal, mut moved, mut stricter) = (0, 0, BTreeSet::new());
        let unchanged =
            cases.as_array().unwrap().iter().find(|case| case["change"].get("use_cache").is_some()).unwrap();
        for case in cases.as_array().unwrap() {
            let mut config = written.clone();
            match case.get("removed") {
                Some(key) => drop(config.remove(key.as_str().unwrap())),
                None => config.extend(case["change"].as_object().unwrap().clone()),
            }
            let Some(right) = case["logits"].as_array() else {
                // transformers refuses it too; whatever is made of it here is no silent difference.
                continue;
            };
            match first_logits(name, &config, right.len()) {
                Ok(found) => {
                    let far = |(found, right): (&f32, &Value)| (f64::from(*found) - right.as_f64().unwrap()).abs();
                    let worst = found.iter().zip(right).map(far).fold(0.0, f64::max);
                    assert!(worst < LIMIT, "{name}: {case}: {worst:e} off");
                    equal += 1;
                    moved += usize::from(case["logits"] != unchanged["logits"]);
                }
                Err(_) if case["logits"] != unchanged["logits"] => {}
                Err(error) => {
                    let keys: Vec<&String> =
                        case["change"].as_object().into_iter().flatten().map(|(key, _)| key).collect();
                    let known = keys.iter().find(|key| STRICTER.contains(&key.as_str()));
                    stricter.insert(
                        *known.unwrap_or_else(|| panic!("{name}: {case} changes nothing, and is refused: {error}")),
                    );
                }
            }
        }
        println!("{name}: {equal} equal, of which {moved} moved the logits; stricter: {stricter:?}");
        assert!(equal > 40 && moved > 6, "{name}: {equal}, {moved}");
    }
}

/// A token and what is added to its logit.
fn bias(pair: &Value) -> (u32, f32) {
    (pair[0].as_u64().unwrap() as u32, pair[1].as_f64().unwrap() as f32)
}

#[test]
fn restricted_sampling_keeps_the_tokens_that_transformers_keeps() {
    let cases = document(&reference("sampling.json"));
    for case in cases.as_array().unwrap() {
        let said = &case["sampling"];
        let number = |name: &str| said[name].as_f64().map(|number| number as f32);
        let sampling = Sampling {
            temperature: number("temperature").unwrap_or(1.0),
            top_k: said["top_k"].as_u64().map(|k| k as usize),
            top_p: number("top_p").unwrap_or(1.0),
            min_p: number("min_p").unwrap_or(0.0),
            bias: said["bias"].as_array().into_iter().flatten().map(bias).collect(),
            penalties: Penalties { repetition: number("repetition_penalty").unwrap_or(1.0), ..Penalties::default() },
        };
        let prompt = if case["prompt"].is_null() { Vec::new() } else { numbers(&case["prompt"]) };
        let logits: Vec<f32> =
            case["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap() as f32).collect();
        let kept = numbers(&case["kept"]);
        for seed in 0..5 {
            let drawn = Sampler::new(sampling.clone(), &prompt, seed, 0).draw(&logits, None);
            assert_eq!(drawn.kept.as_deref(), sampling.restricts().then_some(&kept[..]), "{said}");
            let place = kept.iter().position(|token| *token == drawn.token).unwrap();
            let right = case["logprobs"][place].as_f64().unwrap();
            assert!((f64::from(drawn.logprob_sampled) - right).abs() < 1e-5, "{said}: {drawn:?}, {right}");
        }
    }
}

#[test]
fn templates_give_the_texts_of_transformers() {
    let document = document(&reference("snippets.json"));
    let tokenizer = std::fs::read_to_string(reference("llama").join("tokenizer.json")).unwrap();
    let words: BTreeMap<String, String> = serde_json::from_value(document["words"].clone()).unwrap();
    let messages: Vec<_> = document["messages"].as_array().unwrap().iter().map(message).collect();
    for case in document["snippets"].as_array().unwrap() {
        let source = case["template"].as_str().unwrap();
        let files =
            TextFiles { tokenizer_json: &tokenizer, template: Some(source), tool_template: None, words: &words };
        let texts = Texts::open(&files, &[], &TextHost::InProcess).unwrap();
        assert_eq!(
            texts.template.unwrap().render(&messages, &[], &TemplateArguments::default()).unwrap(),
            case["text"].as_str().unwrap(),
            "{source}"
        );
    }
}
