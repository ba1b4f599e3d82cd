//! Generation on burn's processor device: logits equal those of the processor path in every batch.

use super::{DeviceModel, Network, Rows, values};
use crate::BurnDevice;
use crate::testing::{config, text};
use burn::tensor::{Device, Tensor};
use clawhost_model::cpu::{CpuModel, Work};
use clawhost_model::device::{AcceleratedModel as _, Slot};
use clawhost_model::generate::{Answer, Engine, Model, Request, Sampling, Version};
use clawhost_model::{Architecture, LocalModelError, ModelConfig, digest, initial};
use std::sync::Arc;

fn pair(architecture: Architecture, context: usize) -> (CpuModel, DeviceModel) {
    let config = Arc::new(ModelConfig { context, ..config(architecture) });
    let host = initial(&config, 7);
    let device = DeviceModel::new(&BurnDevice::named("vulkan:0"), config.clone(), &host);
    (CpuModel::new(config, &host), device)
}

/// The processor's logits after the last token.
fn right(model: &CpuModel, tokens: &[u32]) -> Vec<f32> {
    let mut cache = model.cache();
    let mut work = [Work::last(&mut cache, tokens)];
    model.forward(&mut work);
    let [work] = work;
    work.logits
}

/// The processor's logits after every token.
fn every(model: &CpuModel, tokens: &[u32]) -> Vec<f32> {
    let mut cache = model.cache();
    let mut work = [Work { cache: &mut cache, tokens, logits: Vec::new(), every: true }];
    model.forward(&mut work);
    let [work] = work;
    work.logits
}

fn close(found: &[f32], right: &[f32], what: &str) {
    let worst = found.iter().zip(right).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    assert!(found.len() == right.len() && worst < 1e-4, "{what}: {worst}");
}

#[test]
fn logits_equal_the_processors_for_all_lengths_and_batches() {
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        let (cpu, device) = pair(architecture, 700);
        let lengths = [1, 2, 15, 16, 17, 63, 64, 65, 90, 3, 300, 600];
        let texts: Vec<Vec<u32>> = (0..).zip(lengths).map(|(salt, length)| text(length, salt)).collect();
        // First all of them at once, without their last five tokens.
        let mut held: Vec<Slot> = texts.iter().map(|_| device.begin()).collect();
        let begin = |text: &[u32]| text.len().saturating_sub(5).max(1);
        let mut work: Vec<_> = held.iter_mut().zip(&texts).map(|(held, text)| (held, &text[..begin(text)])).collect();
        let found = device.forward(&mut work).unwrap();
        for (found, text) in found.iter().zip(&texts) {
            close(found, &right(&cpu, &text[..begin(text)]), &format!("{architecture:?} {}", text.len()));
        }
        // Then token by token, in changing batches.
        for step in 0..5 {
            let mut work = Vec::new();
            let mut expect = Vec::new();
            for (held, text) in held.iter_mut().zip(&texts) {
                let at = held.tokens().len();
                if at < text.len() && (at + step) % 3 != 0 {
                    expect.push(&text[..at + 1]);
                    work.push((held, &text[at..at + 1]));
                }
            }
            for (found, text) in device.forward(&mut work).unwrap().iter().zip(expect) {
                close(found, &right(&cpu, text), &format!("{architecture:?} {}, step {step}", text.len()));
            }
        }
    }
}

#[test]
fn a_reused_slot_and_a_copied_slot_hold_only_their_own_sequence() {
    let (cpu, device) = pair(Architecture::Qwen3, 128);
    let (one, other) = (text(70, 1), text(40, 2));
    let mut first = device.begin();
    device.forward(&mut [(&mut first, &one)]).unwrap();
    let mut copy = device.copy(&first, 60).unwrap();
    assert_eq!((copy.tokens(), device.knows(&copy)), (&one[..60], true));
    drop(first);
    let mut second = device.begin();
    assert_eq!(second.number(), 0, "the slot was given back");
    let longer = [&one[..60], &other].concat();
    let found = device.forward(&mut [(&mut second, &other), (&mut copy, &other)]).unwrap();
    close(&found[0], &right(&cpu, &other), "in a reused slot");
    close(&found[1], &right(&cpu, &longer), "after a copied prefix");
    let (_, stranger) = pair(Architecture::Qwen3, 128);
    assert!(!stranger.knows(&copy));
}

fn version(number: u64, model: Model) -> Version {
    let config = Arc::new(config(Architecture::Qwen3));
    Version { number, digest: digest(&initial(&config, 7)), model }
}

fn request(seed: u64) -> Request {
    Request {
        prompt: text(20, 3),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        seed,
        grammar: None,
        choice: 0,
        max_tokens: 24,
        alternatives: 0,
        end: vec![60],
        partition: clawhost_core::Partition::OWN,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_on_a_device_gives_the_answers_of_the_processor() {
    let (cpu, device) = pair(Architecture::Qwen3, 128);
    let right = Engine::new(version(1, cpu.into())).unwrap().ask(request(1)).await.unwrap();
    let engine = Arc::new(Engine::new(version(1, Model::Accelerator(Box::new(device)))).unwrap());
    let asking: Vec<_> = (0..7)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.ask(request(1)).await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for one in asking {
        answers.push(one.await.unwrap());
    }
    // A continued conversation reuses its computed prefix.
    let mut longer = request(1);
    longer.prompt.extend(right.tokens.iter().map(|drawn| drawn.token));
    longer.prompt.push(3);
    assert!(engine.ask(longer).await.unwrap().reused > 20);
    for answer in answers {
        assert_eq!(answer.tokens.len(), right.tokens.len());
        for (found, right) in answer.tokens.iter().zip(&right.tokens) {
            assert_eq!(found.token, right.token);
            assert!((found.logprob_model - right.logprob_model).abs() < 1e-4);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_fails_every_waiting_request_and_the_engine_continues() {
    let (cpu, good) = pair(Architecture::Qwen3, 128);
    let (_, mut broken) = pair(Architecture::Qwen3, 128);
    // A weight of another shape: burn panics during the pass, as it does when a device is lost.
    broken.network.weights.norm = Tensor::zeros([7], &broken.network.device());
    let engine = Arc::new(Engine::new(version(1, cpu.into())).unwrap());
    let right = engine.ask(request(1)).await.unwrap();
    engine.publish(version(2, Model::Accelerator(Box::new(broken))));
    let asking: Vec<_> = (0..3)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.ask(request(1)).await.unwrap_err() })
        })
        .collect();
    for one in asking {
        let error = one.await.unwrap();
        assert!(matches!(&error, LocalModelError::DeviceLost { name, .. } if name == "vulkan:0"), "{error}");
    }
    engine.publish(version(3, Model::Accelerator(Box::new(good))));
    let answer = engine.ask(request(1)).await.unwrap();
    let tokens = |answer: &Answer| answer.tokens.iter().map(|one| one.token).collect::<Vec<_>>();
    assert_eq!((answer.version, tokens(&answer)), (3, tokens(&right)));
}

#[test]
fn a_slot_from_before_a_failure_is_refused() {
    let (_, mut model) = pair(Architecture::Qwen3, 128);
    let mut held = model.begin();
    model.forward(&mut [(&mut held, &text(9, 1))]).unwrap();
    let whole = model.network.weights.norm.clone();
    model.network.weights.norm = Tensor::zeros([7], &model.network.device());
    let mut other = model.begin();
    assert!(model.forward(&mut [(&mut other, &text(5, 2))]).is_err());
    model.network.weights.norm = whole;
    let error = model.forward(&mut [(&mut held, &[3])]).unwrap_err().to_string();
    assert!(error.contains("its keys and values were lost when it failed before"), "{error}");
    assert!(!model.knows(&held) && held.tokens().len() == 9);
    let mut fresh = model.begin();
    model.forward(&mut [(&mut fresh, &text(9, 1))]).unwrap();
}

#[test]
fn logits_of_padded_and_packed_rows_equal_the_processors() {
    let families = [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3];
    for (architecture, head_width) in families.into_iter().zip([22, 16, 86]) {
        let config = Arc::new(ModelConfig { head_width, ..config(architecture) });
        let host = initial(&config, 3);
        let network = Network::new(config.clone(), &host, &Device::flex());
        let texts = [text(90, 1), text(17, 2), text(1, 3)];
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let rows = [Rows::padded(&texts, &Device::flex()), Rows::packed(&texts, 110, &Device::flex())];
        for rows in rows {
            let logits = values(&network.logits(&rows)).unwrap();
            for (tokens, place) in texts.iter().zip(&rows.places) {
                let right = every(&CpuModel::new(config.clone(), &host), tokens);
                let start = (place.row * rows.shape[1] + place.start) * config.vocabulary;
                let found = &logits[start..start + right.len()];
                let worst = found.iter().zip(&right).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
                assert!(worst < 2e-5, "{architecture:?} {place:?}: {worst}");
            }
        }
    }
}
